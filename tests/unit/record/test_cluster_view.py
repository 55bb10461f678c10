"""What a person sees of a set of jobs: the line about all of them, and the table of those that run."""

from __future__ import annotations

import pytest

from runtime.record.cluster import JobRow, JobTable
from runtime.record.cluster_view import (
    LINE_EVERY,
    MAX_ROWS,
    LiveClusterView,
    PlainClusterView,
    headline,
    make_cluster_view,
)
from runtime.record.screen import NoView
from tests.unit.record.test_view import console, text_of

NUM_GPUS = 100


@pytest.fixture
def table() -> JobTable:
    """Of 25 jobs with two GPUs each, 22 run from 1 s on, the next one waits, the next is over, and one is not there."""
    rows = [
        JobRow(job=f"j{n}", submit_s=0.0, gpus=2, servers=1, model="resnet20", user="", worker_hosts=[3, 0, 3])
        for n in range(25)
    ]
    found = JobTable(rows)
    for n in range(24):
        found.note(0.0, "Submitted", job=f"j{n}")
    for n in (*range(22), 23):
        found.note(1.0, "Placed", job=f"j{n}", workers=[3, 0, 3], servers=[1])
    found.note(2.0, "Ended", job="j23", status="done")
    return found


def test_the_line_counts_jobs_and_the_gpus_that_they_hold(table: JobTable) -> None:
    words = " ".join(headline(table, 4.0, NUM_GPUS).split())
    assert words == "4.0 s waiting 1 running 22 ended 1/25 GPUs 44/100"


def test_the_table_names_jobs_that_run_and_counts_those_that_it_has_no_room_for(table: JobTable) -> None:
    screen = console(terminal=True)
    LiveClusterView(table, "a set", NUM_GPUS, screen).close(11.0)
    shown = text_of(screen).rpartition("a set")[2]
    (first,) = [line for line in shown.splitlines() if line.startswith("j0 ")]
    assert first.split() == ["j0", "resnet20", "2", "1", "10", "0", "3", "1"], "hosts are named once, in order"
    assert "j19" in shown
    assert "j20" not in shown
    assert f"and {22 - MAX_ROWS} more" in shown


def test_which_view(table: JobTable) -> None:
    for choice, kind in (("none", NoView), ("plain", PlainClusterView), ("auto", LiveClusterView)):
        view = make_cluster_view(choice, table, "a set", NUM_GPUS, console(terminal=True))
        assert type(view) is kind
        view.close(1.0)


def test_plain_lines_come_now_and_then_and_at_the_end(table: JobTable) -> None:
    screen = console(terminal=False)
    view = PlainClusterView(table, "a set", NUM_GPUS, screen)
    for look in range(2 * LINE_EVERY + 1):
        view.tick(float(look + 1))
    view.close(99.0)
    title, *lines = text_of(screen).splitlines()
    assert title == "a set"
    assert [float(line.split()[0]) for line in lines] == [LINE_EVERY, 2 * LINE_EVERY, 99.0]
