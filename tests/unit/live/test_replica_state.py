"""A replica's copy: what all replicas do together is what one server does."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.core.job import ApplyOrder, ComputeOrder
from runtime.live.control.replica_port import ReplicaPort
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.tasks.store import Store
from runtime.live.transport.auth import Identity

Vector = NDArray[np.float32]
SIZE = 40
RULES: list[dict[str, Any]] = [
    {"name": "sgd", "lr": 0.5},
    {"name": "sgd", "lr": 0.5, "momentum": 0.9, "weight_decay": 0.01},
    {"name": "adam", "lr": 0.5},
    {"name": "adagrad", "lr": 0.5},
    {"name": "tally", "lr": 1.0},
]
WEIGHTS = {"the same": (0.125, 0.125, 0.125), "different": (0.5, 0.125, 0.25)}
"""Powers of two, and gradients of few bits: then folding them in early or late rounds alike."""


def initial() -> Vector:
    return np.linspace(-1, 1, SIZE, dtype=np.float32)


def copies(rule: dict[str, Any], count: int) -> list[ReplicaState]:
    return [ReplicaState(initial(), rule, Identity("worker", worker)) for worker in range(count)]


def gradient(seed: int) -> Vector:
    return np.random.default_rng(seed).integers(-8, 8, SIZE).astype(np.float32)


def compute(copy: ReplicaState, grad_id: int) -> None:
    """As a worker does."""
    copy.receive_params(grad_id)
    copy.grad[:] = gradient(grad_id)
    copy.push(grad_id)


def order(version: int, grads: tuple[int, ...], weights: tuple[float, ...]) -> ApplyOrder:
    return ApplyOrder(version=version, grads=grads, weights=weights, lr=0.5, samples=8)


def update(replicas: list[ReplicaState], one: ApplyOrder) -> None:
    """As the ring does it, in rank order."""
    shares = [copy.share(one) for copy in replicas]
    total = np.sum(shares, axis=0, dtype=np.float32)
    for copy, share in zip(replicas, shares, strict=True):
        share[:] = total
        copy.step(one, share)
        copy.release(share)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule['name']}-{len(rule)}")
@pytest.mark.parametrize("weights", WEIGHTS.values(), ids=WEIGHTS)
def test_replicas_together_do_what_a_server_does(rule: dict[str, Any], weights: tuple[float, ...]) -> None:
    server, replicas = Store(initial(), rule), copies(rule, 4)
    for version in (1, 2, 3):
        grads = tuple(10 * version + worker for worker in range(3))
        for copy, grad_id in zip(replicas, grads, strict=False):
            compute(copy, grad_id)
        for grad_id in grads:
            server.hold(grad_id, gradient(grad_id))
        one = order(version, grads, weights)
        server.apply(one)
        update(replicas, one)
        for copy in replicas:
            assert copy.version == version
            np.testing.assert_array_equal(copy.params, server.params)


def test_a_replica_may_have_several_gradients_in_one_update_and_memory_does_not_grow() -> None:
    (copy,) = copies(RULES[0], 1)
    server = Store(initial(), RULES[0])
    for grad_id in (1, 2):
        compute(copy, grad_id)
        server.hold(grad_id, gradient(grad_id))
    one = order(1, (1, 2), (0.5, 0.25))
    server.apply(one)
    update([copy], one)
    np.testing.assert_array_equal(copy.params, server.params)
    (copy,) = copies(RULES[0], 1)
    seen = set()
    for version in range(1, 20):
        compute(copy, version)
        if version % 3:
            update([copy], order(version, (version,), (1.0,)))
        else:
            copy.drop((version,))
        seen.add(copy.grad.ctypes.data)
    assert len(seen) <= 3


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: f"{rule['name']}-{len(rule)}")
def test_who_takes_over_goes_on_as_the_one_it_has_it_from(rule: dict[str, Any]) -> None:
    old, new = copies(rule, 2)
    for version in (1, 2):
        compute(old, version)
        update([old], order(version, (version,), (0.5,)))
    for mine, theirs in zip(new.vectors(), old.vectors(), strict=True):
        mine[:] = theirs
    new.taken_over(old.version, old.optimizer.steps)
    for copy in (old, new):
        compute(copy, 3)
        update([copy], order(3, (3,), (0.5,)))
    assert (new.version, new.optimizer.steps) == (3, 3)
    np.testing.assert_array_equal(new.params, old.params)
    assert not np.array_equal(old.params, initial())


def port() -> ReplicaPort:
    """One whose orders go nowhere; the state of the data is the number of updates so far."""
    roster: Any = SimpleNamespace(members=SimpleNamespace(here=lambda: (0, 1)), primary=0, incarnation=lambda worker: 1)
    given: Any = SimpleNamespace(now=0.0)
    made = ReplicaPort(given, given, roster, given, given, given)
    given.data_state = lambda: {"updates": len(made.states)}
    made._tell_all = lambda message: None  # type: ignore[method-assign]
    return made


def order_compute(to: ReplicaPort, grad_id: int, version: int) -> None:
    order = ComputeOrder(
        grad_id=grad_id, worker=0, incarnation=1, version=version, ranges=(), accum=1, delay_s=0.0, slowdown_frac=0.0
    )
    to.compute(order)


def apply(to: ReplicaPort, version: int, *grads: int, apart: tuple[int, ...] = ()) -> None:
    to.apply(ApplyOrder(version=version, grads=grads, weights=(1.0,) * len(grads), lr=0.1, samples=1, excluded=apart))


def test_versions_that_somebody_may_have_are_remembered() -> None:
    """Asynchronous: twenty gradients of the first version are used one after another; all replicas may be at 0."""
    made = port()
    for grad in range(20):
        order_compute(made, grad, 0)
    for grad in range(20):
        apply(made, grad + 1, grad)
    assert sorted(made.states) == list(range(20))
    assert made.data_state(0) == {"updates": 0}
    made = port()
    for grad in range(20):
        order_compute(made, grad, grad)
        apply(made, grad + 1, grad, apart=(1,) if grad >= 5 else ())
    assert sorted(made.states) == [5, 16, 17, 18, 19]
    order_compute(made, 20, 20)
    apply(made, 21, 20)
    assert 5 not in made.states


def test_what_every_replica_has_passed_is_forgotten_and_after_a_rollback_versions_begin_again() -> None:
    """A gradient that was computed on version 15: its worker has that, so the others have completed update 14."""
    made = port()
    for grad in range(20):
        order_compute(made, grad, 0)
        apply(made, grad + 1, grad)
    order_compute(made, 20, 15)
    apply(made, 21, 20)
    assert sorted(made.states) == list(range(14, 21))
    made = port()
    order_compute(made, 0, 40)
    apply(made, 41, 0)
    apply(made, 42, apart=(1,))
    made.discard()
    for grad in range(1, 9):
        apply(made, grad + 2, grad)
    assert 2 in made.states
