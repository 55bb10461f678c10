"""Workers that join with a new number and leave for good while the job runs: every strategy continues, exactly.

An operator lets them join and leave, so this concerns strategies that never ask for nodes themselves.
"""

from __future__ import annotations

from functools import cache
from itertools import product

import pytest

from runtime.core.inputs import Operated
from strategies.protocol import Compute, Denied, Joined, Launch, Lost, NodeId, Restored
from tests.contract.catalogue import NAMES, fits, hurried, uneven_job
from tests.support.faults import random_seconds, restarts
from tests.support.harness import HeapRun, Puppet, Rig, compute, make_job, puppet_rig
from tests.support.laws import Complaints, dead, played, unaveraged, unconserved, unlawful
from tests.support.long_tests import rows_long_after
from tests.support.scores import random_scores

START, NEW, GONE = 4, NodeId.worker(4), NodeId.worker(1)
SEEDS = (1, 2)
MODES = ("calm", "restarts")


def admit(run: HeapRun, t: float) -> None:
    run.core.receive(t, Operated("join", str(NEW)))


def retire(run: HeapRun, t: float) -> None:
    run.core.receive(t, Operated("leave", str(GONE)))


@cache
def grown(name: str, mode: str, seed: int) -> tuple[HeapRun, Complaints]:
    """Three epochs; worker 4 joins at 3 s, and worker 1 leaves at 9 s."""
    job = uneven_job(START, seed)
    run = HeapRun(hurried(name), job, random_seconds(seed), restarts(seed, START) if mode == "restarts" else [])
    run.cosine = random_scores(seed)
    run.push(3.0, 0, lambda t: admit(run, t))
    run.push(9.0, 0, lambda t: retire(run, t))
    return run, played(run)


PLAYERS = [name for name in NAMES if fits(name, START)]
SHORT = [(name, "restarts", SEEDS[number % 2]) for number, name in enumerate(PLAYERS)]
SHORT += [(name, "calm", SEEDS[0]) for name in PLAYERS[::8]]
MORE = [job for job in product(PLAYERS, MODES, SEEDS) if job not in SHORT]
every_job = pytest.mark.parametrize(("name", "mode", "seed"), rows_long_after([*SHORT, *MORE], always=len(SHORT)))


@every_job
def test_every_strategy_goes_on_with_a_newcomer_and_without_who_left(name: str, mode: str, seed: int) -> None:
    run, refused = grown(name, mode, seed)
    assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
    workers = {grad.worker for _, _, grads in run.applied for grad in grads}
    assert NEW.number in workers, "the newcomer contributes"
    numbers = [node.number for node in run.core.members.layout.workers]
    if Launch in run.core.strategy.needs:  # it may launch and retire others
        assert GONE.number not in numbers
    else:
        assert numbers == [0, 2, 3, NEW.number]
    assert run.recovery.state.members.layout == run.core.members.layout, "who gets ranges, and who gets work"


@every_job
def test_nobody_computes_who_is_no_member(name: str, mode: str, seed: int) -> None:
    run, _ = grown(name, mode, seed)
    here = set(range(START))
    for line in run.lines:
        match line.event:
            case Joined(worker=worker):
                here.add(worker)
            case Restored(workers=workers):
                here |= set(workers)
            case Lost(worker=worker, reason="retired"):
                here.discard(worker)
        ordered = {command.worker for command in line.commands if isinstance(command, Compute)}
        assert ordered <= here


# ---- the coordinator by itself --------------------------------------------------------------------------------------


def test_the_layouts_are_in_the_record_one_by_one() -> None:
    rig = puppet_rig(num_workers=2, num_samples=8)
    rig.core.receive(rig.at(None), Operated("join", "worker:2"))
    rig.core.receive(rig.at(None), Operated("leave", "worker:0"))
    assert rig.noted("LayoutChanged") == [
        {"version": 0, "nodes": ["server:0", "worker:0", "worker:1"], "shares": {"server:0": 1.0}},
        {"version": 1, "nodes": ["server:0", "worker:0", "worker:1", "worker:2"], "shares": {"server:0": 1.0}},
        {"version": 2, "nodes": ["server:0", "worker:1", "worker:2"], "shares": {"server:0": 1.0}},
    ]


def test_who_is_admitted_holds_nobody_up_and_computes_when_it_has_joined() -> None:
    rig = Rig(Puppet(), make_job(num_workers=1, global_batch_samples=1, num_samples=2, epochs=1)).start()
    rig.core.receive(rig.at(None), Operated("join", "worker:1"))
    rig.say(*compute(0))
    assert not rig.received(Joined)
    rig.join(1)
    assert rig.received(Joined)[0].worker == 1
    rig.say(*compute(1))
    assert {order.worker for order in rig.orders.values()} == {0, 1}


def test_a_newcomer_has_the_next_number_whatever_the_plan_foresaw() -> None:
    rig = puppet_rig(num_workers=2)
    rig.core.receive(rig.at(None), Operated("leave", "worker:1"))
    rig.core.receive(rig.at(None), Operated("join", "worker:1"))
    assert [order.node for _, order in rig.launches] == ["worker:2"]


def test_an_operator_waits_until_the_servers_are_back() -> None:
    rig = puppet_rig(num_workers=2)
    rig.lose_server()
    rig.core.receive(rig.at(None), Operated("leave", "worker:1"))
    assert not rig.received(Lost)
    assert rig.noted("Deferred") == [{"order": "leave", "node": "worker:1"}]
    rig.restore()
    assert [event.cause for event in rig.received(Lost)] == ["retired"]


def test_the_last_worker_does_not_leave() -> None:
    rig = puppet_rig(num_workers=1)
    rig.core.receive(rig.at(None), Operated("leave", "worker:0"))
    assert [event.reason for event in rig.received(Denied)] == ["is the last worker"]
    assert not rig.retired


def test_the_samples_of_who_left_go_to_the_others() -> None:
    rig = Rig(Puppet(), make_job(num_workers=2, global_batch_samples=2, num_samples=2, epochs=1)).start()
    rig.say(*compute(0, 1))
    rig.core.receive(rig.at(None), Operated("leave", "worker:1"))
    rig.arrive(0)
    rig.say(*compute(0))
    assert [order.worker for order in rig.orders.values()] == [0, 1, 0]
    assert len({order.ranges for order in rig.orders.values()}) == 2, "the same sample, by another worker"
