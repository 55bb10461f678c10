"""Gates and those who come and go: what was lost is computed again once, and newcomers count from when they enter."""

from __future__ import annotations

import pytest

from strategies.parts.gates.base import NOTHING
from strategies.protocol import Apply, Arrived, Compute, Joined, Lost, Started, Timings
from tests.contract.catalogue import make
from tests.unit.strategies.test_gates import MAKERS, applied, grad


@pytest.mark.parametrize("name", ["all", "first_fresh", "exactly", "delayed", "blocks", "groups", "switching"])
def test_work_that_was_lost_once_is_computed_again_once(name: str) -> None:
    """Whoever has delivered since waits, also when its process restarts once more."""
    gate = MAKERS[name](range(3))
    gate.lost(1, True)
    assert gate.joined(1).go == (1,)
    assert gate.arrived(grad(1)) == NOTHING
    gate.lost(1, True)
    assert gate.joined(1) == NOTHING


@pytest.mark.parametrize("name", ["all", "first_fresh", "delayed", "blocks"])
def test_what_a_worker_lost_is_forgotten_when_it_leaves(name: str) -> None:
    """It crashes, is given up, and comes as a newcomer: that it has delivered its next gradient is not forgotten."""
    gate = MAKERS[name](range(3))
    gate.lost(1, True)
    gate.lost(1, False)
    assert gate.joined(1) == NOTHING
    gate.arrived(grad(0))
    assert applied(gate.arrived(grad(2))) == [0, 2]
    assert gate.arrived(grad(1, version=1)) == NOTHING
    gate.lost(1, True)
    assert gate.joined(1) == NOTHING


@pytest.mark.parametrize("name", ["all", "first_fresh", "delayed", "blocks"])
def test_a_newcomer_that_leaves_again_is_not_counted(name: str) -> None:
    gate = MAKERS[name](range(2))
    assert gate.joined(2) == NOTHING
    assert gate.lost(2, False) == NOTHING
    gate.arrived(grad(0))
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.go) == ([0, 1], (0, 1))


def test_bounded_counts_a_newcomer_at_the_slowest_clock() -> None:
    """Bound 1: it holds worker 0 back until it has made an iteration, also when worker 1 is further."""
    gate = MAKERS["bounded"](range(2))
    assert gate.arrived(grad(0)).go == (0,)
    gate.joined(2)
    assert gate.arrived(grad(1)).go == (1,)
    assert gate.arrived(grad(0)).go == (), "two ahead of the newcomer"
    assert gate.arrived(grad(2)).go == (0, 2)


def test_a_round_that_follows_no_update_has_sizes_of_its_own() -> None:
    """All have left, and somebody comes: a load policy is asked, and a round of one has the whole global batch."""
    strategy = make("lb_bsp")
    strategy.handle(Started(t=0.0, workers=(0, 1, 2), batch_samples=(2, 2, 2), num_servers=1))
    for worker in range(3):
        strategy.handle(Lost(t=1.0, worker=worker, incarnation=0, reason="killed", restarting=False))
    assert strategy.handle(Joined(t=2.0, worker=1, incarnation=1)) == [Compute(worker=1, num_samples=6)]


def test_a_newcomer_waits_for_members_that_compute_on_old_parameters() -> None:
    """Workers 0 and 1 have made the first update and leave; worker 2 still computes on what was before it."""
    gate = MAKERS["delayed"](range(3))
    gate.arrived(grad(0))
    assert gate.arrived(grad(1)).go == (0, 1)
    assert gate.joined(3) == NOTHING
    assert gate.lost(0, False) == NOTHING
    assert gate.lost(1, False) == NOTHING
    assert gate.lost(2, False).go == (3,), "now nobody else is left"


def test_a_late_part_rides_along_and_makes_nobody_whole() -> None:
    """Worker 2 was late by one update: its part is used, and it begins another on the new parameters at once."""
    gate = MAKERS["blocks"](range(3))
    gate.arrived(grad(0))
    assert gate.arrived(grad(1)).go == (0, 1)
    assert gate.arrived(grad(2)).go == (2,)
    assert gate.arrived(grad(0, version=1)) == NOTHING
    assert applied(gate.arrived(grad(1, version=1))) == [0, 1, 2]


def test_what_the_last_to_leave_had_delivered_is_applied() -> None:
    """SSP with bound 0 waits for the round to be complete; when nobody is left it is."""
    strategy = make("ssp", bound=0)
    strategy.handle(Started(t=0.0, workers=(0, 1), batch_samples=(1, 1), num_servers=1))
    assert strategy.handle(Arrived(t=1.0, grad=grad(0), timings=Timings(), loss=None, sqr_norm=None)) == []
    left = [Lost(t=2.0, worker=worker, incarnation=0, reason="killed", restarting=False) for worker in (0, 1)]
    assert list(strategy.handle(left[0])) == []
    assert [type(command) for command in strategy.handle(left[1])] == [Apply]


def test_who_restarts_will_be_fresh_and_is_waited_for() -> None:
    """Worker 2 computed on what was before the first update and crashes; with worker 1 gone it is one of two needed."""
    gate = MAKERS["delayed"](range(3))
    gate.arrived(grad(0))
    gate.arrived(grad(1))
    assert gate.lost(2, True) == NOTHING
    assert gate.lost(1, False) == NOTHING
    assert gate.arrived(grad(0, version=1)) == NOTHING
    assert gate.joined(2).go == (2,)
    assert applied(gate.arrived(grad(2, version=1))) == [0, 2]
