"""An optimizer, which servers apply to their part of the parameters: an update of element by element."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

import numpy as np

from stragglab import Block, Rule


@dataclass(frozen=True, kw_only=True)
class Signum(Rule):
    """m = beta m + (1 - beta) g, w -= lr sign(m) (Bernstein et al., ICML 2018)."""

    beta: float = 0.9
    slots: ClassVar[tuple[str, ...]] = ("mean",)

    def __post_init__(self) -> None:
        if not 0 <= self.beta < 1:
            raise ValueError(f"beta={self.beta}: must be a number, at least 0 and less than 1")

    def step_scale(self, lr: float, samples: int) -> float:
        """A factor on the gradients; here none."""
        return 1.0

    def update(self, block: Block, lr: float, step: int) -> None:
        """In place, on parts of the vectors. ``block.grad`` is the mean gradient and may be overwritten."""
        (mean,) = block.state
        np.multiply(mean, np.float32(self.beta), out=mean)
        np.multiply(block.grad, np.float32(1 - self.beta), out=block.grad)
        np.add(mean, block.grad, out=mean)
        np.sign(mean, out=block.spare)
        np.multiply(block.spare, np.float32(lr), out=block.spare)
        np.subtract(block.params, block.spare, out=block.params)
