"""When a metric moves no more (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated

import msgspec
from msgspec import Meta


class Convergence(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """So many evaluations one after another differ by less than ``max_change`` (STAR, section III)."""

    evaluations: Annotated[int, Meta(ge=2)]
    max_change: Annotated[float, Meta(gt=0)]

    def reached(self, values: Sequence[float]) -> bool:
        """Whether the last of these values of the metric do (never with one that is not a number among them)."""
        last = values[-self.evaluations :]
        return len(last) == self.evaluations and max(last) - min(last) < self.max_change and all(x == x for x in last)
