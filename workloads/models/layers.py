"""The vocabulary of image networks: plain data that any framework can build, parameters included.

A network is a sequence of layers. Parameters are numbered in the same order, branches one after another, and within a
layer the kernel before the bias and the scale before the shift. So a flat vector means the same in every framework, up
to the layout of a kernel.
"""

from __future__ import annotations

from dataclasses import dataclass
from math import prod, sqrt
from typing import TypeAlias

from workloads.models.initial import Initializer, constant, linear, normal

Shape: TypeAlias = tuple[int, ...]
"""(channels, height, width) of an image or feature map, (features,) after pooling or flattening; no batch axis."""


@dataclass(frozen=True)
class Conv:
    """Convolution with zero padding; ``padding`` None keeps the size at stride 1. ``depthwise``: one per channel."""

    channels: int
    kernel: int = 3
    stride: int = 1
    padding: int | None = None
    bias: bool = False
    depthwise: bool = False

    @property
    def margin(self) -> int:
        """Number of zeros on each side."""
        return (self.kernel - 1) // 2 if self.padding is None else self.padding


@dataclass(frozen=True)
class Norm:
    """Batch normalisation with scale and shift per channel (Ioffe and Szegedy, 2015)."""


@dataclass(frozen=True)
class Relu:
    """Rectified linear unit: max(x, 0)."""


@dataclass(frozen=True)
class MaxPool:
    """Maximum over a window; ``padding`` on each side is never the maximum."""

    kernel: int
    stride: int
    padding: int = 0


@dataclass(frozen=True)
class AvgPool:
    """Mean over each window."""

    kernel: int
    stride: int


@dataclass(frozen=True)
class GlobalPool:
    """Mean over height and width: (channels, h, w) to (channels,)."""


@dataclass(frozen=True)
class Flatten:
    """(channels, h, w) to (channels * h * w,), channels first."""


@dataclass(frozen=True)
class Linear:
    """Fully connected layer with bias."""

    units: int


@dataclass(frozen=True)
class Dropout:
    """Zeroes this fraction of values in training and scales up the rest."""

    frac: float


@dataclass(frozen=True)
class Skip:
    """A shortcut without parameters: every ``stride``-th pixel, zeros for new channels (He et al., option A)."""

    channels: int
    stride: int


@dataclass(frozen=True)
class Sum:
    """Sum of the outputs of branches with the same input; an empty branch is the identity."""

    branches: tuple[Layers, ...]


@dataclass(frozen=True)
class Concat:
    """Concatenation of the branches' outputs along the channels."""

    branches: tuple[Layers, ...]


Layer: TypeAlias = (
    Conv | Norm | Relu | MaxPool | AvgPool | GlobalPool | Flatten | Linear | Dropout | Skip | Sum | Concat
)
Layers: TypeAlias = tuple[Layer, ...]


def scale_channels(channels: int, width: float) -> int:
    """A number of channels times a width factor, at least one."""
    return max(1, round(channels * width))


def shape_after(layers: Layers, shape: Shape) -> Shape:
    """Output shape for an input of ``shape``; raises ``ValueError`` for images that shrink to nothing."""
    for layer in layers:
        shape = _shape(layer, shape)
    return shape


def initializers(layers: Layers, shape: Shape) -> list[Initializer]:
    """Initial values of the trained parameters (without running statistics) for an input of ``shape``."""
    found: list[Initializer] = []
    for layer in layers:
        found += _initializers(layer, shape)
        shape = _shape(layer, shape)
    return found


def count(layers: Layers, shape: Shape) -> int:
    """Number of trained parameters for an input of ``shape``."""
    return sum(one.count for one in initializers(layers, shape))


def independent_samples(layers: Layers) -> bool:
    """Whether a sample's loss depends on neither other samples nor its micro-batch (dropout masks do depend on it)."""
    inner = [branch for layer in layers if isinstance(layer, Sum | Concat) for branch in layer.branches]
    return not any(isinstance(layer, Norm | Dropout) for layer in layers) and all(map(independent_samples, inner))


def _shape(layer: Layer, shape: Shape) -> Shape:
    match layer:
        case Conv(channels=channels):
            return (channels, *_slid(shape, layer.kernel, layer.stride, layer.margin))
        case MaxPool(kernel, stride, padding):
            return (shape[0], *_slid(shape, kernel, stride, padding))
        case AvgPool(kernel, stride):
            return (shape[0], *_slid(shape, kernel, stride, 0))
        case Skip(channels, stride):
            return (channels, *_slid(shape, 1, stride, 0))
        case GlobalPool():
            return shape[:1]
        case Flatten():
            return (prod(shape),)
        case Linear(units):
            return (units,)
        case Sum(branches):
            return shape_after(branches[0], shape)
        case Concat(branches):
            ends = [shape_after(branch, shape) for branch in branches]
            return (sum(end[0] for end in ends), *ends[0][1:])
        case _:
            return shape


def _slid(shape: Shape, kernel: int, stride: int, margin: int) -> Shape:
    sizes = tuple((size + 2 * margin - kernel) // stride + 1 for size in shape[1:])
    if min(sizes) < 1:
        raise ValueError(f"a feature map of {shape[1]} x {shape[2]} is too small for a window of {kernel} x {kernel}")
    return sizes


def _initializers(layer: Layer, shape: Shape) -> list[Initializer]:
    match layer:
        case Conv():
            return _convolution(layer, 1 if layer.depthwise else shape[0])
        case Norm():
            return [constant(shape[0], 1.0), constant(shape[0], 0.0)]
        case Linear(units):
            return linear(shape[0], units)
        case Sum(branches) | Concat(branches):
            return [one for branch in branches for one in initializers(branch, shape)]
        case _:
            return []


def _convolution(layer: Conv, channels: int) -> list[Initializer]:
    """He et al., "Delving deep into rectifiers", ICCV 2015: variance 2 / (inputs of a unit), zero bias."""
    inputs = channels * layer.kernel**2
    kernel = normal(layer.channels * inputs, sqrt(2 / inputs))
    return [kernel, *([constant(layer.channels, 0.0)] if layer.bias else [])]
