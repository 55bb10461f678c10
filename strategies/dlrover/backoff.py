"""When a rule whose change the cluster denied is followed again (pure)."""

from __future__ import annotations

from typing import final

MOST_DOUBLINGS = 3
"""The wait stops growing at 8 times the first one: 48 minutes with the settings of the paper."""


@final
class Backoff:
    """A denied rule waits ``first_s``, and twice as long after every further denial; all others are followed as ever.

    The paper does not say what its Brain does on a full cluster. Asked at every look, the same change would be denied
    at every look.
    """

    def __init__(self, first_s: float) -> None:
        self.first_s = first_s
        self._denials: dict[str, int] = {}
        self._again_s: dict[str, float] = {}

    def waiting(self, t: float) -> frozenset[str]:
        """Rules that are not followed yet."""
        return frozenset(rule for rule, again_s in self._again_s.items() if t < again_s)

    def denied(self, rule: str, t: float) -> None:
        """Its change was denied at time ``t``."""
        times = self._denials.get(rule, 0)
        self._again_s[rule] = t + self.first_s * 2 ** min(times, MOST_DOUBLINGS)
        self._denials[rule] = times + 1

    def granted(self) -> None:
        """The cluster gave something, or took something back: what it denied before says nothing any more."""
        self._denials.clear()
        self._again_s.clear()
