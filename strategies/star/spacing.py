"""When to decide again after decisions that changed nothing (pure)."""

from __future__ import annotations

from typing import final


@final
class Spacing:
    """Decisions that change nothing come ever further apart, until they take ``max_frac`` of the time.

    With real processes predicted times differ all the time, by noise. Decided at every difference, STAR-H spent half of
    a live job on decisions that kept its mode. The wait doubles with each of them, and is over with the first change.
    """

    def __init__(self, max_frac: float) -> None:
        self.max_frac = max_frac
        self.reset()

    def reset(self) -> None:
        """Something has changed: decide when it is asked for."""
        self._unchanged, self._again_s = 0, 0.0

    def waits(self, t: float) -> bool:
        """Whether it is too early at time ``t``."""
        return t < self._again_s

    def decided(self, t: float, takes_s: float, *, changed: bool) -> None:
        """A decision of ``takes_s`` began at time ``t``; one that takes no time need not be spaced."""
        if changed:
            self.reset()
        if changed or takes_s == 0:
            return
        self._unchanged += 1
        # a float's power of two, as the number of decisions has no bound
        self._again_s = t + takes_s * min(2.0 ** min(self._unchanged, 60), 1 / self.max_frac)
