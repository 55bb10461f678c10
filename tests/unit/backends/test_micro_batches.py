"""Micro-batches with coefficients: what a worker of a coded round sends is one weighted sum over parts."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import msgspec
import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from runtime.backends.base import MicroBatch, micro_batches, ordered_batches, supports_sample_weights
from runtime.backends.numpy import NumpyModel
from runtime.backends.torch import TorchModel
from runtime.core.data.shards import Range
from runtime.core.job import ComputeOrder, Piece
from runtime.core.vectors import aligned_vector
from tests.unit.workloads.test_tasks import TASKS
from workloads.images import Images
from workloads.ledger import SampleLedger
from workloads.models.clicks import XDeepFMSize
from workloads.models.language import LSTMSize
from workloads.tasks import DatasetTask


class Data:
    """Sixteen samples of four numbers."""

    def __init__(self) -> None:
        chance = np.random.default_rng(0)
        self.train = chance.normal(size=(16, 4)).astype(np.float32), chance.integers(0, 3, size=16)


@dataclass
class Normalised:
    """A task with batch normalisation, whose gradient is that of the whole micro-batch and not of each sample."""

    def load(self) -> Data:
        return Data()

    def torch_module(self) -> torch.nn.Module:
        return torch.nn.Sequential(
            torch.nn.Linear(4, 8), torch.nn.BatchNorm1d(8), torch.nn.ReLU(), torch.nn.Linear(8, 3)
        )

    def torch_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        return torch.nn.functional.cross_entropy(module(inputs), targets, reduction="sum")


def gradient(model: TorchModel, indices: NDArray[np.int64], micro: list[MicroBatch]) -> tuple[Any, float]:
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = np.linspace(-0.5, 0.5, model.num_parameters)
    grad[:] = 7.0
    model.attach(params, grad)
    loss = model.gradient(model.batch(indices), micro)
    return grad.copy(), loss


@pytest.mark.parametrize("coefficients", [(1.0, 1.0), (2.5, -0.75)])
def test_a_coded_gradient_is_the_weighted_sum_of_the_parts(coefficients: tuple[float, float]) -> None:
    """Each part by itself: so all holders of a part mean the same by its gradient, batch normalisation or not."""
    model = TorchModel(Normalised(), 0, 1)
    first, second = np.arange(6), np.arange(6, 16)
    alone = [gradient(model, indices, micro_batches(len(indices), 1)) for indices in (first, second)]
    micro = [MicroBatch(slice(0, 6), coefficients[0]), MicroBatch(slice(6, 16), coefficients[1])]
    coded, loss = gradient(model, np.arange(16), micro)
    wanted = sum(np.float64(c) * own for c, (own, _) in zip(coefficients, alone, strict=True))
    np.testing.assert_allclose(coded, wanted, rtol=1e-4, atol=1e-4)
    assert loss == pytest.approx(sum(own for _, own in alone), rel=1e-6), "the loss is not weighted"
    together, _ = gradient(model, np.arange(16), micro_batches(16, 1))
    apart, _ = gradient(model, np.arange(16), [MicroBatch(slice(0, 6)), MicroBatch(slice(6, 16))])
    assert np.abs(together - apart).max() > 0.01, "the negative control: with batch normalisation not together"


def test_the_ledger_counts_weighted_samples_to_the_bit() -> None:
    """One pass, and part by part: the same float32 numbers."""
    model = NumpyModel(SampleLedger(num_samples=10), 0)
    params, grad = model.initial_parameters(), np.full(10, 7.0, dtype=np.float32)
    params[:] = np.arange(10)
    model.attach(params, grad)
    indices = np.array([1, 2, 3, 7])
    loss = model.gradient(model.batch(indices), [MicroBatch(slice(0, 4), pieces=(Piece(1, 0.3), Piece(3, -2.7)))])
    together = grad.copy()
    apart = model.gradient(model.batch(indices), [MicroBatch(slice(0, 1), 0.3), MicroBatch(slice(1, 4), -2.7)])
    assert together.tobytes() == grad.tobytes()
    assert together.tolist() == np.float32([0, 0.3, -2.7, -2.7, 0, 0, 0, -2.7, 0, 0]).tolist()
    assert loss == apart
    assert loss == 13, "the loss is not weighted"


PIECES = (Piece(5, 2.5), Piece(4, -0.75), Piece(3, 0.1))


@pytest.mark.parametrize("name", TASKS)
def test_one_pass_with_weights_is_the_sum_over_the_parts(name: str) -> None:
    """To rounding, for every kind of task whose samples are apart; the loss is the plain sum."""
    model = TorchModel(TASKS[name], 0, 1)
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = model.initial_parameters()
    model.attach(params, grad)
    batch = model.batch(np.arange(12))
    ends = (0, 5, 9, 12)
    apart_loss = model.gradient(
        batch,
        [MicroBatch(slice(lo, hi), piece.coefficient) for (lo, hi), piece in zip(pairwise(ends), PIECES, strict=True)],
    )
    apart = grad.copy()
    grad[:] = 7.0
    loss = model.gradient(batch, [MicroBatch(slice(0, 12), pieces=PIECES)])
    assert np.linalg.norm(grad - apart) <= 1e-5 * np.linalg.norm(apart)
    assert loss == pytest.approx(apart_loss, rel=1e-5)
    model.gradient(batch, micro_batches(12, 1))
    assert np.linalg.norm(grad - apart) > 0.1 * np.linalg.norm(apart), "weights without effect were compared"


def test_a_task_that_promises_too_much_is_found_out() -> None:
    """Negative control: batch normalisation and dropout tie samples, whatever the task says."""
    dropping = TASKS["lstm"].__class__(dataset=TASKS["lstm"].dataset, size=LSTMSize(embedding=8, hidden=8, dropout=0.5))
    for task, what in ((Normalised(), "batch normalisation"), (dropping, "dropout")):
        model = TorchModel(task, 0, 1)
        with pytest.raises(ValueError, match=f"^independent_samples: the model has {what}"):
            gradient(model, np.arange(12), [MicroBatch(slice(0, 12), pieces=PIECES)])


def tied_tasks() -> dict[str, DatasetTask]:
    photos, rows, text = (TASKS[name].dataset for name in ("alexnet", "xdeepfm", "lstm"))
    clicks, language = TASKS["xdeepfm"].__class__, TASKS["lstm"].__class__
    return {
        "resnet20": Images(dataset=photos, model="resnet20", width=0.25),
        "densenet121": Images(dataset=photos, model="densenet121", width=0.25),
        "xdeepfm, dropout": clicks(dataset=rows, size=XDeepFMSize(embedding=3, cin=(5,), hidden=(8,), dropout=0.1)),
        "lstm, dropout": language(dataset=text, size=LSTMSize(embedding=8, hidden=8, dropout=0.1)),
    }


@pytest.mark.parametrize(("name", "task"), [*TASKS.items(), *tied_tasks().items()])
def test_a_task_knows_whether_its_samples_are_apart(name: str, task: DatasetTask) -> None:
    """By PyTorch's own modules: neither batch normalisation (nested or not), nor a layer that drops anything."""
    modules = list(task.torch_module().modules())
    norms = any(isinstance(one, torch.nn.modules.batchnorm._BatchNorm) for one in modules)
    drops = any(isinstance(one, torch.nn.Dropout) and one.p > 0 for one in modules)
    assert task.independent_samples is not (norms or drops)
    for backend in ("torch", "tensorflow", ""):
        assert supports_sample_weights(task, backend) == task.independent_samples == (name in TASKS)
    assert not supports_sample_weights(Normalised(), "torch"), "a task that says nothing is computed part by part"
    assert supports_sample_weights(SampleLedger(), "numpy")
    assert not supports_sample_weights(SampleLedger(), "torch")


def order_of(num_samples: int, pieces: tuple[Piece, ...]) -> ComputeOrder:
    whole = (Range(0, 0, 0, num_samples),)
    about = dict.fromkeys(("grad_id", "worker", "incarnation", "version", "delay_s", "slowdown_frac"), 0)
    return ComputeOrder(ranges=whole, accum=1, pieces=pieces, **about)


def test_an_order_says_how_it_is_computed() -> None:
    (batch,) = ordered_batches(order_of(12, PIECES))
    assert batch == MicroBatch(slice(0, 12), pieces=PIECES)
    assert batch.weights.tolist() == np.float32([2.5] * 5 + [-0.75] * 4 + [0.1] * 3).tolist()
    assert ordered_batches(order_of(7, (Piece(4, 0.5), Piece(3, 0.5)))) == [MicroBatch(slice(0, 7), 0.5)]
    ranges = (Range(0, 0, 0, 3), Range(0, 1, 0, 4))
    plain = msgspec.structs.replace(order_of(7, ()), ranges=ranges, accum=2)
    assert ordered_batches(plain) == [MicroBatch(slice(0, 4), 1.0), MicroBatch(slice(4, 7), 1.0)]
    coded = msgspec.structs.replace(plain, accum=3, pieces=(Piece(1, 0.5), Piece(4, -1.0), Piece(2, 3.0)))
    wanted = ((0, 1, 0.5), (1, 5, -1.0), (5, 7, 3.0))
    assert ordered_batches(coded) == [MicroBatch(slice(lo, hi), coefficient) for lo, hi, coefficient in wanted]
