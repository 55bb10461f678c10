"""Measured norms of processes: the bits of the virtual clock, and nothing is held up by who dies meanwhile."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from stragglab.vouching.replaying import build_strategy
from tests.support.invariants import problems, replay
from tests.support.leaks import Start
from tests.support.measuring import noisy
from tests.support.runs import DIGITS, LEDGER, Run

pytestmark = pytest.mark.live

PACED = ("cluster.device={base_s: 0.01}", "topology.num_servers=3")


def norms(run: Run) -> list[tuple[int, float]]:
    return [(event["version"], event["sqr_norm"]) for event in run.events("Measured")]


@pytest.mark.long(like="tests/live/test_faults.py::test_servers_that_die_or_stop")
def test_live_and_virtual_measure_the_same_bits(start: Start, tmp_path: Path) -> None:
    words = (*DIGITS, *PACED, "workload.epochs=1", *noisy(tmp_path))
    live = start("live", *words, "topology.transport=shm").finish()
    virtual = start("virtual", *words, "runtime=virtual").finish()
    assert len(norms(live)) >= 5
    assert norms(live) == norms(virtual)
    assert replay(live.lines(), build_strategy(live.run_dir)) == []


@pytest.mark.long(like="tests/live/test_faults.py::test_servers_that_die_or_stop")
@pytest.mark.parametrize(
    ("victim", "more"),
    [(("server", 1), PACED), (("worker", 1), (PACED[0], "topology=allreduce"))],
)
def test_a_measurement_that_is_lost_holds_nothing_up(
    start: Start, tmp_path: Path, victim: tuple[str, int], more: tuple[str, ...]
) -> None:
    """Every update is measured, so one is under way whenever somebody dies."""
    run = start("run", *LEDGER, *more, "workload.epochs=null", "checkpoint_every_s=0.3", *noisy(tmp_path, every=1))
    for _ in range(2):
        run.await_events("Measured", len(run.events("Measured")) + 10)
        before = len(run.events("Restored"))
        os.kill(run.pid_of(*victim), signal.SIGKILL)
        run.await_events("Restored", before + 1)
    run.await_events("Measured", len(run.events("Measured")) + 10)
    run.interrupt()
    assert problems(run.lines()) == []
    assert integrity(load_run(run.run_dir)).problems == ()
