"""Nodes that come and go while a live job trains, and parameters that move: the ledger proves what happened to samples.

A process that is stopped holds a switch at a known point: a server that holds parameters before the checkpoint, a new
one after it.
"""

from __future__ import annotations

import os
import signal

import pytest

from runtime.live.machines.doctor import missing
from tests.live.test_faults import PACED
from tests.support.exact import ALLOW, end_exactly
from tests.support.invariants import problems
from tests.support.leaks import Start
from tests.support.runs import CONF, DIGITS, LEDGER, Run
from tests.support.task_groups import quota_of

pytestmark = pytest.mark.live

SCRIPTED = (*CONF, "strategy=switching")
SMALL = ("cluster.num_workers=2", "topology.num_servers=1")
SWITCHING = (*LEDGER, *PACED, *SCRIPTED, *SMALL, "save_parameters=true")
ENDLESS = (*SWITCHING, "workload.epochs=null")
GROW = ("wait 5", "servers 4", "divide 4", "wait 8")
SHRINK = ("divide 1", "servers 1")
GROUPS = pytest.mark.skipif(
    bool(missing("cgroup_cpu") or missing("cgroup_memory")), reason="needs control groups for processors and memory"
)
LONG_LEASE = "runtime.lease_s=20"
"""So that a process that the test stops is not declared lost."""


def steps(*orders: str) -> str:
    return f"strategy.steps=[{','.join(repr(order) for order in orders)}]"


def holders(run: Run) -> list[list[int]]:
    """Who held the parameters after every rollback and repartition."""
    return [event["servers"] for event in run.events("Restored")]


def steps_are_done(run: Run) -> bool:
    states = [line["state"] for line in run.lines() if line.get("state")]
    return bool(states) and states[-1]["steps_left"] == 0


def finish(run: Run) -> None:
    """The whole script, some more updates, and a good end in which the ledger balances."""
    run.await_that(lambda: steps_are_done(run), "all steps")
    run.await_progress(10)
    end_exactly(run)


def stop(run: Run, role: str, number: int) -> int:
    """Stop a process as soon as it is launched; returns its number, to be continued."""
    run.await_that(lambda: (role, number) in run.pids(), f"{role} {number}")
    pid = run.pid_of(role, number)
    assert run.unregister((role, number), signal.SIGSTOP)
    return pid


def test_a_job_grows_and_shrinks_and_uses_every_sample_once(start: Start) -> None:
    grow = ("wait 5", "workers 4", "servers 4", "divide 4", "wait 10", "workers 3", *SHRINK, "workers 2", "wait 5")
    run = start("run", *SWITCHING, "strategy.rule=asp", "workload.epochs=12", steps(*grow), env=ALLOW).finish()
    assert run.finished["status"] == "done"
    assert (run.parameters() == 12).all()
    assert holders(run) == [[0, 1, 2, 3], [0]]
    assert sorted(event["server"] for event in run.events("ServerJoined")) == [1, 2, 3]
    assert {(event["worker"], event["cause"]) for event in run.events("Lost")} == {(2, "retired"), (3, "retired")}
    assert {event["grad"]["worker"] for event in run.events("Arrived")} == {0, 1, 2, 3}
    assert problems(run.lines()) == []


@pytest.mark.long(like="test_a_job_grows_and_shrinks_and_uses_every_sample_once")
def test_parameters_that_move_are_the_same_to_the_bit(start: Start) -> None:
    """Momentum moves with its part; afterwards servers die and read what others have stored."""
    task = (*DIGITS, *PACED, *SCRIPTED, *SMALL, "workload.epochs=4")
    still = start("still", *task, steps(), env=ALLOW).finish()
    moved = start("moved", *task, "checkpoint_every_s=null", steps(*GROW, "divide 2", *SHRINK), env=ALLOW).finish()
    assert holders(moved) == [[0, 1, 2, 3], [0, 1], [0]]
    assert moved.sha256 == still.sha256


@pytest.mark.long(like="test_a_job_grows_and_shrinks_and_uses_every_sample_once")
@pytest.mark.parametrize(
    ("role", "number"),
    [("server", 1), ("worker", 1), ("server", 0)],
)
def test_a_death_after_the_checkpoint_of_a_switch(start: Start, role: str, number: int) -> None:
    """A new server does not read yet: the others wait for it, and one of them dies."""
    run = start("run", *ENDLESS, LONG_LEASE, steps("servers 4", "wait 20", "divide 4", "wait 5", *SHRINK), env=ALLOW)
    run.await_events("ServerJoined", 3)
    slow = stop(run, "server", 3)
    run.await_notes("Repartitioning")
    run.await_that(lambda: run.notes("Checkpointed")[-1]["version"] == run.version, "the checkpoint of the switch")
    assert run.unregister((role, number))
    run.await_that(lambda: any(note["role"] == role for note in run.notes("Exited")), "its end")
    os.kill(slow, signal.SIGCONT)
    finish(run)
    assert holders(run)[-2:] == [[0, 1, 2, 3], [0]]


def enforced(run: Run, what: str) -> list[tuple[str, float | None]]:
    """The nodes and their limits, as the kernel has them."""
    return [(note["node"], note[what]) for note in run.notes("Enforced") if what in note]


@GROUPS
def test_a_newcomer_has_its_cores_through_all_its_incarnations_and_others_get_theirs(start: Start) -> None:
    more = ("strategy.cpu_cores=0.5", "strategy.rule=asp")
    run = start("run", *ENDLESS, *more, steps("wait 3", "workers 3", "cores worker:0 0.25", "wait 300"), env=ALLOW)
    run.await_that(lambda: len(enforced(run, "cpu_cores")) == 2, "both quotas")
    assert enforced(run, "cpu_cores") == [("worker:2", 0.5), ("worker:0", 0.25)]
    for incarnation in (0, 1):
        run.await_events("Joined", incarnation + 1)
        assert quota_of(run.pid_of("worker", 2)) == pytest.approx(0.5)
        assert run.unregister(("worker", 2))
    assert quota_of(run.pid_of("worker", 0)) == pytest.approx(0.25)
    end_exactly(run)


@pytest.mark.long(like="test_a_newcomer_has_its_cores_through_all_its_incarnations_and_others_get_theirs")
@GROUPS
def test_a_newcomer_that_needs_more_memory_than_it_may_use_is_denied(start: Start) -> None:
    """It does not even get through its start; the strategy asks again each time."""
    run = start("run", *ENDLESS, "strategy.memory_bytes=1000000", steps("wait 3", "workers 3"), env=ALLOW)
    denied = run.await_events("Denied", 2)
    assert {event["reason"] for event in denied} == {"did not join: used more memory than it may"}
    assert [event["node"] for event in denied][:2] == ["worker:2", "worker:3"]
    end_exactly(run)
