"""Initial parameters as plain data, drawn with numpy, so that all frameworks start from the same bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray

BLOCK = 1 << 16
"""Elements that are drawn at a time of a part: 256 KiB, which stay in the processor's cache."""


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


def draw_part(seed: int, initializers: Iterable[Initializer], lo: int, out: NDArray[np.float32]) -> None:
    """Fill ``out`` with [lo, lo + len(out)) of :func:`draw`, to the bit; preceding values are drawn in blocks."""
    stream, hi, end = np.random.default_rng(seed), lo + len(out), 0
    block = np.empty(BLOCK, dtype=np.float32)
    for one in initializers:
        begin, end = end, end + one.count
        for at in range(begin, min(end, hi), BLOCK):
            values = block[: min(BLOCK, end - at)]
            _fill(values, one, stream)
            first, last = max(lo, at), min(hi, at + len(values))
            if first < last:
                out[first - lo : last - lo] = values[first - at : last - at]


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
