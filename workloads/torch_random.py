"""PyTorch's random numbers without PyTorch, so that all frameworks start from the same bits.

``torch.manual_seed(seed)`` seeds a Mersenne Twister like numpy's ``RandomState``, whose streams numpy has frozen;
``uniform_`` uses 24 bits of each 32-bit number. Its layers draw weights, then biases, uniformly within 1/sqrt(fan_in).
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

Layer = tuple[int, int]
"""(number of weights, fan_in) of a linear or convolutional layer; it has one bias per output."""


class Draws:
    """One stream of uniform numbers."""

    def __init__(self, seed: int) -> None:
        self._stream = np.random.RandomState(seed % 2**32)

    def uniform(self, count: int, bound: float) -> NDArray[np.float32]:
        """Float32 [count] in [-bound, bound), as ``torch.empty(count).uniform_(-bound, bound)``."""
        bits = self._stream.randint(0, 2**32, size=count, dtype=np.uint32) & np.uint32(2**24 - 1)
        low = np.float32(-bound)
        span = np.float32(np.float32(bound) - low)
        # a single rounding, like the fused multiply-add that PyTorch compiles to
        return (bits * 2.0**-24 * np.float64(span) + np.float64(low)).astype(np.float32)


def default_layers(seed: int, layers: Sequence[Layer]) -> NDArray[np.float32]:
    """Parameters of linear and convolutional layers as ``torch.nn`` initialises them after ``manual_seed(seed)``."""
    draws, parts = Draws(seed), []
    for num_weights, fan_in in layers:
        bound = math.sqrt(3.0) * (math.sqrt(2.0 / (1.0 + 5.0)) / math.sqrt(fan_in))  # Kaiming's, a = sqrt(5), as there
        parts += [draws.uniform(num_weights, bound), draws.uniform(num_weights // fan_in, 1.0 / math.sqrt(fan_in))]
    return np.concatenate(parts)
