"""The squared norm of a weighted sum, against numpy on whole vectors and whatever the cut."""

from __future__ import annotations

from math import fsum

import numpy as np
import pytest

from runtime.core.job import ApplyOrder
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.tasks.store import Store
from runtime.live.transport.auth import Identity
from runtime.training.norms import sum_sqr_norm
from runtime.training.optimizers import BLOCK
from runtime.virtual.tasks.model_state import NoModelState

GRADS = [np.random.default_rng(seed).standard_normal(2 * BLOCK + 77, dtype=np.float32) for seed in range(3)]
WEIGHTS = (0.1, 0.25, -0.5)


@pytest.mark.parametrize("size", [0, 1, 2 * BLOCK + 77])
@pytest.mark.parametrize("count", [1, 3])
def test_it_is_the_squared_norm_of_the_sum(size: int, count: int) -> None:
    grads, weights = [grad[:size] for grad in GRADS[:count]], WEIGHTS[:count]
    whole = sum(weight * grad.astype(float) for weight, grad in zip(weights, grads, strict=True))
    assert sum_sqr_norm(grads, weights) == pytest.approx(fsum(np.square(whole)), rel=1e-12)


def test_norms_are_in_double_precision_and_only_where_asked_for() -> None:
    """In single precision, 1 + 1e-8 - 1 is nothing."""
    one = np.ones(1, dtype=np.float32)
    assert sum_sqr_norm([one, one], (1 + 1e-8, -1.0)) == pytest.approx(1e-16)
    store = Store(np.zeros(2, dtype=np.float32), {"name": "sgd", "lr": 1.0})
    for grad_id in (0, 1):
        store.hold(grad_id, np.ones(2, dtype=np.float32))
    assert store.apply(order(measure=None)) == 0.0
    assert NoModelState(10, None).sqr_norms(order(measure=7), [10]) == []


def order(measure: int | None) -> ApplyOrder:
    return ApplyOrder(version=1, grads=(0, 1), weights=(0.5, 0.25), lr=0.1, samples=4, measure=measure)


@pytest.mark.parametrize("name", ["sgd", "adam", "tally"])
def test_a_server_measures_before_the_optimizers_rule(name: str) -> None:
    store = Store(np.zeros(2, dtype=np.float32), {"name": name, "lr": 1.0})
    store.hold(0, np.array([4.0, 0.0], dtype=np.float32))
    store.hold(1, np.array([0.0, 12.0], dtype=np.float32))
    assert store.apply(order(measure=7)) == 2.0**2 + 3.0**2
    assert store.params.any()


@pytest.mark.parametrize("weights", [(0.5, 0.5), (0.5, 0.25)], ids=["equal", "unequal"])
def test_a_replica_measures_the_same_of_the_sum_over_all(weights: tuple[float, float]) -> None:
    """With unequal weights the sum has the optimizer's step scale already."""
    grads = [np.array([4.0, 1.0], dtype=np.float32), np.array([-2.0, 12.0], dtype=np.float32)]
    asked = ApplyOrder(version=1, grads=(0, 1), weights=weights, lr=0.1, samples=4, measure=0)
    total, states = np.zeros(2, dtype=np.float32), []
    for worker, grad in enumerate(grads):
        state = ReplicaState(np.zeros(2, dtype=np.float32), {"name": "sgd", "lr": 1.0}, Identity("worker", worker, 0))
        state.hold(worker, grad.copy())
        total += state.share(asked)
        states.append(state)
    assert states[0].sqr_norm(asked, total) == states[1].sqr_norm(asked, total)
    assert states[0].sqr_norm(asked, total) == pytest.approx(sum_sqr_norm(grads, weights), rel=1e-6)
