"""Initial parameters as plain data, drawn with numpy, so that all frameworks start from the same bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Initializer:
    """Distribution of a tensor of ``count`` parameters; ``scale``: its value, bound or standard deviation."""

    count: int
    kind: Literal["constant", "uniform", "normal"]
    scale: float


def constant(count: int, value: float) -> Initializer:
    """All parameters have the same value."""
    return Initializer(count, "constant", value)


def uniform(count: int, bound: float) -> Initializer:
    """Uniform distribution over [-bound, bound)."""
    return Initializer(count, "uniform", bound)


def normal(count: int, deviation: float) -> Initializer:
    """Normal distribution around zero."""
    return Initializer(count, "normal", deviation)


def linear(inputs: int, outputs: int, bias: bool = True) -> list[Initializer]:
    """Weights and biases within 1/sqrt(inputs), PyTorch's default for linear layers."""
    bound = 1 / math.sqrt(inputs)
    return [uniform(inputs * outputs, bound), *([uniform(outputs, bound)] if bias else [])]


def draw(seed: int, initializers: Iterable[Initializer]) -> NDArray[np.float32]:
    """Draw float32 [sum of counts], one tensor after another from one stream."""
    tensors = list(initializers)
    stream, drawn = np.random.default_rng(seed), np.empty(sum(one.count for one in tensors), dtype=np.float32)
    ends = accumulate(one.count for one in tensors)
    for one, end in zip(tensors, ends, strict=True):  # in place: the tables of click models are large
        _fill(drawn[end - one.count : end], one, stream)
    return drawn


def _fill(part: NDArray[np.float32], one: Initializer, stream: np.random.Generator) -> None:
    if one.kind == "constant":
        part[:] = one.scale
        return
    if one.kind == "normal":
        stream.standard_normal(dtype=np.float32, out=part)
    else:
        stream.random(dtype=np.float32, out=part)
        part *= 2
        part -= 1
    part *= np.float32(one.scale)
