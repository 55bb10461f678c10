"""Nesterov's momentum for updates that come from one worker at a time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from runtime.training.optimizers import Block, Rule


@final
@dataclass(frozen=True, kw_only=True)
class DelayedNesterov(Rule):
    """w -= lr * g / N for each gradient g, and momentum by the mean of N gradients with every N-th of them.

    Then v = momentum * v + mean and w -= lr * momentum * v, too: N such steps together are one step of SGD with
    Nesterov's momentum by their mean. Source: Liu et al., "Asynchronous Local-SGD training for language modeling", 2024
    (arXiv:2401.09135), algorithm 3 with c = 0. ``every`` is N; with 1 it is that SGD.
    """

    momentum: float
    every: int
    slots: ClassVar[tuple[str, ...]] = ("momentum", "buffer")

    def step_scale(self, lr: float, samples: int) -> float:
        """1, as for SGD with momentum."""
        return 1.0

    def update(self, block: Block, lr: float, step: int) -> None:
        params, grad, (velocity, buffer), spare = block
        np.multiply(grad, np.float32(1.0 / self.every), out=grad)
        np.add(buffer, grad, out=buffer)
        if step % self.every == 0:
            np.multiply(velocity, np.float32(self.momentum), out=velocity)
            np.add(velocity, buffer, out=velocity)
            buffer.fill(0.0)
            np.multiply(velocity, np.float32(self.momentum), out=spare)
            np.add(grad, spare, out=grad)
        np.multiply(grad, np.float32(lr), out=spare)
        np.subtract(params, spare, out=params)
