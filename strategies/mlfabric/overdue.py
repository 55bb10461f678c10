"""When what was sent should have arrived, and what is overdue (pure)."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import final

LATE_FACTOR = 4.0
"""Planned durations after which a transfer is overdue, where the configuration names no other number."""
NEVER = 1e9
"""Factor from which on nothing is ever overdue."""
LEAST_S = 0.05
"""Nothing is overdue before: orders and reports take time that no plan knows, such as a busy machine's."""


@final
class Expected:
    """Transfers on their way; one is overdue ``factor`` times its planned duration after it was sent."""

    def __init__(self, factor: float) -> None:
        self._factor = factor
        self._due_s: dict[int, float] = {}
        self._planned_s: dict[int, float] = {}

    def sent(self, grads: Iterable[int], t: float, planned_s: float, sending_s: float) -> None:
        """These begin now, and should take ``planned_s``, of which data flows for ``sending_s``."""
        for grad in grads:
            if self._factor < NEVER:
                self._due_s[grad] = t + max(LEAST_S, self._factor * planned_s)
            self._planned_s[grad] = sending_s

    def ended(self, grad: int) -> float:
        """It has arrived, or never will; returns for how long data should have flowed (0: that is not known)."""
        self._due_s.pop(grad, None)
        return self._planned_s.pop(grad, 0.0)

    def overdue(self, t: float) -> list[int]:
        """Those that should have arrived; each is named once."""
        found = [grad for grad, due_s in self._due_s.items() if due_s <= t]
        for grad in found:
            del self._due_s[grad]
        return found

    @property
    def travelling(self) -> int:
        """How many are on their way."""
        return len(self._planned_s)

    @property
    def next_s(self) -> float:
        """When the next is overdue; infinite if none will be."""
        return min(self._due_s.values(), default=math.inf)
