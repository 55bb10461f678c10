"""A replica's own parameters: what replicas do together is what the virtual clock does, and states can be copied."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.core.job import ApplyOrder, StepOrder
from runtime.live.tasks.own_replica import OwnReplicaState, replica_state
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.transport.auth import Identity
from runtime.training.optimizers import make_optimizer
from runtime.training.own_steps import Outer, OwnSteps

Vector = NDArray[np.float32]
SIZE = 40
RULES: list[dict[str, Any]] = [{"name": "sgd", "lr": 0.5, "momentum": 0.5}, {"name": "adamw", "lr": 0.125}]
OUTER = {"lr": 0.5, "momentum": 0.5, "nesterov": True}
MOVES = ((0, 0.75), (1, 0.25))


def initial() -> Vector:
    return np.linspace(-1, 1, SIZE, dtype=np.float32)


def gradient(seed: int) -> Vector:
    return np.random.default_rng(seed).integers(-8, 8, SIZE).astype(np.float32)


def copies(rule: dict[str, Any], count: int = 2) -> list[OwnReplicaState]:
    found = [replica_state(initial(), rule, Identity("worker", worker), OUTER) for worker in range(count)]
    return [copy for copy in found if isinstance(copy, OwnReplicaState)]


def step(copy: OwnReplicaState, grad_id: int) -> None:
    """As a worker and its replica do."""
    copy.links.receive_params(grad_id)
    copy.links.grad[:] = gradient(grad_id)
    copy.links.push(grad_id)
    copy.step_alone(StepOrder(grad_id=grad_id, worker=copy.identity.id, lr=0.125, samples=4))


def update(replicas: list[OwnReplicaState], version: int) -> None:
    """As the ring does it, in rank order."""
    order = ApplyOrder(version=version, grads=(), weights=(), lr=0.5, samples=8, moves=MOVES)
    shares = [copy.share(order) for copy in replicas]
    total = np.sum(shares, axis=0, dtype=np.float32)
    for copy, share in zip(replicas, shares, strict=True):
        share[:] = total
        copy.step(order, share)
        copy.release(share)


def train(replicas: list[OwnReplicaState], first: int, updates: int) -> None:
    for version in range(first, first + updates):
        for copy in replicas:
            for number in range(3):
                step(copy, 100 * version + 10 * copy.identity.id + number)
        update(replicas, version)


def test_without_an_outer_optimizer_a_replica_has_no_parameters_of_its_own() -> None:
    copy = replica_state(initial(), RULES[0], Identity("worker", 0), {})
    assert type(copy) is ReplicaState
    assert copy.links is copy
    with pytest.raises(RuntimeError, match="no parameters of its own"):
        copy.step_alone(StepOrder(grad_id=0, worker=0, lr=1.0, samples=1))
    with pytest.raises(RuntimeError, match="no parameters of its own"):
        copy.average(lambda vector: None, 2)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_replicas_do_what_one_process_does(rule: dict[str, Any]) -> None:
    """To the bit: two terms have one order."""
    replicas = copies(rule)
    train(replicas, 1, 3)
    fields = {name: value for name, value in rule.items() if name != "lr"}

    def fresh() -> Any:
        return make_optimizer(num_elements=SIZE, **fields)

    common, outer = initial(), Outer(OUTER, fresh())
    own = [OwnSteps(common, fresh(), fresh) for _ in replicas]
    for version in (1, 2, 3):
        moves = []
        for worker, factor in MOVES:
            for number in range(3):
                own[worker].step(gradient(100 * version + 10 * worker + number), 4, 0.125)
            moves.append(np.empty(SIZE, np.float32))
            own[worker].move(common, factor, moves[-1])
        outer.step(common, moves, 0.5, 8)
        for one in own:
            one.settle(common)
    for copy in replicas:
        assert copy.version == 3
        np.testing.assert_array_equal(copy.params, common)
        np.testing.assert_array_equal(copy.links.params, common)


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_an_average_is_of_own_parameters_and_a_failed_one_changes_nothing(rule: dict[str, Any]) -> None:
    first, second = copies(rule)
    step(first, 1)
    step(second, 2)
    own = [copy.links.params.copy() for copy in (first, second)]

    def fail(vector: Vector) -> None:
        vector[:] = 7
        raise ConnectionResetError

    with pytest.raises(ConnectionResetError):
        first.average(fail, 2)
    np.testing.assert_array_equal(first.links.params, own[0])
    for copy, other in ((first, own[1]), (second, own[0])):
        copy.average(lambda vector, other=other: np.add(vector, other, out=vector), 2)
        np.testing.assert_array_equal(copy.links.params, (own[0] + own[1]) / np.float32(2))
        np.testing.assert_array_equal(copy.params, initial())


def test_counts_are_not_averaged() -> None:
    """Sums of counts stay exact, so that a workload that counts uses can verify them."""
    (copy,) = copies({"name": "tally", "lr": 1.0}, 1)
    step(copy, 1)
    own = copy.links.params.copy()
    copy.average(lambda vector: np.add(vector, 5, out=vector), 2)
    np.testing.assert_array_equal(copy.links.params, own)


def test_others_read_the_common_parameters_while_the_worker_has_its_own() -> None:
    (copy,) = copies(RULES[0], 1)
    step(copy, 1)
    np.testing.assert_array_equal(copy.params, initial())
    assert np.abs(copy.links.params - initial()).max() > 0
    assert copy.grads == {}


@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_after_a_halt_the_round_is_the_same_again(rule: dict[str, Any]) -> None:
    calm, hit = copies(rule), copies(rule)
    train(calm, 1, 3)
    train(hit, 1, 2)
    step(hit[0], 300)
    step(hit[0], 301)
    for copy in hit:
        copy.void()
    train(hit, 3, 1)
    np.testing.assert_array_equal(hit[0].params, calm[0].params)


@pytest.mark.parametrize("way", ["copy", "file"])
@pytest.mark.parametrize("rule", RULES, ids=lambda rule: rule["name"])
def test_a_replica_goes_on_from_anothers_state(rule: dict[str, Any], way: str) -> None:
    """Parameters, and both optimizers: copied as a newcomer does, or from a checkpoint, between two updates."""
    source = copies(rule)[0]
    alike = copies(rule)[0]
    for one in (source, alike):
        train_alone(one, 1)
    step(source, 250)
    taker = copies(rule)[1]
    step(taker, 7)
    if way == "copy":
        for vector, other in zip(taker.vectors(), source.vectors(), strict=True):
            vector[:] = other
        taker.taken_over(source.version, source.optimizer.steps)
    else:
        taker.load(source.version, {name: np.copy(value) for name, value in source.dump().items()})
    for one in (taker, alike):
        one.identity = Identity("worker", 0)
        train_alone(one, 2)
    np.testing.assert_array_equal(taker.params, alike.params)


def train_alone(copy: OwnReplicaState, version: int) -> None:
    for number in range(3):
        step(copy, 100 * version + number)
    order = ApplyOrder(version=version, grads=(), weights=(), lr=0.5, samples=4, moves=((0, 1.0),))
    share = copy.share(order)
    copy.step(order, share)
