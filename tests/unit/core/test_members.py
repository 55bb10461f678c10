"""Who is a member, in which state, of which ring, tree or group: the structures of a job agree after every event.

Random schedules of losses, joins, restarts and preemptions for every strategy (:mod:`tests.support.member_schedules`),
and violations that are planted.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from functools import cache
from typing import Any

import pytest

from runtime.core.recovery.states import Phase, TaskState
from strategies.protocol import Compute, NodeId
from tests.support.faults import Crash
from tests.support.harness import HeapRun, make_job
from tests.support.long_tests import long_after
from tests.support.member_schedules import play, schedule, strategy_of
from tests.support.validating import validated
from tests.support.validation import Validation

BLOCK = 20
BLOCKS = range(100)
"""The first one is for every commit."""


@cache
def played(block: int) -> tuple[int, Counter[str]]:
    """How often a block of schedules was validated, and what happened how often."""
    seen: Counter[str] = Counter()
    with validated() as validator:
        for number in range(block * BLOCK, (block + 1) * BLOCK):
            seen += play(number)
    return validator.count, seen


@pytest.mark.parametrize("block", long_after(BLOCKS, 1))
def test_whatever_happens_all_structures_agree(block: int) -> None:
    count, _ = played(block)
    assert count > 20 * BLOCK


FOUND = {
    24: "who comes back while all are halted has its part of the data again",
    35: "a replica on a host that is preempted while it computes stores the checkpoint with which the job leaves",
}
"""What random schedules have found."""


@pytest.mark.parametrize("number", FOUND)
def test_what_was_found_by_chance_stays_mended(number: int) -> None:
    with validated():
        play(number)


def test_the_schedules_have_in_them_what_they_are_for() -> None:
    _, seen = played(0)
    for kind in ("Lost", "Joined", "ServerLost", "Restored", "Restarting", "Requested", "Preempted", "Resumed"):
        assert seen[kind] >= 3, seen
    drawn = [schedule(number) for number in range(4 * BLOCK)]
    assert {(one.runtime, one.topology) for one in drawn} >= {
        (runtime, topology) for runtime in ("heap", "virtual") for topology in ("servers", "allreduce")
    }
    assert any((one.runtime, one.topology) == ("virtual", "followed") for one in map(schedule, range(20 * BLOCK)))


def busy_run(num_servers: int, name: str = "asp") -> HeapRun:
    """A job in the middle: worker 1 is lost and restarts, the others compute."""
    drawn = schedule(0)._replace(name=name)
    job = make_job(num_workers=4, num_servers=num_servers, checkpoint_every_s=2.0)
    run = HeapRun(strategy_of(drawn), job, [1.0, 1.25, 1.5, 2.0], [Crash(3.1, 1, 20.0)] if num_servers else [])
    run.start()
    while run.t < 6.0:
        run.step()
    assert not Validation(run.core, run.recovery).violations()
    return run


def worker(run: HeapRun, number: int) -> Any:
    return run.recovery.tasks[NodeId.worker(number)]


def adds_a_node_that_the_recovery_lacks(run: HeapRun) -> None:
    run.core.members.admit(NodeId.worker(4))
    run.core.members.awaited.clear()


def lets_the_ring_keep_who_is_gone(run: HeapRun) -> None:
    run.core.members.members[0].state = "left"
    run.recovery.tasks[NodeId.worker(0)].state = TaskState.LEFT


PLANTED: dict[str, list[Callable[[HeapRun], object]]] = {
    "nodes": [
        adds_a_node_that_the_recovery_lacks,
        lambda run: setattr(worker(run, 2), "state", TaskState.LEFT),
    ],
    "workers": [
        lambda run: setattr(run.core.members.members[1], "state", "here"),
        lambda run: setattr(worker(run, 2), "incarnation", 7),
    ],
    "holders": [lambda run: setattr(run.recovery.tasks[NodeId.server(0)], "state", TaskState.LAUNCHING)],
    "children": [lambda run: run.core.members.parents.update({2: 3})],
    "copies": [lambda run: run.core.executor.replication.followed.update({5: 0})],
    "processes": [lambda run: worker(run, 0).holders.add("plan")],
    "halts": [lambda run: setattr(run.recovery.state, "phase", Phase.RENDEZVOUS)],
    "work": [lambda run: run.core.ledger.starved.update({0: Compute(worker=0, num_samples=1)})],
    "data": [lambda run: run.core.shards.out.popitem()],
}


@pytest.mark.parametrize(
    ("check", "plant"),
    [pytest.param(check, plant, id=f"{check}-{n}") for check in PLANTED for n, plant in enumerate(PLANTED[check])],
)
def test_a_violation_with_servers_is_found(check: str, plant: Callable[[HeapRun], object]) -> None:
    run = busy_run(num_servers=2)
    plant(run)
    assert check in {found.partition(":")[0] for found in Validation(run.core, run.recovery).violations()}


def test_a_violation_among_replicas_is_found() -> None:
    run = busy_run(num_servers=0)
    lets_the_ring_keep_who_is_gone(run)
    assert "ring" in {found.partition(":")[0] for found in Validation(run.core, run.recovery).violations()}
