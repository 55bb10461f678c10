"""Gates: which arrived gradients form the next update, and who may compute then."""

from __future__ import annotations

import random
from collections.abc import Collection
from copy import deepcopy
from typing import TypeVar

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.basic.first_fresh import FirstFreshGate
from strategies.basic.static_x import ExactlyGate
from strategies.lgc.delayed import BlocksGate, DelayedGate
from strategies.parts.gates import AllGate, BoundedGate, EachGate, Gate, GroupsGate, Verdict
from strategies.parts.gates.base import NOTHING, by_worker
from strategies.protocol import Grad, Started
from strategies.sync_switch.switching import SwitchingGate

G = TypeVar("G", bound=Gate)


def opened(gate: G, workers: Collection[int], version: int = 0) -> G:
    """A gate that has begun with these workers."""
    if hasattr(gate, "start"):
        gate.start(Started(t=0.0, workers=tuple(workers), batch_samples=(1,) * len(workers), num_servers=1))
    gate.begin(workers, version)
    return gate


def grouped(groups: list[list[int]]) -> GroupsGate:
    """A gate that has begun with these groups."""
    gate = opened(GroupsGate(), [worker for group in groups for worker in group])
    assert gate.regroup(groups) == []
    return gate


def grad(worker: int, version: int = 0, samples: int = 1) -> Grad:
    """A gradient of a worker; tests tell gradients apart by worker and version."""
    return Grad(
        id=100 * version + worker,
        worker=worker,
        incarnation=0,
        iteration=0,
        version=version,
        samples=samples,
        assigned_samples=1,
    )


def applied(verdict: Verdict) -> list[int]:
    """Whose gradients form the update."""
    return [one.worker for one in verdict.apply]


MAKERS = {
    "all": lambda workers: opened(AllGate(), workers),
    "each": lambda workers: opened(EachGate(), workers),
    "bounded": lambda workers: opened(BoundedGate(bound=1), workers),
    "first_fresh": lambda workers: opened(FirstFreshGate(k=2), workers),
    "exactly": lambda workers: opened(ExactlyGate(x=2), workers),
    "delayed": lambda workers: opened(DelayedGate(k_fastest=2, max_delay_versions=1), workers),
    "blocks": lambda workers: opened(BlocksGate(k_fastest=2, max_delay_versions=1, blocks=1), workers),
    "groups": lambda workers: grouped([workers]),
    "switching": lambda workers: opened(SwitchingGate(), workers),
}


@pytest.fixture(params=MAKERS)
def gate(request: pytest.FixtureRequest) -> Gate:
    """Every gate, over three workers."""
    made: Gate = MAKERS[request.param](range(3))
    return made


# ---- all gates ------------------------------------------------------------------------------------------------------


def test_everybody_begins_in_rank_order(gate: Gate) -> None:
    assert gate.begin((2, 0, 1), 0) == (0, 1, 2)


def test_a_gate_that_begins_again_is_as_one_that_begins(gate: Gate) -> None:
    """After a restore nothing is left of the rounds before: not who left, not what waited."""
    fresh = deepcopy(gate)
    gate.arrived(grad(0))
    gate.lost(1, True)
    gate.lost(2, False)
    gate.joined(7)
    gate.arrived(grad(0, 1))
    assert state(gate) != state(fresh) or isinstance(gate, EachGate)
    gate.begin(range(3), 0)
    assert state(gate) == state(fresh)


def state(value: object) -> object:
    """All that an object holds, and what is held by that."""
    if hasattr(value, "__dict__"):
        return {name: state(inner) for name, inner in vars(value).items()}
    return value


def test_a_restarted_worker_whose_compute_died_computes_again(gate: Gate) -> None:
    assert gate.lost(1, True) == NOTHING
    assert gate.joined(1) == Verdict(go=(1,))


def test_the_state_is_worth_recording(gate: Gate) -> None:
    gate.arrived(grad(0))
    assert all(isinstance(value, int | float | str) for value in gate.log_state().values())


@pytest.mark.parametrize("name", MAKERS)
def test_the_order_of_arrival_does_not_matter_to_the_sum(name: str) -> None:
    """Updates are in rank order, or floating-point sums would depend on who was first."""
    gate = MAKERS[name](range(3))
    for worker in random.Random(0).sample(range(3), 3):
        verdict = gate.arrived(grad(worker))
        assert applied(verdict) == sorted(applied(verdict))
        assert list(verdict.go) == sorted(verdict.go)


def test_rank_order_is_stable() -> None:
    grads = [grad(2), grad(0, version=1), grad(0, version=0), grad(1)]
    assert [(one.worker, one.version) for one in by_worker(grads)] == [(0, 1), (0, 0), (1, 0), (2, 0)]


# ---- all ------------------------------------------------------------------------------------------------------------


def test_all_waits_for_the_last() -> None:
    gate = opened(AllGate(), range(3))
    assert gate.arrived(grad(2)) == NOTHING
    assert gate.arrived(grad(0)) == NOTHING
    assert gate.log_state() == {"arrived": 2}
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.drop, verdict.go) == ([0, 1, 2], (), (0, 1, 2))
    assert gate.log_state() == {"arrived": 0}


def test_all_waits_for_a_worker_that_restarts() -> None:
    gate = opened(AllGate(), range(2))
    gate.arrived(grad(0))
    assert gate.lost(1, True) == NOTHING
    assert gate.joined(1).go == (1,)
    assert applied(gate.arrived(grad(1))) == [0, 1]


def test_all_does_not_ask_a_worker_twice_that_restarted_after_its_gradient_arrived() -> None:
    gate = opened(AllGate(), range(2))
    gate.arrived(grad(0))
    gate.lost(0, True)
    assert gate.joined(0) == NOTHING
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.go) == ([0, 1], (0, 1))


def test_all_starts_the_next_round_with_who_is_still_away() -> None:
    """It gets its order with the others, so that it draws the samples that it would have drawn, and no second one."""
    gate = opened(AllGate(), range(2))
    gate.arrived(grad(0))
    gate.lost(0, True)
    assert gate.arrived(grad(1)).go == (0, 1)
    assert gate.joined(0) == NOTHING
    gate.arrived(grad(0, 1))
    assert applied(gate.arrived(grad(1, 1))) == [0, 1]


def test_all_goes_on_without_a_worker_that_left() -> None:
    gate = opened(AllGate(), range(3))
    gate.arrived(grad(0))
    gate.arrived(grad(2))
    verdict = gate.lost(1, False)
    assert (applied(verdict), verdict.go) == ([0, 2], (0, 2))


def test_all_does_not_update_from_nothing() -> None:
    assert opened(AllGate(), range(2)).lost(0, False) == NOTHING


def test_all_counts_a_departed_workers_gradient_as_one_more() -> None:
    gate = opened(AllGate(), range(3))
    gate.arrived(grad(0))
    gate.lost(0, False)
    assert gate.arrived(grad(1)) == NOTHING
    verdict = gate.arrived(grad(2))
    assert (applied(verdict), verdict.go) == ([0, 1, 2], (1, 2))


def test_all_lets_a_newcomer_in_with_the_next_round() -> None:
    gate = opened(AllGate(), range(2))
    gate.arrived(grad(0))
    assert gate.joined(7) == NOTHING
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.go) == ([0, 1], (0, 1, 7))
    assert gate.arrived(grad(7, 1)) == NOTHING


def test_all_forgets_a_newcomer_that_left_again() -> None:
    gate = opened(AllGate(), range(1))
    gate.joined(7)
    gate.lost(7, False)
    assert gate.arrived(grad(0)).go == (0,)


def test_all_begins_anew_with_the_first_to_come_when_nobody_was_there() -> None:
    """Which is the beginning of a round; the return of somebody who is waited for is none."""
    assert opened(AllGate(), ()).joined(4) == Verdict(go=(4,), opens=True)
    gate = opened(AllGate(), range(2))
    gate.lost(1, True)
    assert gate.joined(1) == Verdict(go=(1,), opens=False)


def test_all_lets_newcomers_in_at_once_when_all_others_have_left() -> None:
    gate = opened(AllGate(), range(1))
    gate.joined(7)
    assert gate.lost(0, False) == Verdict(go=(7,), opens=True)
    assert applied(gate.arrived(grad(7))) == [7]


# ---- each -----------------------------------------------------------------------------------------------------------


def test_each_lets_nobody_wait() -> None:
    gate = opened(EachGate(), range(3))
    for worker in (2, 2, 0):
        assert gate.arrived(grad(worker)) == Verdict(apply=(grad(worker),), go=(worker,))
    assert gate.lost(1, False) == NOTHING
    assert gate.log_state() == {}


# ---- bounded --------------------------------------------------------------------------------------------------------


def test_bounded_blocks_who_is_too_far_ahead() -> None:
    gate = opened(BoundedGate(bound=1), range(2))
    assert gate.arrived(grad(0)).go == (0,)
    blocked = gate.arrived(grad(0, 1))
    assert (applied(blocked), blocked.go) == ([0], ())
    assert gate.log_state() == {"slowest_clock": 0, "blocked": 1}
    assert gate.arrived(grad(1)).go == (0, 1)


def test_bounded_releases_when_the_slowest_leaves() -> None:
    gate = opened(BoundedGate(bound=1), range(3))
    for worker in (0, 0, 1, 1):
        gate.arrived(grad(worker))
    assert gate.lost(2, False).go == (0, 1)


def test_bounded_lets_who_reaches_the_bound_go_where_another_left() -> None:
    """The place of who left at that clock is still there, so the quick way is not taken."""
    gate = opened(BoundedGate(bound=1), range(3))
    assert gate.arrived(grad(1)).go == (1,)
    gate.lost(1, False)
    assert gate.arrived(grad(2)).go == (2,)


def test_bounded_keeps_the_clock_of_a_worker_that_restarts() -> None:
    gate = opened(BoundedGate(bound=1), range(2))
    gate.arrived(grad(0))
    gate.arrived(grad(0))
    assert gate.lost(1, True) == NOTHING
    assert gate.joined(1).go == (1,), "the slowest goes; who waits for it waits on"
    assert gate.log_state() == {"slowest_clock": 0, "blocked": 1}


def test_bounded_releases_who_is_still_away_with_the_others() -> None:
    gate = opened(BoundedGate(bound=1), range(2))
    gate.arrived(grad(0))
    gate.arrived(grad(0))
    gate.lost(0, True)
    assert gate.arrived(grad(1)).go == (0, 1)
    assert gate.joined(0) == NOTHING


def test_bounded_keeps_who_is_back_waiting_if_it_waited_before() -> None:
    gate = opened(BoundedGate(bound=1), range(2))
    gate.arrived(grad(0))
    gate.arrived(grad(0))
    gate.lost(0, True)
    assert gate.joined(0) == NOTHING
    assert gate.arrived(grad(1)).go == (0, 1)


def test_bounded_starts_a_newcomer_at_the_slowest_clock() -> None:
    gate = opened(BoundedGate(bound=2), range(2))
    for worker in (0, 0, 1):
        gate.arrived(grad(worker))
    assert gate.joined(7).go == (7,)
    assert gate.clock[7] == 1


def test_bounded_ignores_a_worker_that_it_does_not_know() -> None:
    assert opened(BoundedGate(bound=1), range(2)).lost(9, False) == NOTHING


def test_bound_zero_merges_a_round_into_one_update() -> None:
    gate = opened(BoundedGate(bound=0), range(3))
    assert gate.arrived(grad(2)) == NOTHING
    assert gate.arrived(grad(0)) == NOTHING
    verdict = gate.arrived(grad(1))
    assert (applied(verdict), verdict.go) == ([0, 1, 2], (0, 1, 2))


def test_bound_zero_applies_a_round_that_a_departure_completes() -> None:
    gate = opened(BoundedGate(bound=0), range(2))
    gate.arrived(grad(0))
    gate.lost(0, True)
    assert applied(gate.lost(1, False)) == [0]


@given(st.lists(st.integers(0, 3), max_size=60), st.integers(1, 3))
def test_bounded_is_its_definition(workers: list[int], bound: int) -> None:
    """Against a direct evaluation: i may start iff c_i - min c <= s."""
    gate, clock, computing = opened(BoundedGate(bound=bound), range(4)), [0] * 4, set(range(4))
    for worker in workers:
        if worker in computing:
            verdict = gate.arrived(grad(worker))
            clock[worker] += 1
            computing.discard(worker)
            free = {i for i in range(4) if i not in computing and clock[i] - min(clock) <= bound}
            assert set(verdict.go) == free
            computing |= free


# ---- first fresh ----------------------------------------------------------------------------------------------------


def test_first_fresh_updates_from_the_first_k() -> None:
    gate = opened(FirstFreshGate(k=2), range(3))
    assert gate.arrived(grad(2)) == NOTHING
    verdict = gate.arrived(grad(0))
    assert (applied(verdict), verdict.drop, verdict.go) == ([0, 2], (), (0, 2))


def test_first_fresh_drops_the_late_and_lets_them_compute() -> None:
    gate = opened(FirstFreshGate(k=2), range(3))
    gate.arrived(grad(2))
    gate.arrived(grad(0))
    assert gate.arrived(grad(1)) == Verdict(drop=(grad(1),), go=(1,))


def test_first_fresh_counts_a_late_report_without_samples_as_present() -> None:
    """There is nothing to drop, and at the end of the data nobody else may come."""
    gate = opened(FirstFreshGate(k=2), range(3))
    gate.arrived(grad(2))
    gate.arrived(grad(0))
    assert gate.arrived(grad(1, samples=0)) == NOTHING
    assert applied(gate.arrived(grad(0, 1))) == [0, 1]


def test_first_fresh_stays_on_its_version_when_an_update_has_no_samples() -> None:
    gate = opened(FirstFreshGate(k=2), range(3))
    gate.arrived(grad(0, samples=0))
    assert gate.arrived(grad(1, samples=0)).go == (0, 1)
    assert gate.arrived(grad(2)).drop == (), "version 0 is still the newest"


def test_first_fresh_starts_from_the_restored_version() -> None:
    gate = opened(FirstFreshGate(k=2), range(2), 5)
    assert gate.arrived(grad(0, 5)) == NOTHING
    assert applied(gate.arrived(grad(1, 5))) == [0, 1]


def test_first_fresh_needs_no_more_than_there_are() -> None:
    gate = opened(FirstFreshGate(k=2), range(3))
    gate.arrived(grad(0))
    assert gate.lost(1, False) == NOTHING, "two are left, and two are needed"
    assert applied(gate.lost(2, False)) == [0]


def test_first_fresh_waits_for_a_worker_that_restarts() -> None:
    gate = opened(FirstFreshGate(k=2), range(2))
    gate.arrived(grad(0))
    assert gate.lost(1, True) == NOTHING
    assert gate.joined(1).go == (1,)


def test_first_fresh_does_not_ask_a_worker_whose_gradient_waits() -> None:
    gate = opened(FirstFreshGate(k=2), range(3))
    gate.arrived(grad(0))
    gate.lost(0, True)
    assert gate.joined(0) == NOTHING
    assert gate.arrived(grad(1)).go == (0, 1)


def test_first_fresh_starts_the_next_round_with_who_is_still_away() -> None:
    gate = opened(FirstFreshGate(k=2), range(3))
    gate.arrived(grad(0))
    gate.lost(0, True)
    assert gate.arrived(grad(1)).go == (0, 1)
    assert gate.joined(0) == NOTHING


def test_first_fresh_lets_a_newcomer_in_with_the_next_round() -> None:
    gate = opened(FirstFreshGate(k=2), range(2))
    gate.arrived(grad(0))
    assert gate.joined(7) == NOTHING
    assert gate.arrived(grad(1)).go == (0, 1, 7)


def test_first_fresh_lets_newcomers_in_at_once_when_all_others_have_left() -> None:
    gate = opened(FirstFreshGate(k=2), range(2))
    gate.lost(1, False)
    assert gate.joined(1) == NOTHING
    assert gate.lost(0, False) == Verdict(go=(1,), opens=True)
    assert applied(gate.arrived(grad(1))) == [1]


def test_first_fresh_uses_what_the_last_member_has_left_behind() -> None:
    gate = opened(FirstFreshGate(k=2), range(2))
    gate.arrived(grad(0))
    gate.joined(7)
    gate.lost(0, False)
    verdict = gate.lost(1, False)
    assert (applied(verdict), verdict.go, verdict.opens) == ([0], (7,), False)


def test_first_fresh_counts_a_departed_workers_gradient_as_one_more() -> None:
    gate = opened(FirstFreshGate(k=3), range(3))
    gate.arrived(grad(0))
    gate.lost(0, False)
    assert gate.arrived(grad(1)) == NOTHING
    assert applied(gate.arrived(grad(2))) == [0, 1, 2]
