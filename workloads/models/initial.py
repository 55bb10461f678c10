"""What parameters start as: plain data, drawn with numpy, so that all frameworks begin with the same bits."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Literal, NamedTuple

import numpy as np
from numpy.typing import NDArray


class Start(NamedTuple):
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
    stream = np.random.default_rng(seed)
    return np.concatenate([_drawn(stream, start) for start in starts])


def _drawn(stream: np.random.Generator, start: Start) -> NDArray[np.float32]:
    count, kind, scale = start
    if kind == "constant":
        return np.full(count, scale, dtype=np.float32)
    drawn = stream.standard_normal(count, np.float32) if kind == "normal" else stream.random(count, np.float32) * 2 - 1
    return np.multiply(drawn, np.float32(scale), dtype=np.float32)
