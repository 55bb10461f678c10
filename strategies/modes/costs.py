"""The interface of what says how much modes cost: equations, or a model that has learnt from them (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ModeCosts(Protocol):
    """Seconds per unit of progress of every mode; see :class:`strategies.modes.times.ModeTimes`."""

    def static_s(
        self, times_s: Sequence[float], batch_samples: float, phi_samples: float, sizes: Sequence[int] = ()
    ) -> dict[int, float]:
        """Of updates of any x gradients, by x; ``sizes``: the values of x; none: all."""
        ...

    def dynamic_s(
        self, times_s: Sequence[float], groups: Sequence[Sequence[int]], batch_samples: float, phi_samples: float
    ) -> float:
        """Of groups of workers, given by their indices, that make updates of their own."""
        ...
