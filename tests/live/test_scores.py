"""Gradients that servers and scorer compare: the numbers, what is held out, and what dies meanwhile."""

from __future__ import annotations

import os
import signal
from collections import Counter
from contextlib import suppress
from typing import Any

import numpy as np
import pytest

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from runtime.core.data.holdout import Holdout
from stragglab.vouching.replaying import build_strategy
from strategies.zeno_pp import ZenoPP
from tests.live.retrace import Retracing
from tests.support.invariants import problems, replay
from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER, Run
from tests.support.zeno import badly_accepted

pytestmark = pytest.mark.live

HELD_OUT = 50
ZENO = ("strategy=zeno_pp", f"strategy.validation_samples={HELD_OUT}", "save_parameters=true", "topology.num_servers=2")
STRICT = ("strategy.rho=0.01", "strategy.warmup_updates=5", "strategy.refresh_every=4")
"""cos(r, g) must be 1/3."""
EQUAL = ("strategy.rho=0.0", "strategy.rescale=false", "strategy.warmup_updates=0", "strategy.refresh_every=1")
"""All of the ledger's gradients, which are orthogonal to the reference, are accepted, and count exactly."""
PACED = ("cluster.device={base_s: 0.01}", "runtime.lease_s=1.0", "runtime.heartbeat_s=0.2", "checkpoint_every_s=0.3")


def assert_sound(run: Run) -> None:
    strategy = build_strategy(run.run_dir)
    assert isinstance(strategy, ZenoPP)
    assert problems(run.lines()) == []
    assert replay(run.lines(), strategy) == []
    assert integrity(load_run(run.run_dir)).problems == ()
    assert badly_accepted(run.lines(), strategy, run.meta["job"]["lr"]) == []


@pytest.mark.long(like="test_whoever_dies_while_scores_are_waited_for")
@pytest.mark.parametrize(
    "more",
    [("topology.transport=tcp",), ("topology.transport=shm",), ("runtime=virtual", "cluster.device={base_s: 0.01}")],
)
def test_scores_are_those_of_one_process(start: Start, more: tuple[str, ...]) -> None:
    """Parts of two servers against whole vectors: 1e-5; the final parameters are the same, so nothing else differs."""
    run = start("run", *DIGITS, *ZENO, *STRICT, "workload.epochs=3", *more).finish()
    again = Retracing(run)
    assert again.core.status == "done"
    assert len(again.received) == len(run.events("Scored")) > 30
    assert np.array(again.received) == pytest.approx(np.array(again.computed), rel=1e-5)
    assert run.parameters() == pytest.approx(again.params, rel=1e-5, abs=1e-6)
    assert_sound(run)
    states = [line["state"] for line in run.lines() if line.get("state")]
    judged = Counter("Apply" if line["commands"][0]["type"] == "Apply" else "Drop" for line in scored(run))
    assert states[-1]["accepted"] == judged["Apply"] > 2
    assert states[-1]["rejected"] == judged["Drop"] > 2
    assert states[-1]["acceptance_ratio"] == judged["Apply"] / (judged["Apply"] + judged["Drop"])


def scored(run: Run) -> list[dict[str, Any]]:
    return [line for line in run.lines() if line["kind"] == "event" and line["event"]["type"] == "Scored"]


def waiting(run: Run) -> int:
    """Gradients with a pending score."""
    asked: set[int] = set()
    for line in run.lines():
        if line["kind"] == "event":
            if line["event"]["type"] == "Scored":
                asked.discard(line["event"]["grad"]["id"])
            elif line["event"]["type"] == "Restored":
                asked.clear()
            asked |= {command["grad"] for command in line["commands"] if command["type"] == "Score"}
    return len(asked)


@pytest.mark.parametrize("transport", [pytest.param("tcp", marks=pytest.mark.long), "shm"])
def test_whoever_dies_while_scores_are_waited_for(start: Start, transport: str) -> None:
    """The scorer is paused, so that workers certainly wait; then a process dies."""
    where = f"topology.transport={transport}"
    run = start("run", *LEDGER, *ZENO, *EQUAL, *PACED, where, "workload.epochs=null")
    for victim in (("scorer", 0), ("worker", 0), ("server", 1), ("scorer", 0)):
        run.await_that(lambda: scored(run), "scores")
        before, scorer = len(scored(run)), run.pid_of("scorer")
        run.await_events("Scored", before + 5)
        os.kill(scorer, signal.SIGSTOP)
        run.await_that(lambda: waiting(run) >= 3, "waiting workers")
        assert run.unregister(victim)
        if victim[0] != "scorer":
            run.await_events("Lost" if victim[0] == "worker" else "Restored")
            kill_or_let_go_on(scorer)
        run.await_events("Scored", len(scored(run)) + 10)
    stopped = run.pid_of("scorer")
    os.kill(stopped, signal.SIGSTOP)  # for good: its lease ends, and others take its place
    run.await_that(lambda: run.pid_of("scorer") != stopped, "another scorer")
    run.await_events("Scored", len(scored(run)) + 10)
    run.interrupt()
    uses, finished = run.parameters(), run.finished
    held_out = Holdout(2000, HELD_OUT, 0).indices
    assert not uses[held_out].any(), "a sample that is held out was trained on"
    epochs = finished["epochs_done"]
    assert set(np.unique(np.delete(uses, held_out))) <= {float(epochs), float(epochs + 1)}
    assert uses.sum() == finished["samples_applied"] > 0
    assert_sound(run)


def kill_or_let_go_on(scorer: int) -> None:
    """Its lease may have ended meanwhile."""
    with suppress(ProcessLookupError):
        os.kill(scorer, signal.SIGCONT)


@pytest.mark.long(like="test_whoever_dies_while_scores_are_waited_for")
def test_without_restarts_a_dead_scorer_ends_the_job_with_the_reason(start: Start) -> None:
    run = start("run", *LEDGER, *ZENO, *EQUAL, *PACED, "workload.epochs=null", "runtime.max_restarts=0")
    run.await_events("Scored", 5)
    assert run.unregister(("scorer", 0))
    assert "scorer is gone (killed by signal 9) and runtime.max_restarts=0 is used up" in run.fail()


@pytest.mark.long(like="test_whoever_dies_while_scores_are_waited_for")
def test_a_scorer_that_takes_too_long_is_replaced(start: Start) -> None:
    """It sends heartbeats, so its lease holds, but no reference."""
    deadline = ("runtime.lease_s=60", "runtime.iteration_deadline_s=1.0")
    run = start("run", *LEDGER, *ZENO, *EQUAL, *PACED, *deadline, "workload.epochs=null")
    run.await_events("Scored", 5)
    stopped = run.pid_of("scorer")
    os.kill(stopped, signal.SIGSTOP)
    run.await_that(lambda: run.pid_of("scorer") != stopped, "another scorer")
    run.await_events("Scored", len(scored(run)) + 10)
    run.interrupt()
    assert {note["reason"] for note in run.notes("Fenced")} == {
        "no reference gradient within runtime.iteration_deadline_s=1"
    }
    assert_sound(run)
