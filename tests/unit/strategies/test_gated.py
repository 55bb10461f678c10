"""What every strategy that is a gate with a load policy has from its host."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from strategies.asp import ASP
from strategies.gated import GatedStrategy
from strategies.gates import AllGate, EachGate, Gate
from strategies.protocol import Apply, Compute, Strategy
from strategies.ssp import SSP
from tests.support.harness import Desk, HeapRun, make_job


class Rotating(GatedStrategy):
    """Gives the sizes 1, 2 and 3 to the next workers in every round."""

    def __init__(self, gate: Callable[[tuple[int, ...]], Gate] = AllGate) -> None:
        self.gate, self.rounds = gate, list[tuple[int, ...]]()

    def make_gate(self, workers: tuple[int, ...], version: int) -> Gate:
        return self.gate(workers)

    def before_round(self, workers: tuple[int, ...]) -> None:
        self.rounds.append(workers)
        self._batch |= {worker: 1 + (worker + len(self.rounds)) % 3 for worker in workers}


def desk(strategy: Strategy) -> Desk:
    return Desk(strategy, make_job(num_workers=3, global_batch_samples=6)).start()


def sizes(desk: Desk) -> list[int]:
    """Of the last three orders, by worker."""
    orders = [command for command in desk.commands if isinstance(command, Compute)][-3:]
    return [order.num_samples for order in sorted(orders, key=lambda order: order.worker)]


def test_sizes_change_for_all_workers_in_the_same_round() -> None:
    at = desk(Rotating())
    seen = [sizes(at)]
    for _ in range(2):
        for worker in (2, 0, 1):
            at.arrive(worker)
        seen.append(sizes(at))
    assert seen == [[2, 3, 1], [3, 1, 2], [1, 2, 3]]
    assert all(sum(one) == 6 for one in seen)


def test_a_worker_that_returns_or_fails_within_a_round_keeps_the_size_of_the_round() -> None:
    strategy = Rotating()
    at = desk(strategy)
    at.fail(0)
    at.lose(1)
    at.join(1)
    orders = [command for command in at.commands if isinstance(command, Compute)]
    assert [(order.worker, order.num_samples) for order in orders] == [(0, 2), (1, 3), (2, 1), (0, 2), (1, 3)]
    assert strategy.rounds == [(0, 1, 2)]


def test_who_is_there_is_asked_for_sizes_after_losses_and_restores() -> None:
    strategy = Rotating()
    at = desk(strategy)
    at.arrive(0)
    at.arrive(2)
    at.lose(1, restarting=False)
    at.lose_server()
    at.restore()
    assert strategy.rounds == [(0, 1, 2), (0, 2), (0, 2)]


def test_without_rounds_every_update_is_one_of_its_own() -> None:
    strategy = Rotating(EachGate)
    at = desk(strategy)
    at.arrive(1)
    at.arrive(1)
    assert strategy.rounds == [(0, 1, 2), (1,), (1,)]


# ---- ADJUST_LR ------------------------------------------------------------------------------------------------------


def weights(strategy: Strategy) -> list[float]:
    """By staleness, of gradients of one sample each: three workers, of which one is four times as slow."""
    run = HeapRun(strategy, make_job(num_workers=3, global_batch_samples=3, max_time_s=20.0), [1.0, 1.0, 4.0]).run()
    found = dict(zip(run.staleness, (weight for _, order, _ in run.applied for weight in order.weights), strict=True))
    return [found[staleness] for staleness in sorted(found)]


def test_a_late_gradient_counts_less_and_no_other_more() -> None:
    for strategy in (ASP, SSP):
        plain = weights(strategy(lr_rule="batch_linear"))
        assert plain == [1.0] * len(plain)
        assert len(plain) >= 3


@pytest.mark.parametrize("make", [lambda rule: ASP(lr_rule=rule), lambda rule: SSP(lr_rule=rule, bound=None)])
def test_the_penalty_is_that_of_the_staleness(make: Callable[[str], Strategy]) -> None:
    run = HeapRun(make("inverse"), make_job(num_workers=3, global_batch_samples=3, max_time_s=20.0), [1, 1, 4]).run()
    for (_, order, _), staleness in zip(run.applied, run.staleness, strict=True):
        assert order.weights == (1 / max(1, staleness),)
    assert max(run.staleness) >= 7
    slow = [order.weights[0] for _, order, grads in run.applied if grads[0].worker == 2]
    linear = HeapRun(make("linear"), make_job(num_workers=3, global_batch_samples=3, max_time_s=20.0), [1, 1, 4]).run()
    assert max(slow) < 0.2
    assert min(order.weights[0] for _, order, _ in linear.applied) == pytest.approx(1 / (1 + 0.3 * max(run.staleness)))


def test_the_penalty_goes_by_versions_also_after_a_restore() -> None:
    """Versions go back with the parameters: nothing is late that was computed on what was restored."""
    at = Desk(ASP(lr_rule="inverse"), make_job(num_workers=2, global_batch_samples=2)).start()
    for _ in range(5):
        at.arrive(0)
    at.lose_server()
    at.restore()
    at.arrive(1)
    assert [command.weights for command in at.commands if isinstance(command, Apply)][-1] == (1.0,)


def test_what_depends_on_staleness_has_no_rhythm() -> None:
    """A runtime that knew the rates beforehand would get them wrong."""
    assert ASP().rhythm() is not None
    assert SSP().rhythm() is not None
    assert ASP(lr_rule="inverse").rhythm() is None
    assert SSP(lr_rule="linear").rhythm() is None
