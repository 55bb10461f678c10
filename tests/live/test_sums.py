"""Real aggregators: gradients are summed on their way, and every sample counts once, whoever is killed."""

from __future__ import annotations

import signal

import pytest

from scripts.replay import build_strategy
from tests.live.test_faults import ALLOW, PACED
from tests.support.invariants import problems, replay
from tests.support.leaks import Start
from tests.support.runs import LEDGER, Run

pytestmark = pytest.mark.live

TREE = (*LEDGER, "strategy=bsp", "strategy.tree_fanout=2", "save_parameters=true")
"""Four workers: two pairs, each with an aggregator."""


def sums(run: Run) -> list[int]:
    """The number of gradients in every sum that arrived."""
    return [len(event["grad"]["members"]) for event in run.events("Arrived") if event["grad"].get("members")]


def assert_exact(run: Run, epochs: int) -> None:
    assert (run.finished["status"], set(run.parameters().tolist())) == ("done", {float(epochs)})
    assert problems(run.lines()) == []
    assert replay(run.lines(), build_strategy(run.run_dir)) == []


def test_most_gradients_arrive_in_sums_and_every_sample_is_used_once(start: Start) -> None:
    run = start("run", *TREE, "strategy.tree_wait_s=0.2", "workload.epochs=4").finish()
    assert_exact(run, 4)
    assert sum(sums(run)) > 2 * run.finished["version"]  # of four in an update


def test_whoever_is_killed_while_sums_are_made(start: Start) -> None:
    """Every role, and both aggregators at once: then gradients go to the servers themselves."""
    run = start("run", *TREE, *PACED, "strategy.tree_wait_s=0.02", "workload.epochs=40", env=ALLOW)
    run.await_training(5)
    for struck in ([("aggregator", 0)], [("worker", 1)], [("aggregator", 0), ("aggregator", 1)], [("server", 1)]):
        run.await_progress(20)
        for key in struck:
            run.unregister(key, signal.SIGKILL)
    run.finish()
    assert_exact(run, 40)
    assert run.events("Lost")
    assert run.events("Restored")
    assert sums(run)
