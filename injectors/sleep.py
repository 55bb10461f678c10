"""The ``sleep`` actuator's pure half: which delay a plan asks for where and when (the worker or server sleeps it)."""

from __future__ import annotations

import math
from bisect import bisect_right
from typing import final

from injectors.plan import Disturbance, Plan

_NOTHING = (0.0, 0.0)


class _Steps:
    """What is asked of one target, as a step function of time.

    The sums are kept as whole numbers of the finest binary digit among the magnitudes while windows open and close, and
    rounded once: a window that has closed leaves no rounding error behind, and any number of open ones costs the same.
    """

    def __init__(self, windows: list[Disturbance]) -> None:
        scale = max(window.magnitude.as_integer_ratio()[1] for window in windows)  # denominators are powers of two
        changes: dict[float, list[tuple[str, int]]] = {}
        for window in windows:
            numerator, denominator = window.magnitude.as_integer_ratio()
            units = numerator * (scale // denominator)
            changes.setdefault(window.start_s, []).append((window.kind, units))
            changes.setdefault(window.end_s, []).append((window.kind, -units))
        self.times = sorted(changes)
        self.values = [_NOTHING]
        total = {"delay": 0, "slowdown": 0}
        for time in self.times:
            for kind, units in changes[time]:
                total[kind] += units
            self.values.append((total["delay"] / scale, total["slowdown"] / scale))

    def at(self, t: float) -> tuple[float, float]:
        return self.values[bisect_right(self.times, t)]


@final
class SleepActuator:
    """Answers for any ``t`` (seconds since the job's start); windows are half open, [start_s, end_s).

    :meth:`delay_for` and :meth:`next_change` take O(log n) of the n windows (of the target, of the plan);
    :meth:`active` only looks at what opened or closed since it was last asked, and starts over when ``t`` decreases.
    """

    def __init__(self, plan: Plan) -> None:
        windows: dict[str, list[Disturbance]] = {}
        opening: list[tuple[float, int]] = []
        closing: list[tuple[float, int]] = []
        for index, one in enumerate(plan.disturbances):
            if one.start_s < one.end_s:
                windows.setdefault(one.target, []).append(one)
                opening.append((one.start_s, index))
                closing.append((one.end_s, index))
        self._steps = {target: _Steps(own) for target, own in windows.items()}
        self._opening, self._closing = sorted(opening), sorted(closing)
        self._times = sorted({time for time, _ in (*opening, *closing)})
        self._now = -math.inf
        self._opened = self._closed = 0
        self._open: set[int] = set()
        self._indices: tuple[int, ...] = ()

    def delay_for(self, target: str, t: float) -> tuple[float, float]:
        """(seconds, fraction of its own computing time) by which work that ``target`` begins at ``t`` takes longer."""
        steps = self._steps.get(target)
        return _NOTHING if steps is None else steps.at(t)

    def next_change(self, t: float) -> float:
        """The first moment after ``t`` at which a window opens or closes; infinity when there is none."""
        position = bisect_right(self._times, t)
        return self._times[position] if position < len(self._times) else math.inf

    def active(self, t: float) -> tuple[int, ...]:
        """Indices, ascending, of the plan's disturbances whose windows are open."""
        if t < self._now:
            self._opened = self._closed = 0
            self._open.clear()
            self._indices = ()
        opened = bisect_right(self._opening, (t, math.inf), self._opened)
        closed = bisect_right(self._closing, (t, math.inf), self._closed)
        if (opened, closed) != (self._opened, self._closed):
            self._open.update(index for _, index in self._opening[self._opened : opened])
            self._open.difference_update(index for _, index in self._closing[self._closed : closed])
            self._opened, self._closed = opened, closed
            self._indices = tuple(sorted(self._open))
        self._now = t
        return self._indices
