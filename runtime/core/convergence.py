"""When a metric has converged (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta


class Convergence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A number of consecutive evaluations that differ by less than ``max_change`` (STAR, section III)."""

    evaluations: Annotated[int, Meta(ge=2)]
    max_change: Annotated[float, Meta(gt=0)]

    def reached(self, values: Sequence[float]) -> bool:
        """Whether the last of these values do (never if one of them is not a number)."""
        last = values[-self.evaluations :]
        return len(last) == self.evaluations and max(last) - min(last) < self.max_change and all(x == x for x in last)
