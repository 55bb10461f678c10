"""Image models, and layers of theirs, and what they compute in a framework."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.backends.base import micro_batches
from runtime.core.vectors import aligned_vector
from workloads.data import Split
from workloads.images import Images
from workloads.models import alexnet, googlenet, vgg
from workloads.models.layers import MaxPool, Relu

SEED = 5
BATCH, TEST, CLASSES = 24, 40, 10

Facts = dict[str, Any]


@dataclass(frozen=True)
class Photos:
    """Noise of ``px`` x ``px`` pixels, a class at random; as a data set of ``workloads/datasets/``."""

    px: int
    channels: int = 3
    name: str = "photos"

    @property
    def facts(self) -> Any:
        return SimpleNamespace(input_shape=(self.channels, self.px, self.px), num_classes=CLASSES)

    def load(self, data_dir: str) -> Split:
        chance = np.random.default_rng(self.px)

        def drawn(count: int) -> tuple[NDArray[Any], NDArray[Any]]:
            images = chance.normal(size=(count, self.channels, self.px, self.px)).astype(np.float32)
            return images, chance.integers(CLASSES, size=count)

        return Split(train=drawn(BATCH), test=drawn(TEST))

    def batch_inputs(self, inputs: NDArray[Any], drawn: Any) -> NDArray[Any]:
        return inputs


def task_of(case: str) -> Any:
    """A case is ``model-px-width``."""
    model, px, width = case.split("-")
    return Images(dataset=Photos(int(px)), model=model, width=float(width))


def make_comparable(makers: dict[Any, Any], smooth: Any, mean: Any, patch: pytest.MonkeyPatch) -> None:
    """Nothing is dropped, as masks are each framework's own, and nothing is decided by a rounding.

    Whether an input within rounding of zero passes a ReLU, and which of two equals wins a pooling, is chance, and one
    such pixel of a small map moves a gradient by 1e-3. So activations are ELUs and poolings take means.
    """
    for module in (alexnet, googlenet, vgg):
        patch.setattr(module, "DROPOUT_FRAC", 0.0)
    patch.setitem(makers, Relu, lambda layer, shape: smooth)
    patch.setitem(makers, MaxPool, lambda layer, shape: mean(layer.kernel, layer.stride, layer.padding))


def facts_of(model: Any) -> Facts:
    """Loss and gradient of a batch, metrics."""
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = model.task.initial_parameters(SEED)
    model.attach(params, grad)
    found = {"loss": model.gradient(model.batch(np.arange(BATCH)), micro_batches(BATCH, 1)), "grad": grad.copy()}
    return found | {f"test_{name}": value for name, value in model.evaluate().items()}


def compute(cases: Iterable[str]) -> dict[str, Facts]:
    """By TensorFlow, which has been started."""
    import tensorflow as tf

    from runtime.backends.tensorflow import TensorflowBackend
    from workloads.models.tensorflow.images import MAKERS, margins

    def mean(kernel: int, stride: int, padding: int) -> Any:
        return lambda x: tf.nn.avg_pool2d(tf.pad(x, margins(padding)), kernel, stride, "VALID")

    found = {}
    for case in cases:
        with pytest.MonkeyPatch.context() as patch:
            make_comparable(MAKERS, tf.nn.elu, mean, patch)
            found[case] = facts_of(TensorflowBackend().prepare(task_of(case), SEED))
    return found
