"""Sizes of batches and weights of gradients: divided by hand and by brute force; newcomers and short rounds."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from math import inf, nan

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.antdt.antdt_dd import AntDTDD
from strategies.antdt.antdt_nd import AntDTND
from strategies.gradient_coding import GradientCoding
from strategies.lb_bsp import LBBSP
from strategies.parts.load.shares import EnlargedLoad, SteadyLoad, ThroughputLoad, is_speed
from strategies.parts.weights import LR_RULES, staleness_factor
from strategies.protocol import (
    AnyCommand,
    Apply,
    Arrived,
    Compute,
    Joined,
    Lost,
    Partition,
    Started,
    Strategy,
    Timings,
    split_evenly,
)
from tests.contract.catalogue import make
from tests.support.grads import make_grad


def sizes_of(load: SteadyLoad, *batches: int) -> list[int]:
    """By worker, where these are the nominal batches."""
    load.start(Started(t=0.0, workers=tuple(range(len(batches))), batch_samples=batches, num_servers=1))
    return [load.order(worker).num_samples for worker in range(len(batches))]


def test_enlarged_batches_for_some_backups() -> None:
    """32 samples for 3 of 5, and shares of the first two for the rest: any of them hold about the whole batch."""
    assert sizes_of(EnlargedLoad(num_backup=2), 7, 7, 6, 6, 6) == [11, 11, 10, 11, 11]
    assert sizes_of(EnlargedLoad(num_backup=0), 7, 7, 6) == [7, 7, 6]
    EnlargedLoad(num_backup=2).validate(3)
    with pytest.raises(ValueError, match=r"^num_backup=3: must be less than the number of workers \(3\)$"):
        EnlargedLoad(num_backup=3).validate(3)
    load = EnlargedLoad(num_backup=1)
    assert sizes_of(load, 6, 5, 5) == [8, 8, 8]
    load.resize((0, 1, 2, 9))
    assert [load.order(worker).num_samples for worker in (0, 9)] == [8, 8]


@pytest.mark.parametrize("throughputs", [(10.0, 1.0, 0.01), (3.0, 2.0, 1.0)])
def test_no_division_of_the_batch_is_done_earlier(throughputs: tuple[float, ...]) -> None:
    """All divisions of 13 samples among three workers, each of which gets one or more."""
    found = sizes_of(ThroughputLoad(throughputs=throughputs), 5, 4, 4)
    assert sum(found) == 13
    assert min(found) >= 1

    def done_s(sizes: tuple[int, ...]) -> float:
        return max(size / speed for size, speed in zip(sizes, throughputs, strict=True))

    best_s = min(done_s(sizes) for sizes in product(range(1, 14), repeat=3) if sum(sizes) == 13)
    assert done_s(tuple(found)) == pytest.approx(best_s)


@pytest.mark.parametrize("throughputs", [(1.0,), (1.0, 1.0, 1.0)])
def test_there_is_a_throughput_for_each_worker(throughputs: tuple[float, ...]) -> None:
    with pytest.raises(ValueError, match="must be one number for each of the 2 workers"):
        ThroughputLoad(throughputs=throughputs).validate(2)
    ThroughputLoad(throughputs=(1.0, 2.0)).validate(2)


@pytest.mark.parametrize("value", [0, -1.0, inf, nan, True, None])
def test_what_is_no_speed_is_no_throughput(value: object) -> None:
    assert not is_speed(value)
    assert is_speed(1e-9)
    with pytest.raises(ValueError, match="must be a positive number for each worker"):
        ThroughputLoad(throughputs=(1.0, value))  # type: ignore[arg-type]


POLICIES: tuple[Strategy, ...] = (LBBSP(), LBBSP(kind="gpu"), AntDTND(), AntDTDD(), AntDTDD(profile_sizes=(1, 2)))


def rounds(strategy: Strategy, orders: Sequence[AnyCommand], first_id: int) -> list[Compute]:
    """All deliver what was ordered; returns the orders of the next round."""
    given = [order for order in orders if isinstance(order, Compute)]
    answers: Sequence[AnyCommand] = ()
    for place, order in enumerate(given):
        grad = make_grad(order.worker, order.num_samples, id=first_id + place)
        answers = strategy.handle(Arrived(t=2.0, grad=grad, timings=Timings(compute_s=0.1)))
    return [one for one in answers if isinstance(one, Compute)]


@pytest.mark.parametrize("strategy", POLICIES, ids=lambda one: type(one).__name__)
def test_nobody_is_ordered_to_compute_no_sample(strategy: Strategy) -> None:
    begun = strategy.handle(Started(t=0.0, workers=(0, 1), batch_samples=(1, 1), num_servers=1))
    for worker in (2, 3):
        strategy.handle(Joined(t=1.0, worker=worker, incarnation=0))
    orders = rounds(strategy, begun, 0)
    assert [(order.worker, order.num_samples) for order in orders] == [(0, 1), (1, 1), (2, 1), (3, 1)]
    for worker in (2, 3):
        strategy.handle(Lost(t=3.0, worker=worker, incarnation=0, reason="retired", restarting=False))
    again = [order for order in orders if order.worker < 2]
    assert [(order.worker, order.num_samples) for order in rounds(strategy, again, 4)] == [(0, 1), (1, 1)]


def test_nobody_is_ordered_to_compute_a_row_of_empty_parts() -> None:
    strategy = GradientCoding(scheme="cyclic", s=1)
    begun = strategy.handle(Started(t=0.0, workers=(0, 1, 2), batch_samples=(1, 1, 1), num_servers=1))
    for worker in (3, 4, 5):
        strategy.handle(Joined(t=1.0, worker=worker, incarnation=0))
    answers: list[AnyCommand] = []
    for place, order in enumerate([one for one in begun if isinstance(one, Compute)][:2]):
        grad = make_grad(order.worker, 2, id=place, round=1, round_samples=3)
        answers += strategy.handle(Arrived(t=2.0, grad=grad, timings=Timings(compute_s=0.1)))
    assert Partition(num_samples=6, num_parts=6) in answers
    given = {one.worker: one.num_samples for one in answers if isinstance(one, Compute)}
    assert given == dict.fromkeys((0, 1, 3, 4, 5), 2)


def arrived(worker: int, samples: int) -> Arrived:
    grad = make_grad(worker, samples, assigned_samples=4)
    return Arrived(t=1.0, grad=grad, timings=Timings(compute_s=1.0), loss=None, sqr_norm=None)


@pytest.mark.parametrize("name", ["bsp", "ssp", "static_x", "first_k", "lgc"])
def test_a_short_round_keeps_the_rate_of_a_whole_one(name: str) -> None:
    """Of four samples each worker found three and one; an update of one whole batch of two has half of the rate."""
    settings = {"ssp": {"bound": 0}, "static_x": {"x": 2}, "first_k": {"k": 2}, "lgc": {"k_fastest": 2}}.get(name, {})
    strategy = make(name, **settings)
    strategy.handle(Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=1))
    strategy.handle(arrived(0, 3))
    [update] = [command for command in strategy.handle(arrived(1, 1)) if isinstance(command, Apply)]
    assert (update.grads, update.weights, update.lr_scale) == ((0, 1), (0.25, 0.25), 1.0)


@given(total=st.integers(0, 10_000), parts=st.integers(1, 100))
def test_an_even_split_is_even(total: int, parts: int) -> None:
    split = split_evenly(total, parts)
    assert (len(split), sum(split)) == (parts, total)
    assert max(split) - min(split) <= 1
    assert split == sorted(split, reverse=True)


def test_late_gradients_count_less() -> None:
    """ADJUST_LR: four updates late, a quarter of the weight or 1 / (1 + 0.3 x 4) of it; not late, all of it."""
    assert [staleness_factor(rule, 0, 9) for rule in LR_RULES] == [1.0] * 5
    assert staleness_factor("inverse", 1, 9) == 1.0
    assert staleness_factor("inverse", 4, 9) == 0.25
    assert staleness_factor("linear", 4, 9) == pytest.approx(0.4545, abs=5e-5)
    assert (staleness_factor("batch_linear", 4, 9), staleness_factor("unit", 4, 9)) == (1.0, 1.0)
    # MLfabric names delay-dependent rates after AdaDelay: sqrt(t / (t + tau))
    found = [staleness_factor("adadelay", 10, update) for update in (10, 100, 1000)]
    assert found == pytest.approx([0.7071, 0.9535, 0.9950], abs=5e-5)
