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
from workloads.models.initial import draw
from workloads.models.layers import (
    AvgPool,
    Concat,
    Conv,
    Flatten,
    GlobalPool,
    Layers,
    Linear,
    MaxPool,
    Norm,
    Relu,
    Shape,
    Skip,
    Sum,
    initializers,
)

SEED = 5
BATCH, TEST, CLASSES = 24, 40, 10
TINY = 0.125
"""Width factor that keeps tests light."""

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


LAYERS: dict[str, Layers] = {
    "convolution that strides": (Conv(4, 3, 2, bias=True),),
    "large kernel, narrow margin": (Conv(4, 7, 3, 1),),
    "depthwise": (Conv(4, 3, 2, bias=True, depthwise=True),),
    "pooling with a margin": (MaxPool(3, 2, 1),),
    "pooling that does not stride": (MaxPool(3, 1, 1),),
    "pooling that leaves pixels over": (MaxPool(3, 2),),
    "mean of windows": (AvgPool(2, 2),),
    "relu": (Relu(),),
    "skip": (Skip(7, 2),),
    "sum": (Sum(((Conv(4, 3, 2), Norm()), (Skip(4, 2),), (Conv(4, 1, 2),))),),
    "concatenation": (Concat(((), (Conv(2), Concat(((Conv(1),), ()))), (MaxPool(3, 1, 1), Conv(3, 1)))),),
    "normalisation": (Norm(), Conv(3), Norm()),
    "global pooling": (GlobalPool(),),
}


@dataclass(frozen=True)
class OneLayer:
    """A layer after a convolution, as the inputs themselves have no gradient, and before a linear one."""

    layer: Layers
    data: Photos = Photos(px=9)

    @property
    def whole(self) -> tuple[Layers, Shape]:
        """It may have left features already."""
        flatten = () if self.layer == (GlobalPool(),) else (Flatten(),)
        return (Conv(4, 1, bias=True), *self.layer, *flatten, Linear(CLASSES)), self.data.facts.input_shape

    def load(self) -> Split:
        return self.data.load("")

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        return draw(seed, initializers(*self.whole))

    def torch_module(self) -> Any:
        from workloads.models.torch.images import build

        return build(*self.whole)

    def tensorflow_module(self) -> Any:
        from workloads.models.tensorflow.images import build

        return build(*self.whole)

    torch_loss, torch_per_sample_stats, metrics = Images.torch_loss, Images.torch_per_sample_stats, Images.metrics
    tensorflow_loss, tensorflow_per_sample_stats = Images.tensorflow_loss, Images.tensorflow_per_sample_stats


def task_of(case: str) -> Any:
    """``model-px-width``, or one of ``LAYERS``."""
    if case in LAYERS:
        return OneLayer(LAYERS[case])
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
    """Loss and gradient of a batch, the statistics that it leaves, metrics."""
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = model.task.initial_parameters(SEED)
    model.attach(params, grad)
    found = {"loss": model.gradient(model.batch(np.arange(BATCH)), micro_batches(BATCH, 1)), "grad": grad.copy()}
    for name, of in (("means", means), ("variances", variances)):
        found[name] = np.concatenate([[0.0], *of(model)])
    return found | {f"test_{name}": value for name, value in model.evaluate().items()}


def means(model: Any) -> list[NDArray[np.float32]]:
    if hasattr(model, "evaluation"):
        return [norm.running_mean.numpy().copy() for norm in model.evaluation.norms]
    return [norm.moving_mean.numpy() for norm in model.norms.norms]


def variances(model: Any) -> list[NDArray[np.float32]]:
    if hasattr(model, "evaluation"):
        return [norm.running_var.numpy().copy() for norm in model.evaluation.norms]
    return [norm.moving_variance.numpy() for norm in model.norms.norms]


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
            if case not in LAYERS:
                make_comparable(MAKERS, tf.nn.elu, mean, patch)
            found[case] = facts_of(TensorflowBackend().prepare(task_of(case), SEED))
    return found
