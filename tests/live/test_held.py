"""Real workers that hold their gradients: nothing travels before its turn, and no sample is lost or used twice."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.exact import assert_sound, assert_uses_are_exact
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import LEDGER, Run

pytestmark = pytest.mark.live

JOB = (*LEDGER, "strategy=mlfabric", "strategy.lr_rule=batch_linear", "save_parameters=true")


def delays(run: Run) -> list[int]:
    """Of every applied gradient, in versions."""
    versions: dict[int, int] = {}
    found = []
    for line in run.lines():
        if line["kind"] != "event":
            continue
        if line["event"]["type"] == "Arrived":
            versions[line["event"]["grad"]["id"]] = line["event"]["grad"]["version"]
        applies = [command for command in line["commands"] if command["type"] == "Apply"]
        for before, command in enumerate(reversed(applies)):
            found += [line["version"] - 1 - before - versions[grad] for grad in command["grads"]]
    return found


def overdue(run: Run) -> int:
    """Transfers that were overdue so far."""
    return max(line["state"]["overdue"] for line in run.lines() if line["kind"] == "event" and line.get("state"))


@pytest.mark.long(like="test_a_paused_worker_whose_turn_it_is_holds_nobody_up")
def test_no_update_is_later_than_the_bound_and_every_sample_is_used_once(start: Start) -> None:
    run = start("run", *JOB, "workload.epochs=4").finish()
    assert (run.finished["status"], set(run.parameters().tolist())) == ("done", {4.0})
    assert_sound(run)
    assert 0 <= min(delays(run)) <= max(delays(run)) <= 8
    assert {event["num_bytes"] for event in run.events("Ready")} == {4 * run.finished["num_parameters"]}


def test_a_paused_worker_whose_turn_it_is_holds_nobody_up(start: Start) -> None:
    """It is paused again and again, until that was in its turn; nobody counts it as lost meanwhile."""
    patient = ("runtime.lease_s=60", "runtime.iteration_deadline_s=60", "cluster.device={base_s: 0.01}")
    # an epoch is longer than the test: who waits at its end for the last samples may have to wait for a paused worker
    run = start("run", *JOB, *patient, "workload.epochs=null", "workload.task.num_samples=40000")
    run.await_training(5)
    pid = run.pid_of("worker", 1)
    for _ in range(200):
        os.kill(pid, signal.SIGSTOP)
        run.await_progress(15)
        os.kill(pid, signal.SIGCONT)
        run.await_progress(10)
        if overdue(run):
            break
    assert overdue(run)
    run.interrupt()
    assert not run.events("Lost")
    assert_uses_are_exact(run)
    assert problems(run.lines()) == []
