"""What is learned on the virtual clock: gradients of the version that was read, in vectors that nobody else writes."""

from __future__ import annotations

import hashlib
import math
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
from runtime.virtual.tasks.model_state import NOTHING, NoLearner, RealLearner, Result
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


def torch_learner(digits: Digits, optimizer: dict[str, Any] = MOMENTUM) -> RealLearner:
    return RealLearner(mlp(digits), optimizer, cut_of(digits.num_samples), seed=0)


def ledger_learner(kind: type[RealLearner] = RealLearner) -> RealLearner:
    """Four shards of a batch each."""
    model = NumpyBackend().prepare(SampleLedger(num_samples=4 * BATCH), 0)
    return kind(model, {"name": "tally", "lr": 1.0}, cut_of(4 * BATCH), 0)


def test_it_notes_how_long_an_evaluation_takes(monkeypatch: pytest.MonkeyPatch) -> None:
    learner, clock = ledger_learner(), iter([10.0, 17.5])
    assert learner.evaluation_took_s == 0.0
    monkeypatch.setattr("runtime.virtual.tasks.model_state.time.perf_counter", lambda: next(clock))
    learner.evaluate()
    assert learner.evaluation_took_s == 7.5


# ---- gradients ------------------------------------------------------------------------------------------------------


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
    learner, alone = torch_learner(digits, {"name": "sgd", "lr": 0.5}), Alone(digits)
    results = [learner.gradient(compute(grad_id, shard=grad_id)) for grad_id in (0, 1)]
    first, first_loss = alone.gradient(alone.initial, compute(0, shard=0))
    stale, stale_loss = alone.gradient(alone.initial, compute(1, shard=1))
    assert [result.loss for result in results] == pytest.approx([first_loss / BATCH, stale_loss / BATCH])
    assert [result.sqr_norm for result in results] == pytest.approx([float(first @ first), float(stale @ stale)])
    learner.apply(apply(0))
    version_1 = alone.initial - 0.5 / BATCH * first
    np.testing.assert_allclose(learner.params, version_1, atol=1e-6)
    learner.apply(apply(1))
    np.testing.assert_allclose(learner.params, version_1 - 0.5 / BATCH * stale, atol=1e-6)
    fresh, _ = alone.gradient(version_1, compute(1, shard=1))
    assert np.abs(0.5 / BATCH * (fresh - stale)).max() > 1e-3, "on the newer version it would have been another one"


def test_micro_batches_and_ranges_add_up(digits: Digits) -> None:
    learner, alone = torch_learner(digits), Alone(digits)
    whole, loss_sum = alone.gradient(alone.initial, compute(0))
    result = learner.gradient(compute(0, accum=3))
    assert result == Result(pytest.approx(loss_sum / BATCH), pytest.approx(float(whole @ whole), rel=1e-4), True)


class Watched(RealLearner):
    """``read`` is how many samples were in the parameters that each gradient was computed on."""

    def __init__(self, *details: Any) -> None:
        super().__init__(*details)
        self.read: list[float] = []

    def gradient(self, order: ComputeOrder) -> Result:
        self.read.append(float(self.params.sum()))
        return super().gradient(order)


def test_orders_are_carried_out_in_their_order() -> None:
    """What one decision orders: a Compute before an Apply reads the version before it, one after it the next."""
    learner = ledger_learner(Watched)
    assert isinstance(learner, Watched)
    scores: list[Any] = []
    clock, servers = Clock(), Servers(Costs(), learner.num_parameters, 1, lambda target, t: (0.0, 0.0))
    about: dict[str, Any] = {"shares_memory": False, "seed": 0, "arrived": lambda *received: None}
    workers = Workers(clock, Costs(), (None,), servers, None, **about)
    nobody: Any = SimpleNamespace(remember=lambda version: None)
    port = VirtualPort(clock, TaskModels(servers, workers, learner), scores.append, nobody, -1.0)
    port.connect(nobody, nobody)
    learner.gradient(compute(0))
    port.evaluate(0, last=False)
    port.compute(compute(1))
    port.apply(apply(0))
    port.compute(compute(2))
    port.evaluate(1, last=False)
    assert learner.read == [0.0], "nothing happens before the decision is taken"
    port.flush(1.5)
    assert learner.read == [0.0, 0.0, BATCH]
    while len(scores) < 2:
        clock.step()
    told = [(score.asked_s, score.version, score.metrics["mean_uses"]) for score in scores]
    assert told == [(1.5, 0, 0.0), (1.5, 1, 0.25)]
    port.compute(compute(3))
    port.discard()
    port.flush(2.0)
    assert len(learner.read) == 3


# ---- vectors --------------------------------------------------------------------------------------------------------


class Careless(RealLearner):
    """Planted: computes the next gradient in a vector that is still waited for."""

    def gradient(self, order: ComputeOrder) -> Result:
        result = super().gradient(order)
        self._spare.append(self._grads[order.grad_id])
        return result


def mixed_up(learner: RealLearner) -> list[int]:
    """Gradients that hold anything but their own samples, while up to three wait and are used or dropped in turn."""
    found = []
    waiting: list[int] = []
    for grad_id in range(24):
        learner.gradient(compute(grad_id, shard=grad_id % 4))
        waiting.append(grad_id)
        for held in waiting:
            expected = np.zeros(learner.num_parameters, dtype=np.float32)
            expected[sample_indices(compute(held, shard=held % 4).ranges, learner.cut, 0)] = 1.0
            if not np.array_equal(learner._grads[held], expected):
                found.append(held)
        if len(waiting) == 3:
            learner.drop((waiting.pop(1), 99))
            learner.apply(apply(waiting.pop(0)))
    return found


def test_gradients_keep_to_themselves() -> None:
    learner = ledger_learner()
    assert mixed_up(learner) == []
    assert len(learner._grads) + len(learner._spare) == 3, "as many vectors as ever waited at once"
    vectors = [learner.params, *learner._spare, *learner._grads.values()]
    shared = [(i, j) for i in range(len(vectors)) for j in range(i) if np.shares_memory(vectors[i], vectors[j])]
    assert shared == []


def test_a_shared_vector_is_caught() -> None:
    assert mixed_up(ledger_learner(Careless)) != []


def test_a_gradient_is_used_up() -> None:
    learner = ledger_learner()
    learner.gradient(compute(0))
    learner.apply(apply(0))
    with pytest.raises(KeyError):
        learner.apply(apply(0))
    learner.gradient(compute(1))
    learner.drop((1,))
    with pytest.raises(KeyError):
        learner.apply(apply(1))


def test_gradients_that_others_keep_are_copies(digits: Digits) -> None:
    """A model keeps every vector that it has once seen, so there must not be ever more of them."""
    learner, kept, seen = torch_learner(digits), list[FloatVector](), set[int]()
    learner.used = lambda order, grads: kept.extend(grads)
    for number in range(4):
        learner.gradient(compute(number, shard=number))
        seen.add(learner._grads[number].ctypes.data)
        learner.apply(apply(number))
    assert len(seen) == 1
    assert len({grad.tobytes() for grad in kept}) == 4


def test_the_ledger_counts_uses(tmp_path: Path) -> None:
    learner = ledger_learner()
    for grad_id in range(6):
        learner.gradient(compute(grad_id, shard=grad_id % 4))
    learner.apply(apply(0, 1, 2))
    learner.apply(apply(3, 4))
    learner.drop((5,))
    shards = learner.params.reshape(4, BATCH)
    assert [set(shard.tolist()) for shard in shards] == [{2.0}, {1.0}, {1.0}, {1.0}]
    assert learner.evaluate() == {"mean_uses": 1.25, "least_uses": 1.0, "most_uses": 2.0}
    digest = learner.finish(tmp_path / "parameters.npy")
    assert np.array_equal(np.load(tmp_path / "parameters.npy"), learner.params)
    assert digest == learner.finish(None) == hashlib.sha256(learner.params.tobytes()).hexdigest()


# ---- back to a checkpoint -------------------------------------------------------------------------------------------


def train(learner: RealLearner, first: int, count: int) -> bytes:
    for grad_id in range(first, first + count):
        learner.gradient(compute(grad_id, shard=grad_id % 8))
        learner.apply(apply(grad_id))
    return learner.params.tobytes()


@pytest.mark.parametrize("name", ["sgd", "adam", "adagrad"])
def test_a_rollback_brings_everything_back(name: str, digits: Digits) -> None:
    """Parameters and the optimizer's memory, bit by bit, as often as need be; gradients under way are void."""
    learner = torch_learner(digits, {"name": name, "lr": 0.5, **({"momentum": 0.9} if name == "sgd" else {})})
    train(learner, 0, 3)
    at_checkpoint, dumped = learner.params.tobytes(), learner.dump()
    ahead = train(learner, 3, 3)
    for _ in range(2):
        learner.gradient(compute(77))
        learner.load(dumped)
        assert learner.params.tobytes() == at_checkpoint
        with pytest.raises(KeyError):
            learner.apply(apply(77))
        assert train(learner, 3, 3) == ahead != at_checkpoint


def test_without_momentum_it_would_go_elsewhere(digits: Digits) -> None:
    """The test above can tell."""
    learner = torch_learner(digits)
    train(learner, 0, 3)
    params, state = learner.dump()
    ahead = train(learner, 3, 3)
    learner.load((params, {name: value * 0 for name, value in state.items()}))
    assert train(learner, 3, 3) != ahead


# ---- gradients that are none ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [np.nan, np.inf])
def test_a_gradient_that_is_not_finite_is_reported_and_not_kept(value: float, digits: Digits) -> None:
    learner = torch_learner(digits)
    learner.params[5] = value
    assert learner.gradient(compute(0)) == Result(None, None, False)
    assert learner._grads == {}
    learner.drop((0,))
    learner.params[5] = 0.0
    assert learner.gradient(compute(1)).finite


def test_an_infinite_loss_makes_a_finite_gradient_void(digits: Digits, monkeypatch: pytest.MonkeyPatch) -> None:
    learner = torch_learner(digits)
    monkeypatch.setattr(learner.model, "gradient", lambda batch, micro: math.inf)
    assert learner.gradient(compute(0)) == Result(None, None, False)
    assert learner._grads == {}
    assert np.isfinite(learner._spare[-1]).all(), "only the loss is to blame"


# ---- without gradients ----------------------------------------------------------------------------------------------

MODEL = ProgressModel(
    schema=1, metric="accuracy", lr=0.1, phi_samples=16.0, points=((0.0, 0.1), (1.0, 0.5), (2.0, 0.7))
)


def test_without_gradients_there_is_progress() -> None:
    """Updates of 16 samples at phi 16 make half a step each; at twice the rate 2 / (1 + 2)."""
    learner = NoLearner(10, Progress(MODEL))
    assert learner.gradient(compute(0)) == NOTHING == Result(None, None, True)
    learner.apply(apply(0, lr=0.1))
    assert learner.evaluate() == {"accuracy": pytest.approx(0.3)}
    dumped = learner.dump()
    learner.apply(apply(1, lr=0.2))
    assert learner.evaluate() == {"accuracy": pytest.approx(0.5 + 0.2 * (0.5 + 2 / 3 - 1))}
    learner.drop((7,))
    learner.load(dumped)
    assert learner.evaluate() == {"accuracy": pytest.approx(0.3)}
    assert (learner.num_parameters, learner.finish(None)) == (10, "")


def test_without_a_progress_model_nothing_is_scored() -> None:
    learner = NoLearner(0, None)
    learner.apply(apply(0))
    learner.load(learner.dump())
    assert learner.evaluate() == {}
