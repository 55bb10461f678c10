"""The gate of eager SGD: workers without data, newcomers, and workers that leave."""

from __future__ import annotations

import pytest

from strategies.eager_sgd import EagerSGD
from strategies.eager_sgd.initiated import InitiatedGate, initiator_of
from strategies.parts.gates import Verdict
from tests.contract.catalogue import scenario
from tests.support.grads import make_grad
from tests.support.laws import dead, played, unaveraged, unconserved, unlawful, unrepeatable


def begun(*workers: int, mode: str = "solo") -> InitiatedGate:
    gate = InitiatedGate(mode=mode)
    assert gate.begin(workers, 0) == workers
    return gate


def test_a_worker_without_data_arrives_and_an_update_of_nothing_is_none() -> None:
    gate = begun(0, 1)
    empty = make_grad(0, samples=0)
    assert gate.arrived(empty) == Verdict(go=(0,), opens=True)
    assert gate.version == 0
    assert gate.arrived(make_grad(1)) == Verdict(apply=(make_grad(1),), go=(1,))
    assert gate.version == 1


def test_a_worker_that_was_without_data_before_the_last_update_looks_again() -> None:
    gate = begun(0, 1)
    gate.arrived(make_grad(0))
    assert gate.arrived(make_grad(1, samples=0)) == Verdict(go=(1,))
    assert gate.log_state() == {"waiting": 0, "late": 0}


def test_a_late_gradient_waits_for_the_update_and_its_worker_does_not() -> None:
    gate = begun(0, 1)
    gate.arrived(make_grad(0))
    late, fresh = make_grad(1), make_grad(0, version=1, id=2)
    assert gate.arrived(late) == Verdict(go=(1,))
    assert gate.log_state() == {"waiting": 0, "late": 1}
    assert gate.arrived(fresh) == Verdict(apply=(fresh, late), go=(0,))


def test_a_newcomer_enters_with_the_next_update_or_at_once_if_nobody_is_left() -> None:
    gate = begun(0, 1)
    assert gate.joined(2) == Verdict()
    assert gate.arrived(make_grad(1)) == Verdict(apply=(make_grad(1),), go=(1, 2))
    assert gate.joined(3) == Verdict()
    for worker in (0, 1):
        assert gate.lost(worker, restarting=False) == Verdict()
    assert gate.lost(2, restarting=False) == Verdict(go=(3,), opens=True)


def test_a_worker_that_restarts_repeats_what_it_lost() -> None:
    gate = begun(0, 1, mode="majority")
    drawn = initiator_of(0, 0, (0, 1))
    assert gate.arrived(make_grad(1 - drawn)) == Verdict()
    assert gate.lost(1 - drawn, restarting=True) == gate.joined(1 - drawn) == Verdict()
    assert gate.lost(drawn, restarting=True) == Verdict()
    assert gate.joined(drawn) == Verdict(go=(drawn,))


def test_if_the_drawn_worker_leaves_another_is_drawn() -> None:
    gate = begun(0, 1, mode="majority")
    drawn = initiator_of(0, 0, (0, 1))
    gate.arrived(make_grad(1 - drawn))
    assert gate.lost(drawn, restarting=False) == Verdict(apply=(make_grad(1 - drawn),), go=(1 - drawn,))


def test_it_needs_replicas_that_sum_while_they_compute() -> None:
    strategy = EagerSGD()
    assert (strategy.topologies, strategy.sums_meanwhile) == ({"allreduce"}, True)


def test_another_mode_is_refused_by_its_name() -> None:
    with pytest.raises(ValueError, match="mode=all: must be"):
        EagerSGD(mode="all")


@pytest.mark.parametrize("seed", [1, 2])
@pytest.mark.parametrize("mode", ["calm", "restarts", "departures"])
def test_solo_owes_what_every_strategy_owes(mode: str, seed: int) -> None:
    """The contract suite plays majority."""
    run = scenario(EagerSGD(mode="solo"), 4, mode, seed)
    refused = played(run)
    assert refused + unlawful(run) + dead(run) + unconserved(run) + unaveraged(run) == []
    assert unrepeatable(lambda: EagerSGD(mode="solo"), run.lines) == []
    late = [grad for _, order, grads in run.applied for grad in grads if grad.version < order.version - 1]
    assert len(late) > 3
