"""What parameters start as: plain data, drawn with numpy, so that all frameworks begin with the same bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from itertools import accumulate
from typing import Literal

import numpy as np
from numpy.typing import NDArray


@dataclass(frozen=True)
class Start:
    """Of one tensor of ``count`` parameters; ``scale`` is the value, the bound or the standard deviation."""

    count: int
    kind: Literal["constant", "uniform", "normal"]
    scale: float


def constant(count: int, value: float) -> Start:
    """All alike."""
    return Start(count, "constant", value)


def uniform(count: int, bound: float) -> Start:
    """In [-bound, bound)."""
    return Start(count, "uniform", bound)


def normal(count: int, deviation: float) -> Start:
    """Around zero."""
    return Start(count, "normal", deviation)


def linear(inputs: int, outputs: int, bias: bool = True) -> list[Start]:
    """Weights and biases within 1/sqrt(inputs): what PyTorch gives its linear layers."""
    bound = 1 / math.sqrt(inputs)
    return [uniform(inputs * outputs, bound), *([uniform(outputs, bound)] if bias else [])]


def draw(seed: int, starts: Iterable[Start]) -> NDArray[np.float32]:
    """Float32 [sum of counts], one tensor after another from one stream."""
    tensors = list(starts)
    stream, drawn = np.random.default_rng(seed), np.empty(sum(start.count for start in tensors), dtype=np.float32)
    ends = accumulate(start.count for start in tensors)
    for start, end in zip(tensors, ends, strict=True):  # in place: the tables of click models are large
        _fill(drawn[end - start.count : end], start, stream)
    return drawn


def _fill(part: NDArray[np.float32], start: Start, stream: np.random.Generator) -> None:
    if start.kind == "constant":
        part[:] = start.scale
        return
    if start.kind == "normal":
        stream.standard_normal(dtype=np.float32, out=part)
    else:
        stream.random(dtype=np.float32, out=part)
        part *= 2
        part -= 1
    part *= np.float32(start.scale)
