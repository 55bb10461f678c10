"""What costs modes: equations 1 and 2, or a model that has learnt them (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol


class ModeCosts(Protocol):
    """Seconds per unit of progress; :class:`strategies.star.times.ModeTimes` says what the arguments are."""

    def all_s(
        self,
        times_s: Sequence[float],
        batch_samples: float,
        phi_samples: float,
        sizes: Sequence[int],
        groupings: Sequence[Sequence[Sequence[int]]],
    ) -> tuple[dict[int, float], list[float]]:
        """Of updates of any x gradients, by x of ``sizes``; of updates of every group of workers, by grouping."""
        ...
