"""Parameters are evaluated in batches, with batch-normalisation statistics that depend on them alone."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.datasets import load_digits
from torch import Tensor, nn
from torch.nn.functional import cross_entropy

from runtime.backends.base import micro_batches
from runtime.backends.torch import TorchModel
from runtime.core.vectors import FloatVector, aligned_vector
from workloads.data import Split
from workloads.models.layers import Conv, Dropout, Flatten, GlobalPool, Layers, Linear, Norm, Relu, Sum
from workloads.models.torch.images import build

RESIDUAL: Layers = (
    *(Conv(8), Norm(), Relu()),
    *(Sum(((Conv(8), Norm(), Relu(), Conv(8), Norm()), ())), Relu()),
    *(Sum(((Conv(16, 3, 2), Norm(), Relu(), Conv(16), Norm()), (Conv(16, 1, 2), Norm()))), Relu()),
    *(GlobalPool(), Linear(10)),
)
PLAIN: Layers = (Conv(8, 3, 2, bias=True), Relu(), Flatten(), Linear(10))
DROPPING: Layers = (Flatten(), Linear(32), Relu(), Dropout(0.5), Linear(10))


@cache
def digits() -> Split:
    """Real images, sorted by class as files of images often are: float32 [N, 1, 8, 8]."""
    images, labels = load_digits(return_X_y=True)
    inputs, targets = (images.reshape(-1, 1, 8, 8) / 16).astype(np.float32), labels.astype(np.int64)
    held_out = np.arange(len(labels)) % 5 == 0
    order = np.argsort(targets[~held_out], kind="stable")
    train = inputs[~held_out][order], targets[~held_out][order]
    return Split(train=train, test=(inputs[held_out], targets[held_out]))


@dataclass
class Images:
    """A task of these layers on the digits."""

    layers: Layers

    def load(self) -> Split:
        return digits()

    def torch_module(self) -> nn.Module:
        return build(self.layers, (1, 8, 8))

    def torch_loss(self, module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        return cross_entropy(module(inputs), targets, reduction="sum")

    def torch_per_sample_stats(self, module: nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        scores = module(inputs)
        return torch.stack([(scores.argmax(1) == targets).float(), cross_entropy(scores, targets, reduction="none")], 1)

    def metrics(self, figures: NDArray[Any]) -> dict[str, float]:
        accuracy, loss = figures.mean(axis=0, dtype=np.float64)
        return {"accuracy": float(accuracy), "loss": float(loss)}


class AtOnce(Images):
    """The same, evaluated by ``torch_metrics``."""

    torch_per_sample_stats = None  # type: ignore[assignment]

    def torch_metrics(self, module: nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        return self.metrics(Images.torch_per_sample_stats(self, module, inputs, targets).numpy())


def attached(model: TorchModel, params: FloatVector) -> FloatVector:
    grad = aligned_vector(model.num_parameters)
    model.attach(params, grad)
    return grad


def gradient(model: TorchModel, params: FloatVector, indices: NDArray[np.int64], accum: int = 1) -> FloatVector:
    grad = attached(model, params)
    model.gradient(model.batch(indices), micro_batches(len(indices), accum))
    return grad


def trained(model: TorchModel, steps: int, lr: float = 0.3) -> FloatVector:
    """Parameters after SGD on random batches of 64."""
    params = aligned_vector(model.num_parameters)
    params[:] = model.initial_parameters()
    chance = np.random.default_rng(0)
    for _ in range(steps):
        params -= lr / 64 * gradient(model, params, chance.choice(len(digits().train[1]), 64, replace=False))
    return params


@cache
def residual() -> FloatVector:
    return trained(TorchModel(Images(RESIDUAL), 0, 1), 120)


def evaluated(params: FloatVector, *, layers: Layers = RESIDUAL, seed: int = 1, **settings: int) -> dict[str, float]:
    """By a process of its own, which has never trained."""
    model = TorchModel(Images(layers), seed, 1, **settings)
    attached(model, params)
    return model.evaluate()


def test_without_recalibration_an_evaluator_that_never_trains_would_fail() -> None:
    """Negative control: statistics as the module starts with them."""
    before = TorchModel(Images(RESIDUAL), 0, 1).initial_parameters()
    assert evaluated(before)["accuracy"] < 0.3
    assert evaluated(residual())["accuracy"] > 0.9
    model = TorchModel(Images(RESIDUAL), 1, 1)
    model.evaluation.norms = []
    attached(model, residual())
    assert model.evaluate()["accuracy"] < 0.5


def test_batches_of_one_class_would_mislead() -> None:
    """Negative control for the choice of samples: the training set is sorted, its first samples are all alike."""
    model = TorchModel(Images(RESIDUAL), 1, 1, recalibrate_samples=128)
    model.evaluation._chosen = np.arange(128)
    attached(model, residual())
    assert model.evaluate()["loss"] > 3 * evaluated(residual(), recalibrate_samples=128)["loss"]


def test_metrics_are_a_function_of_the_parameters_alone() -> None:
    """Whoever trained, evaluated something else before, or did nothing at all comes to the same numbers."""
    busy = TorchModel(Images(RESIDUAL), 0, 1)
    trained(busy, 5)
    attached(busy, busy.initial_parameters() * 0.5)
    busy.evaluate()
    attached(busy, residual())
    assert busy.evaluate() == busy.evaluate() == evaluated(residual())
    bare, interrupted = TorchModel(Images(RESIDUAL), 0, 1), TorchModel(Images(RESIDUAL), 0, 1)
    interrupted.evaluate()
    np.testing.assert_array_equal(trained(bare, 3), trained(interrupted, 3))


def test_statistics_are_those_of_the_training_data() -> None:
    """One layer: the recalibrated mean is the mean over the chosen samples, batches of one size each counting once."""
    model = TorchModel(Images((Norm(), Flatten(), Linear(10))), 0, 1, eval_batch_samples=50, recalibrate_samples=170)
    model.evaluate()
    chosen = model.evaluation._chosen
    assert len(set(chosen)) == 170
    norm = model.module[0]  # type: ignore[index]
    batches = digits().train[0][chosen[:150]].reshape(3, -1)
    assert float(norm.running_mean) == pytest.approx(batches.mean(), rel=1e-5)
    assert float(norm.running_var) == pytest.approx(batches.var(axis=1, ddof=1).mean(), rel=1e-5)
    assert norm.training


def test_the_gradient_of_a_split_batch_is_another_one() -> None:
    """What docs/workloads.md says of statistics: those of the micro-batch, so that accumulation is no identity here."""
    model = TorchModel(Images(RESIDUAL), 0, 1)
    whole = gradient(model, residual(), np.arange(0, 1400, 100))
    assert np.abs(whole - gradient(model, residual(), np.arange(0, 1400, 100), accum=2)).max() > 1e-3
    plain = TorchModel(Images(PLAIN), 0, 1)
    params = plain.initial_parameters()
    whole = gradient(plain, params, np.arange(0, 1400, 100))
    np.testing.assert_allclose(gradient(plain, params, np.arange(0, 1400, 100), accum=2), whole, rtol=1e-4, atol=1e-5)


def test_metrics_do_not_depend_on_the_batches() -> None:
    params = TorchModel(Images(PLAIN), 0, 1).initial_parameters()
    expected = evaluated(params, layers=PLAIN, eval_batch_samples=100)
    for size in (7, 100_000):
        assert evaluated(params, layers=PLAIN, eval_batch_samples=size) == pytest.approx(expected, rel=1e-5)


def test_a_task_without_figures_is_evaluated_at_once_and_without_training_data() -> None:
    """As ever: to the bit, and without a pass over training data; else no pass sees more than a batch."""
    seen: list[int] = []
    whole = TorchModel(Images(RESIDUAL), 0, 1, eval_batch_samples=50, recalibrate_samples=170)
    whole.module.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    whole.evaluate()
    assert seen == [50] * 3 + [50] * 7 + [10]
    seen.clear()
    model = TorchModel(AtOnce(PLAIN), 0, 1, eval_batch_samples=50)
    model.module.register_forward_hook(lambda module, inputs, output: seen.append(len(inputs[0])))
    found = model.evaluate()
    assert seen == [360]
    with torch.no_grad():
        assert found == model.task.torch_metrics(model.module, *map(torch.from_numpy, digits().test))


def test_masks_depend_on_seed_and_samples_only() -> None:
    indices, others = np.arange(20), np.arange(20, 40)
    first, second = TorchModel(Images(DROPPING), 5, 1), TorchModel(Images(DROPPING), 5, 1)
    params = first.initial_parameters()
    gradient(second, params, others)  # and whatever else it did before
    torch.rand(7)
    np.testing.assert_array_equal(gradient(first, params, indices), gradient(second, params, indices))
    np.testing.assert_array_equal(gradient(first, params, indices), gradient(first, params, indices))
    assert evaluated(params, layers=DROPPING, seed=1) == evaluated(params, layers=DROPPING, seed=2)
    halves = gradient(first, params, indices[:10]) + gradient(first, params, indices[10:])
    np.testing.assert_allclose(gradient(first, params, indices, accum=2), halves, rtol=1e-5, atol=1e-6)
    assert np.abs(gradient(first, params, indices) - halves).max() > 1e-3, "each micro-batch has masks of its own"
    reseeded = TorchModel(Images(DROPPING), 6, 1)
    assert np.abs(gradient(first, params, indices) - gradient(reseeded, params, indices)).max() > 1e-3
