"""Prevention among real processes: a reservation limits the neighbour's processor and link, and ends with its job."""

from __future__ import annotations

import os
import signal
from typing import Any

import pytest

from tests.live.test_live_job_sets import assert_all_exact, begin, entry, hosts, pid_of, record_of, with_settings  # noqa: F401  (a fixture)
from tests.support.exact import ALLOW
from tests.support.job_sets import notes_of, table_of
from tests.support.leaks import Start
from tests.support.runs import CONF, RecordSink, Run
from tests.support.task_groups import quota_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(300)]

WORDS = (*CONF, "strategy=reserving", "prevention=parts", "placement=spread", "draw=false")
PACED = "cluster.device={base_s:0.02,per_sample_s:0}"
MORE = "strategy.more=['server:0@0.1']"
TASKS = ("server:0", "worker:0", "worker:1")
SLOW_S = 150.0
"""For machines on which two jobs take a minute to start."""


def begin_two(start: Start, asks: int = 300, gives: int = 300) -> Run:
    """A job that reserves, and one beside it that has to leave something, of so many epochs."""
    two = (with_settings(entry("asks", 0, 2, asks), MORE), entry("gives", 0, 2, gives))
    return begin(start, *two, words=(*WORDS, PACED), env=ALLOW)


def limits(record: RecordSink) -> dict[str, dict[str, Any]]:
    """The last limit of every task for others' sake."""
    return {note["node"]: note for note in record.notes("Limited")}


def quota(record: RecordSink, task: str) -> float | None:
    """Cores of a task's process, as the kernel enforces them now."""
    role, _, number = task.partition(":")
    return quota_of(pid_of(record, role, int(number)))


def await_limits(run: Run) -> RecordSink:
    """The record of ``gives``, once the kernel has limited its tasks to what it is left."""
    record = record_of(run, "gives")
    run.await_that(lambda: set(limits(record)) == set(TASKS), "all limits", SLOW_S)
    for task, limit in limits(record).items():
        assert quota(record, task) == pytest.approx(max(limit["cpu_cores"], 0.01), rel=0.02)
    run.await_that(lambda: {*rates(record)} == {*TASKS}, "all rates", SLOW_S)
    for task, limit in limits(record).items():
        connections = 2 if task == "server:0" else 1
        assert rates(record)[task] == pytest.approx(limit["link_bytes_per_s"] / connections, abs=1.0)
    return record


def rates(record: RecordSink) -> dict[str, float]:
    """Bytes per second that the kernel lets each connection of a task send; tasks without a limit are left out."""
    held = {note["node"]: note["link_bytes_per_s"] for note in record.notes("Enforced") if "link_bytes_per_s" in note}
    return {node: rate for node, rate in held.items() if rate is not None}


def assert_none_is_left(run: Run, record: RecordSink) -> None:
    run.await_that(lambda: not any(map(is_limited, limits(record).values())), "the end of all limits", SLOW_S)
    assert [quota(record, task) for task in TASKS] == [None] * 3
    run.await_that(lambda: rates(record) == {}, "the end of all rates", SLOW_S)


def is_limited(note: dict[str, Any]) -> bool:
    return note.get("cpu_cores") is not None or note.get("link_bytes_per_s") is not None


@pytest.mark.long(like="tests/unit/live/test_live_sharing.py::test_live_jobs_get_the_limits_of_the_virtual_clock")
def test_a_reservation_limits_the_neighbour_until_its_job_ends(start: Start) -> None:
    run = begin_two(start, 6, 14)
    record = await_limits(run)
    run.await_that(lambda: record_of(run, "asks").notes("Finished"), "the end of the job that asks")
    assert_none_is_left(run, record)
    run.finish(SLOW_S)
    assert set(table_of(run.run_dir).status) == {"done"}
    of_asks = [note for note in notes_of(run.run_dir) if note["type"] in ("Reserved", "Released")]
    assert [note["type"] for note in of_asks] == ["Reserved", "Released"]
    assert {share["job"] for share in of_asks[0]["shares"]} == {"gives"}
    assert_all_exact(run, [2, 2], {"asks": 6.0, "gives": 14.0})


def kill_the_agent(run: Run, record: RecordSink) -> None:
    [agent] = [pid for pid in run.agents if os.readlink(f"/proc/{pid}/fd/1").startswith(str(record.run_dir))]
    os.kill(agent, signal.SIGKILL)


@pytest.mark.long(like="tests/unit/live/test_live_sharing.py::test_live_jobs_get_the_limits_of_the_virtual_clock")
def test_who_is_killed_gives_back_what_it_has_reserved(start: Start) -> None:
    run = begin_two(start)
    record = await_limits(run)
    kill_the_agent(run, record_of(run, "asks"))
    assert_none_is_left(run, record)
    run.await_that(lambda: record_of(run, "asks").notes("Finished"), "the end of the job that asks")
    assert record_of(run, "asks").finished["status"] == "failed"
    run.process.send_signal(signal.SIGINT)
    assert run.wait()[0] == 130


@pytest.mark.long(like="tests/unit/live/test_live_sharing.py::test_live_jobs_get_the_limits_of_the_virtual_clock")
@pytest.mark.parametrize("victim", ["outer", "inner"])
def test_of_a_driver_that_is_killed_no_limit_is_left(start: Start, victim: str) -> None:
    """The oracle looks for groups, networks and processes that are left."""
    run = begin_two(start)
    await_limits(run)
    os.kill(run.process.pid if victim == "outer" else run.innermost, signal.SIGKILL)
    assert run.wait()[0] != 0
