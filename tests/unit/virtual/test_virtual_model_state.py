"""What is learned on the virtual clock: gradients of the version that was read, in vectors that nobody else writes."""

from __future__ import annotations

import hashlib
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from runtime.backends.base import Model, ordered_batches
from runtime.backends.numpy import NumpyBackend
from runtime.backends.torch import TorchBackend
from runtime.core.data.sampling import sample_indices
from runtime.core.data.shards import Cut, Range
from runtime.core.job import ApplyOrder, ComputeOrder
from runtime.core.vectors import FloatVector
from runtime.training.progress import Progress, ProgressModel
from runtime.virtual.clock import Clock
from runtime.virtual.control.port import VirtualPort
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.model_state import NOTHING, NoModelState, RealModelState, Result
from runtime.virtual.tasks.models import TaskModels
from runtime.virtual.tasks.servers import Servers
from runtime.virtual.tasks.workers import Workers
from tests.support.runs import ROOT
from workloads.digits import Digits
from workloads.ledger import SampleLedger

BATCH = 16
MOMENTUM = {"name": "sgd", "lr": 0.5, "momentum": 0.9}


def compute(grad_id: int, shard: int = 0, samples: int = BATCH, accum: int = 1) -> ComputeOrder:
    """The first samples of a shard."""
    return ComputeOrder(
        grad_id=grad_id,
        worker=0,
        incarnation=0,
        version=0,
        ranges=(Range(0, shard, 0, samples),),
        accum=accum,
        delay_s=0.0,
        slowdown_frac=0.0,
    )


def apply(*grads: int, lr: float = 0.5, samples: int = BATCH) -> ApplyOrder:
    """Their mean, as strategies weigh it."""
    samples *= len(grads)
    return ApplyOrder(version=1, grads=grads, weights=(1 / samples,) * len(grads), lr=lr, samples=samples)


@pytest.fixture(scope="module")
def digits() -> Digits:
    task = Digits(hidden_units=8, data_dir=str(ROOT / "data"))
    task.prepare()
    return task


def mlp(digits: Digits) -> Model:
    return TorchBackend().prepare(digits, seed=3)


def cut_of(num_samples: int) -> Cut:
    return Cut(num_samples, -(-num_samples // BATCH), BATCH)


def torch_learner(digits: Digits, optimizer: dict[str, Any] = MOMENTUM) -> RealModelState:
    return RealModelState(mlp(digits), optimizer, cut_of(digits.num_samples), seed=0)


def ledger_learner(kind: type[RealModelState] = RealModelState) -> RealModelState:
    """Four shards of a batch each."""
    model = NumpyBackend().prepare(SampleLedger(num_samples=4 * BATCH), 0)
    return kind(model, {"name": "tally", "lr": 1.0}, cut_of(4 * BATCH), 0)


class Alone:
    """The same model by itself: parameters in, gradient sum and loss out."""

    def __init__(self, digits: Digits) -> None:
        self.model, self.cut = mlp(digits), cut_of(digits.num_samples)
        self.initial = self.model.initial_parameters()
        self._params, self._grad = self.initial.copy(), np.zeros_like(self.initial)
        self.model.attach(self._params, self._grad)

    def gradient(self, params: FloatVector, order: ComputeOrder) -> tuple[FloatVector, float]:
        self._params[:] = params
        loss_sum = self.model.gradient(
            self.model.batch(sample_indices(order.ranges, self.cut, 0)), ordered_batches(order)
        )
        return self._grad.copy(), loss_sum


def test_a_gradient_is_that_of_the_parameters_of_its_order(digits: Digits) -> None:
    """Two are computed on version 0; the second is applied to version 1, stale: the gradient waits, parameters move."""
    model_state, alone = torch_learner(digits, {"name": "sgd", "lr": 0.5}), Alone(digits)
    results = [model_state.gradient(compute(grad_id, shard=grad_id)) for grad_id in (0, 1)]
    first, first_loss = alone.gradient(alone.initial, compute(0, shard=0))
    stale, stale_loss = alone.gradient(alone.initial, compute(1, shard=1))
    assert [result.loss for result in results] == pytest.approx([first_loss / BATCH, stale_loss / BATCH])
    assert [result.sqr_norm for result in results] == pytest.approx([float(first @ first), float(stale @ stale)])
    model_state.apply(apply(0))
    version_1 = alone.initial - 0.5 / BATCH * first
    np.testing.assert_allclose(model_state.params, version_1, atol=1e-6)
    model_state.apply(apply(1))
    np.testing.assert_allclose(model_state.params, version_1 - 0.5 / BATCH * stale, atol=1e-6)
    fresh, _ = alone.gradient(version_1, compute(1, shard=1))
    assert np.abs(0.5 / BATCH * (fresh - stale)).max() > 1e-3, "on the newer version it would have been another one"


class Watched(RealModelState):
    """``read`` is how many samples were in the parameters that each gradient was computed on."""

    def __init__(self, *details: Any) -> None:
        super().__init__(*details)
        self.read: list[float] = []

    def gradient(self, order: ComputeOrder) -> Result:
        self.read.append(float(self.params.sum()))
        return super().gradient(order)


def test_orders_are_carried_out_in_their_order() -> None:
    """What one decision orders: a Compute before an Apply reads the version before it, one after it the next."""
    model_state = ledger_learner(Watched)
    assert isinstance(model_state, Watched)
    scores: list[Any] = []
    clock, servers = Clock(), Servers(Costs(), model_state.num_parameters, 1, lambda target, t: (0.0, 0.0))
    about: dict[str, Any] = {"shares_memory": False, "seed": 0, "arrived": lambda *received: None}
    workers = Workers(clock, Costs(), (None,), servers, None, **about)
    nobody: Any = SimpleNamespace(
        insides=None, tell=scores.append, versions=SimpleNamespace(remember=lambda version: None)
    )
    port = VirtualPort(clock, TaskModels(servers, workers, model_state), nobody, nobody, -1.0)
    model_state.gradient(compute(0))
    port.evaluate(0, last=False)
    port.compute(compute(1))
    port.apply(apply(0))
    port.compute(compute(2))
    port.evaluate(1, last=False)
    assert model_state.read == [0.0], "nothing happens before the decision is taken"
    port.flush(1.5)
    assert model_state.read == [0.0, 0.0, BATCH]
    while len(scores) < 2:
        clock.step()
    told = [(score.asked_s, score.version, score.metrics["mean_uses"]) for score in scores]
    assert told == [(1.5, 0, 0.0), (1.5, 1, 0.25)]
    port.compute(compute(3))
    port.discard()
    port.flush(2.0)
    assert len(model_state.read) == 3


def test_the_ledger_counts_uses(tmp_path: Path) -> None:
    model_state = ledger_learner()
    for grad_id in range(6):
        model_state.gradient(compute(grad_id, shard=grad_id % 4))
    model_state.apply(apply(0, 1, 2))
    model_state.apply(apply(3, 4))
    model_state.drop((5,))
    shards = model_state.params.reshape(4, BATCH)
    assert [set(shard.tolist()) for shard in shards] == [{2.0}, {1.0}, {1.0}, {1.0}]
    assert model_state.evaluate() == {"mean_uses": 1.25, "least_uses": 1.0, "most_uses": 2.0}
    digest = model_state.finish(tmp_path / "parameters.npy")
    assert np.array_equal(np.load(tmp_path / "parameters.npy"), model_state.params)
    assert digest == model_state.finish(None) == hashlib.sha256(model_state.params.tobytes()).hexdigest()


def train(model_state: RealModelState, first: int, count: int) -> bytes:
    for grad_id in range(first, first + count):
        model_state.gradient(compute(grad_id, shard=grad_id % 8))
        model_state.apply(apply(grad_id))
    return model_state.params.tobytes()


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad"])
def test_a_rollback_brings_everything_back(name: str, digits: Digits) -> None:
    """Parameters and the optimizer's memory, bit by bit, as often as need be; gradients under way are void."""
    model_state = torch_learner(digits, {"name": name, "lr": 0.5, **({"momentum": 0.9} if name == "sgd" else {})})
    train(model_state, 0, 3)
    at_checkpoint, dumped = model_state.params.tobytes(), model_state.dump()
    ahead = train(model_state, 3, 3)
    for _ in range(2):
        model_state.gradient(compute(77))
        model_state.load(dumped)
        assert model_state.params.tobytes() == at_checkpoint
        with pytest.raises(KeyError):
            model_state.apply(apply(77))
        assert train(model_state, 3, 3) == ahead != at_checkpoint


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_reported_and_not_kept(value: float, digits: Digits) -> None:
    model_state = torch_learner(digits)
    model_state.params[5] = value
    assert model_state.gradient(compute(0)) == Result(None, None, False)
    assert model_state._grads == {}
    model_state.drop((0,))
    model_state.params[5] = 0.0
    assert model_state.gradient(compute(1)).finite


MODEL = ProgressModel(
    schema=1, metric="accuracy", lr=0.1, phi_samples=16.0, points=((0.0, 0.1), (1.0, 0.5), (2.0, 0.7))
)


def test_without_gradients_there_is_progress() -> None:
    """Updates of 16 samples at phi 16 make half a step each; at twice the rate 2 / (1 + 2)."""
    model_state = NoModelState(10, Progress(MODEL))
    assert model_state.gradient(compute(0)) == NOTHING == Result(None, None, True)
    model_state.apply(apply(0, lr=0.1))
    assert model_state.evaluate() == {"accuracy": pytest.approx(0.3)}
    dumped = model_state.dump()
    model_state.apply(apply(1, lr=0.2))
    assert model_state.evaluate() == {"accuracy": pytest.approx(0.5 + 0.2 * (0.5 + 2 / 3 - 1))}
    model_state.drop((7,))
    model_state.load(dumped)
    assert model_state.evaluate() == {"accuracy": pytest.approx(0.3)}
    assert (model_state.num_parameters, model_state.finish(None)) == (10, "")
