"""What neither dies nor answers: nobody waits for it without a deadline."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.leaks import Start
from tests.support.runs import DIGITS, LEDGER

pytestmark = [pytest.mark.chaos, pytest.mark.slow]

DEADLINE_S = 8
STUCK = (*LEDGER, "cluster.device={base_s: 0.01}", f"runtime.start_deadline_s={DEADLINE_S}", "workload.epochs=null")


def test_a_stopped_agent_ends_the_run_by_its_lease(start: Start) -> None:
    run = start("run", *STUCK, "max_time_s=60", "runtime.lease_s=1")
    run.await_training(5)
    os.kill(run.agent_pid, signal.SIGSTOP)
    run.await_progress(50)
    assert run.unregister(("worker", 1))
    assert "the agent is lost: no heartbeat for 5 s" in run.fail(90)


def test_a_job_that_ends_within_the_lease_of_a_stopped_agent_is_done(start: Start) -> None:
    run = start("run", *STUCK[:-1], "workload.epochs=3", "runtime.lease_s=60")
    run.await_training(5)
    os.kill(run.agent_pid, signal.SIGSTOP)
    run.finish()


def test_a_run_that_does_not_start_in_time_says_so(start: Start) -> None:
    """Stopped while it imports the framework, which takes it longer than we need."""
    run = start("run", *DIGITS, "runtime.start_deadline_s=3")
    run.await_that(lambda: run.agents, "the agent")
    os.kill(run.agent_pid, signal.SIGSTOP)
    assert "runtime.start_deadline_s=3" in run.fail()
