"""An agent that stops speaking without dying: its job fails in one line after its lease, and nobody waits for it."""

from __future__ import annotations

import os
import signal

import pytest

from tests.support.joined import Agent, Cluster, errors
from tests.support.leaks import Start
from tests.support.runs import LEDGER, Run, children_of, command_line, processes_of

pytestmark = [pytest.mark.live, pytest.mark.timeout(120)]

LEASE = ("runtime.lease_s=0.5", "runtime.heartbeat_s=0.2")
"""Of tasks; the agent's is five times as long."""
STEADY = (*LEDGER, *LEASE, "cluster.device={base_s: 0.01}", "checkpoint_every_s=0.3", "workload.epochs=null")
LOST = "the agent is lost: no heartbeat for 2.5 s; it is stopped or hangs (runtime.lease_s allows more)"


def stop_agent(run: Run) -> int:
    agent = run.agent_pid
    os.kill(agent, signal.SIGSTOP)
    return agent


@pytest.mark.parametrize("role", ["worker", pytest.param("server", marks=pytest.mark.long)])
def test_a_task_that_nobody_can_start_again_does_not_leave_the_job_idle(start: Start, role: str) -> None:
    run = start("run", *STEADY)
    run.await_training(5)
    stop_agent(run)
    assert run.unregister((role, 0))
    assert LOST in run.fail()
    assert run.finished["status"] == "failed"


@pytest.mark.long(like="test_a_task_that_nobody_can_start_again_does_not_leave_the_job_idle")
def test_an_agent_that_is_stopped_for_less_than_its_lease_is_no_loss(start: Start) -> None:
    run = start("run", *STEADY, "runtime.lease_s=2", "save_parameters=true")
    run.await_training(5)
    agent = stop_agent(run)
    run.await_progress(20)
    assert run.unregister(("worker", 1))
    run.await_events("Lost")
    os.kill(agent, signal.SIGCONT)
    run.await_events("Joined")
    run.await_progress(20)
    run.interrupt()
    assert run.parameters().sum() == run.finished["samples_applied"]


@pytest.mark.long(like="test_a_task_that_nobody_can_start_again_does_not_leave_the_job_idle")
def test_a_driver_that_is_stopped_longer_than_all_leases_loses_no_agent(start: Start) -> None:
    """Whether its agent was stopped with it, as by a terminal, or not."""
    run = start("run", *STEADY)
    run.await_training(5)
    for others in ([], [run.agent_pid, *run.pids().values()]):
        for pid in (run.process.pid, run.innermost, *others):
            os.kill(pid, signal.SIGSTOP)
        with pytest.raises(AssertionError, match="not within"):
            run.await_progress(1000, timeout_s=4.0)
        for pid in (run.innermost, run.process.pid, *others):
            os.kill(pid, signal.SIGCONT)
        run.await_progress(20)
    run.interrupt()
    assert not run.events("Lost")
    assert not run.events("ServerLost")


def starter_of_tasks(agent: Agent) -> int:
    """The process that starts the tasks of a machine that has joined."""
    there = [pid for pid in processes_of(agent.directory) if b"runtime.live.tasks.agent" in command_line(pid)]
    forked = {child for pid in there for child in children_of(pid)}
    (found,) = set(there) - forked
    return found


@pytest.mark.long(like="test_a_task_that_nobody_can_start_again_does_not_leave_the_job_idle")
def test_a_machine_that_has_joined_is_lost_with_the_process_that_starts_its_tasks(loopback: Cluster) -> None:
    """The program that has joined is well, and does not notice."""
    agents = [loopback.agent(number) for number in range(2)]
    run = loopback.run("run", *STEADY, "launcher.lease_s=2")
    run.await_training(5, 180)
    for agent in agents:
        os.kill(starter_of_tasks(agent), signal.SIGSTOP)
    (line,) = errors(run, 1)
    assert line.split(": ", 1)[1].endswith(
        "is lost: no heartbeat for 4 s; it is stopped or hangs (runtime.lease_s allows more)"
    )
    assert [agent.wait() for agent in agents] == [0, 0]
    assert [processes_of(agent.directory) for agent in agents] == [[], []]
