"""Workers' own parameters on the virtual clock: what newcomers, checkpoints and evaluations get of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.data.shards import Range
from runtime.core.job import ApplyOrder, ComputeOrder, PushOrder, StepOrder
from strategies.local_sgd import DiLoCo
from strategies.protocol import Strategy
from strategies.sgp import SGP
from tests.support.own_steps import Pull, Watched
from tests.unit.virtual.test_virtual_session import virtual_job

ADAMW: dict[str, Any] = {"name": "adamw", "lr": 0.125}


def model(strategy: Strategy | None = None) -> Watched:
    return Watched(Pull(num_samples=16), virtual_job(2, 16, num_servers=0), strategy or DiLoCo(), ADAMW)


def step(at: Watched, grad_id: int, worker: int) -> None:
    about: dict[str, Any] = {"incarnation": 0, "version": 0, "accum": 1, "delay_s": 0.0, "slowdown_frac": 0.0}
    ranges = tuple([Range(0, shard, 0, 1) for shard in range(1 + worker)])
    at.gradient(ComputeOrder(grad_id=grad_id, worker=worker, ranges=ranges, **about))
    at.step_alone(StepOrder(grad_id=grad_id, worker=worker, lr=0.125, samples=1 + worker))


def update(at: Watched, version: int, *workers: int) -> None:
    moves = tuple((worker, 1 / len(workers)) for worker in workers)
    at.apply(ApplyOrder(version=version, grads=(), weights=(), lr=0.7, samples=3, moves=moves))


def trained() -> Watched:
    """Two workers have made an update of their moves, and one step each after it."""
    at = model()
    for number in range(4):
        step(at, number, number % 2)
    update(at, 1, 0, 1)
    step(at, 4, 0)
    step(at, 5, 1)
    return at


def memory(state: dict[str, Any]) -> list[Any]:
    return [state["step"], state["mean"].tolist(), state["square"].tolist()]


def test_what_is_common_moves_with_updates_alone() -> None:
    at = model()
    before = at.params.copy()
    step(at, 0, 0)
    np.testing.assert_array_equal(at.params, before)
    assert np.abs(at.own[0].params - before).max() > 0
    assert 1 not in at.own, "who has not stepped alone has what is common"
    update(at, 1, 0)
    np.testing.assert_array_equal(at.params, at.own[0].params)


def test_a_newcomer_has_anothers_optimizer_as_of_the_last_update() -> None:
    at = trained()
    at.take_over(2, 1)
    assert memory(at.own[2].optimizer.state()) == memory(at.own[1].kept.state()) != memory(at.own[0].kept.state())
    assert at.own[2].optimizer.state()["step"] == 2
    np.testing.assert_array_equal(at.own[2].params, at.params)


def test_who_is_lost_begins_with_the_optimizer_of_the_lowest() -> None:
    at = trained()
    dumped = at.dump()
    at.lose(1)
    at.load(dumped)
    step(at, 6, 1)
    assert memory(at.own[1].kept.state()) == memory(at.own[0].kept.state()) == memory(dumped.kept[0])


def test_before_any_step_alone_a_newcomer_takes_nothing_over() -> None:
    at = model()
    at.take_over(2, 0)
    assert at.own == {}


@pytest.mark.parametrize("stored", [True, False], ids=["checkpoint", "memory"])
def test_a_rollback_brings_common_and_own_states_back(stored: bool) -> None:
    """From a checkpoint all have the first worker's optimizer, from memory each its own; the outer one is one."""
    at = trained()
    dumped = at.dump_file() if stored else at.dump()
    params, outer = at.params.copy(), at.outer.optimizer.state()["momentum"].copy()  # type: ignore[union-attr]
    kept = {worker: memory(at.own[worker].kept.state()) for worker in (0, 1)}
    update(at, 2, 0, 1)
    at.load(dumped)
    np.testing.assert_array_equal(at.params, params)
    np.testing.assert_array_equal(at.outer.optimizer.state()["momentum"], outer)  # type: ignore[union-attr]
    for number, worker in enumerate((0, 1)):
        step(at, 10 + number, worker)
        assert memory(at.own[worker].kept.state()) == kept[0 if stored else worker]


@given(
    groups=st.lists(st.sets(st.integers(0, 4), min_size=2), min_size=1, max_size=6),
    seed=st.integers(0, 2**16),
)
def test_an_average_keeps_the_mean_of_all_workers(groups: list[set[int]], seed: int) -> None:
    """Whatever groups average in whatever order; within the rounding of float32."""
    at = model()
    for worker in range(5):
        step(at, worker, worker)
        at.own[worker].params[:] = np.random.default_rng((seed, worker)).normal(size=at.num_parameters)
    before = np.mean([at.own[worker].params for worker in range(5)], axis=0, dtype=np.float64)
    for group in groups:
        at.average(sorted(group))
        first, *others = (at.own[worker].params for worker in group)
        assert all(other.tobytes() == first.tobytes() for other in others)
    after = np.mean([at.own[worker].params for worker in range(5)], axis=0, dtype=np.float64)
    np.testing.assert_allclose(after, before, atol=2e-6)


@given(
    ways=st.lists(st.tuples(st.integers(0, 4), st.integers(1, 4), st.booleans()), max_size=24),
    seed=st.integers(0, 2**16),
)
def test_halves_keep_the_sums_of_parameters_and_of_weights(ways: list[tuple[int, int, bool]], seed: int) -> None:
    """Whoever sends to whom, and whether that is added at once or before the update: its result is the mean."""
    at = model(SGP())
    for worker in range(5):
        step(at, worker, worker)
        at.own[worker].params[:] = np.random.default_rng((seed, worker)).normal(size=at.num_parameters)
    before = np.sum([one.params for one in at.own.values()], axis=0, dtype=np.float64)
    late = []
    for source, places, at_once in ways:
        target = (source + places) % 5
        at.push_half(PushOrder(worker=source, to=target, adds=()))
        late.append((source, target))
        if at_once:
            at.push_half(PushOrder(worker=target, to=None, adds=(source,)))
            late.remove((source, target))
    for source, target in late:
        at.push_half(PushOrder(worker=target, to=None, adds=(source,)))
    after = np.sum([one.params for one in at.own.values()], axis=0, dtype=np.float64)
    np.testing.assert_allclose(after, before, atol=5e-6)
    assert sum(one.weight for one in at.own.values()) == pytest.approx(5.0, rel=1e-6)
    moves = tuple((worker, 0.2) for worker in range(5))
    at.apply(ApplyOrder(version=1, grads=(), weights=(), lr=1.0, samples=5, moves=moves))
    np.testing.assert_allclose(at.common[1], before / 5, atol=5e-6)
    assert [one.weight for one in at.own.values()] == [1.0] * 5


def test_after_a_rollback_no_half_is_on_its_way() -> None:
    at = trained()
    at.push_half(PushOrder(worker=0, to=1, adds=()))
    at.load(at.dump())
    assert [(at.own[worker].weight, at.own[worker].debiased is at.own[worker].params) for worker in (0, 1)] == [
        (1.0, True)
    ] * 2
    with pytest.raises(ValueError, match="not in list"):
        at.push_half(PushOrder(worker=1, to=None, adds=(0,)))


def test_an_average_leaves_the_common_parameters_and_other_workers_alone() -> None:
    at = trained()
    step(at, 6, 2)
    common, other, memory_0 = at.params.copy(), at.own[2].params.copy(), memory(at.own[0].optimizer.state())
    mean = (at.own[0].params + at.own[1].params) / np.float32(2)
    at.average((0, 1))
    np.testing.assert_array_equal(at.own[1].params, mean)
    np.testing.assert_array_equal(at.params, common)
    np.testing.assert_array_equal(at.own[2].params, other)
    assert memory(at.own[0].optimizer.state()) == memory_0
    at.load(at.dump())
    np.testing.assert_array_equal(at.own[0].params, common)
