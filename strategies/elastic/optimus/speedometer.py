"""How fast a job is at its present size: updates per second while nothing changes (pure)."""

from __future__ import annotations

from math import inf
from typing import final

from strategies.parts.checks import check_number


@final
class Speedometer:
    """Updates per second since the last change.

    Args:
        sample_s: seconds that a measurement takes.
        skip_s: seconds after a change that do not count: everybody connects, caches are cold.

    The time is that from the first update that counts to the last one, so a measurement needs two at different times.
    """

    def __init__(self, sample_s: float, skip_s: float = 0.0) -> None:
        check_number("sample_s", sample_s, above=0.0)
        check_number("skip_s", skip_s, least=0.0)
        self.sample_s, self.skip_s = sample_s, skip_s
        self.begin(0.0)

    def begin(self, t: float) -> None:
        """Something has changed: measure from the beginning."""
        self._from_s, self._first_s, self._last_s = t + self.skip_s, inf, -inf
        self._updates = 0

    def count(self, t: float) -> None:
        """Count an update of the parameters."""
        if t < self._from_s:
            return
        self._first_s = min(self._first_s, t)
        self._updates += t > self._first_s  # not those that came together with the first
        self._last_s = t

    def rate(self, t: float) -> float | None:
        """Updates per second; None: not measured for long enough yet."""
        if t < self._from_s + self.sample_s or self._last_s <= self._first_s:
            return None
        return self._updates / (self._last_s - self._first_s)
