"""Micro-batches with coefficients: what a worker of a coded round sends is one weighted sum over parts."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray

from runtime.backends.base import MicroBatch, micro_batches, ordered_batches
from runtime.backends.numpy import NumpyModel
from runtime.backends.torch import TorchModel
from runtime.job import ComputeOrder, Piece
from runtime.shards import Range
from runtime.vectors import aligned_vector
from workloads.ledger import Ledger


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


@pytest.mark.parametrize("coefficients", [(1.0, 1.0), (2.5, -0.75), (-3.0, 1.0)])
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


def test_one_pass_over_all_parts_would_be_another_gradient() -> None:
    """Negative control: with batch normalisation the parts cannot be computed together."""
    model = TorchModel(Normalised(), 0, 1)
    together, _ = gradient(model, np.arange(16), micro_batches(16, 1))
    apart, _ = gradient(model, np.arange(16), [MicroBatch(slice(0, 6)), MicroBatch(slice(6, 16))])
    assert np.abs(together - apart).max() > 0.01


def test_without_a_framework_as_well() -> None:
    model = NumpyModel(Ledger(num_samples=10), 0)
    params, grad = model.initial_parameters(), np.full(10, 7.0, dtype=np.float32)
    model.attach(params, grad)
    model.gradient(model.batch(np.array([1, 2, 3])), [MicroBatch(slice(0, 1), 0.5), MicroBatch(slice(1, 3), -2.0)])
    np.testing.assert_array_equal(grad, [0, 0.5, -2, -2, 0, 0, 0, 0, 0, 0])


def test_an_order_says_how_it_is_computed() -> None:
    about: dict[str, Any] = {
        "grad_id": 0,
        "worker": 0,
        "incarnation": 0,
        "version": 0,
        "delay_s": 0,
        "slowdown_frac": 0,
    }
    ranges = (Range(0, 0, 0, 3), Range(0, 1, 0, 4))
    plain = ComputeOrder(**about, ranges=ranges, accum=2)
    assert ordered_batches(plain) == [MicroBatch(slice(0, 4), 1.0), MicroBatch(slice(4, 7), 1.0)]
    coded = ComputeOrder(**about, ranges=ranges, accum=3, pieces=(Piece(1, 0.5), Piece(4, -1.0), Piece(2, 3.0)))
    assert ordered_batches(coded) == [
        MicroBatch(slice(0, 1), 0.5),
        MicroBatch(slice(1, 5), -1.0),
        MicroBatch(slice(5, 7), 3.0),
    ]
