"""Links of machines that have joined are slowed by pacing: for as long as the closed form says, and nothing else."""

from __future__ import annotations

from pathlib import Path
from statistics import median
from typing import Any

import pytest

from runtime.live.hosts.rules import PAYLOAD_FRAC
from tests.live.test_disturbances import write_plan
from tests.support.invariants import problems
from tests.support.joined import Cluster
from tests.support.leaks import Start
from tests.support.runs import DIGITS, Run

pytestmark = [pytest.mark.live, pytest.mark.timeout(400)]

PATIENCE_S = 180.0
MBPS, LEFT = 80.0, 0.25
BYTES_PER_S = MBPS * 1e6 / 8 * LEFT * PAYLOAD_FRAC
"""What a link carries of parameters or gradients in a window."""
BIG = (*DIGITS, "workload.task.hidden_units=6000", "cluster.num_workers=2", "topology.num_servers=1")
"""Parameters of 1.8 MB; worker 0 and the server are on machine 0, worker 1 on machine 1."""
WIDE = 0.2
"""A busy machine makes transfers longer; 64 kB pass before the kernel begins to wait."""


def links(path: Path, *rows: tuple[float, float, str]) -> tuple[str, ...]:
    return *write_plan(path, *((*row, "bandwidth", LEFT) for row in rows)), f"launcher.link_mbps={MBPS}"


def transfers(run: Run, worker: int, name: str) -> tuple[list[float], list[float]]:
    """Seconds of a worker's transfers between the two notes of a window, and of those before and after it."""
    opened, closed = (note["t"] for note in injected(run))
    inside, outside = [], []
    for t, event in arrived(run, worker):
        timings = event["timings"]
        begun = t - sum(timings[part] for part in ("pull_s", "compute_s", "send_s"))
        if opened < begun and t < closed:
            inside.append(timings[name])
        elif t < opened or begun > closed:
            outside.append(timings[name])
    return inside, outside


def arrived(run: Run, worker: int) -> list[tuple[float, dict[str, Any]]]:
    """A worker's gradients, and when they were there."""
    found = [(line["t"], line["event"]) for line in run.lines() if line.get("event", {}).get("type") == "Arrived"]
    return [(t, event) for t, event in found if event["grad"]["worker"] == worker]


def injected(run: Run) -> list[dict[str, Any]]:
    return [{**line["note"], "t": line["t"]} for line in run.lines() if line.get("note", {}).get("type") == "Injected"]


@pytest.mark.long(like="tests/live/test_joined.py::test_two_agents_of_a_user_train_every_sample_as_often")
def test_a_push_and_a_pull_take_what_the_closed_form_says_and_the_losses_are_those_undisturbed(
    loopback: Cluster, start: Start, tmp_path: Path
) -> None:
    job = (*BIG, "workload.epochs=5")
    agents = [loopback.agent(number) for number in range(2)]
    plan = links(tmp_path / "plan.csv", (0.3, 6.0, "link:1"))
    run = loopback.run("run", *job, *plan).finish(PATIENCE_S)
    undisturbed = start("undisturbed", *job).finish(PATIENCE_S)
    assert run.sha256 == undisturbed.sha256
    assert losses(run) == losses(undisturbed)
    opened, closed = injected(run)
    assert (opened["by"], opened["asked"]) == ("pacing", MBPS * 1e6 / 8 * LEFT)
    assert opened["achieved"] == pytest.approx(opened["asked"], rel=1e-5)
    assert (closed["level"], closed["asked"], closed["achieved"]) == (1.0, None, None)
    expected_s = 4 * run.finished["num_parameters"] / BYTES_PER_S
    for name in ("send_s", "pull_s"):
        slow, quick = transfers(run, 1, name)
        assert slow
        # On a busy machine the first and the last may lie across an edge of the window: the notes come late.
        assert median(slow) > (1 - WIDE) * expected_s
        assert min(slow) < (1 + WIDE) * expected_s
        assert median(quick) < expected_s / 3
    assert median(transfers(run, 0, "send_s")[0]) < expected_s / 3, "its gradients pass no link"
    assert problems(run.lines()) == []
    assert [agent.wait() for agent in agents] == [0, 0]


def losses(run: Run) -> list[tuple[int, float]]:
    """Of every worker, in order."""
    return [(worker, event["loss"]) for worker in range(2) for _, event in arrived(run, worker)]
