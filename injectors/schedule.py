"""A plan as functions of time (pure): the delay of work, the level of each disturbance, and the changes of levels."""

from __future__ import annotations

import heapq
import math
from bisect import bisect_right
from collections.abc import Collection, Iterable
from itertools import pairwise
from typing import NamedTuple, final

import msgspec

from injectors.plan import RULES, Disturbance, Kind, Plan, task_of

_NOTHING = (0.0, 0.0)


class Change(NamedTuple):
    """From time ``t`` on (seconds since the job's start), ``level`` is in force for one kind and target."""

    t: float
    target: str
    kind: Kind
    level: float


class _Steps:
    """The composed level of one kind on one target: ``levels[i]`` is in force from ``times[i - 1]`` on."""

    def __init__(self, kind: Kind, windows: list[Disturbance]) -> None:
        rule = RULES[kind]
        if all(one.end_s <= after.start_s for one, after in pairwise(windows)):
            edges = _one_by_one(windows, rule.neutral)
        else:
            edges = _sums(windows) if rule.composition == "sum" else _least(windows, rule.neutral)
        self.times: list[float] = []
        self.levels = [rule.neutral]
        for t, level in edges:
            if level != self.levels[-1]:
                self.times.append(t)
                self.levels.append(level)

    def at(self, t: float) -> float:
        return self.levels[bisect_right(self.times, t)]


def _one_by_one(windows: list[Disturbance], neutral: float) -> Iterable[tuple[float, float]]:
    """(time, magnitude of the open window from then on) of windows that do not overlap, in their order."""
    for one, after in pairwise(windows):
        yield one.start_s, one.magnitude
        if one.end_s < after.start_s:
            yield one.end_s, neutral
    yield windows[-1].start_s, windows[-1].magnitude
    yield windows[-1].end_s, neutral


def _sums(windows: list[Disturbance]) -> Iterable[tuple[float, float]]:
    """(time, sum of the open windows' magnitudes from then on), at every window edge.

    The running sum is an integer multiple of the finest binary digit among the magnitudes, and is rounded once: a
    closed window leaves no rounding error behind, and the cost does not depend on the number of open windows.
    """
    scale = max(window.magnitude.as_integer_ratio()[1] for window in windows)  # denominators are powers of two
    changes: dict[float, int] = {}
    for window in windows:
        numerator, denominator = window.magnitude.as_integer_ratio()
        units = numerator * (scale // denominator)
        changes[window.start_s] = changes.get(window.start_s, 0) + units
        changes[window.end_s] = changes.get(window.end_s, 0) - units
    total = 0
    for time in sorted(changes):
        total += changes[time]
        yield time, total / scale


def _least(windows: list[Disturbance], neutral: float) -> Iterable[tuple[float, float]]:
    """(time, smallest magnitude of the open windows from then on), at every edge; for a union all magnitudes are 1."""
    opening = sorted(windows, key=lambda window: window.start_s, reverse=True)
    held: list[tuple[float, float]] = []
    """(magnitude, end_s) of opened windows; closed ones are removed when they reach the top of the heap."""
    for time in sorted({edge for window in windows for edge in (window.start_s, window.end_s)}):
        while opening and opening[-1].start_s <= time:
            window = opening.pop()
            heapq.heappush(held, (window.magnitude, window.end_s))
        while held and held[0][1] <= time:
            heapq.heappop(held)
        yield time, held[0][0] if held else neutral


class DelaySteps:
    """Both kinds of delay of one target in one step function, found by one search (:meth:`Schedule.delay_for`)."""

    def __init__(self, delay: _Steps | None, slowdown: _Steps | None) -> None:
        if slowdown is None:
            assert delay is not None
            self.times, self.values = delay.times, [(level, 0.0) for level in delay.levels]
        elif delay is None:
            self.times, self.values = slowdown.times, [(0.0, level) for level in slowdown.levels]
        else:
            self.times = sorted({*delay.times, *slowdown.times})
            self.values = [(delay.at(t), slowdown.at(t)) for t in (-math.inf, *self.times)]

    def at(self, t: float) -> tuple[float, float]:
        return self.values[bisect_right(self.times, t)]


@final
class Schedule:
    """Queries of a plan for any ``t`` (seconds since the job's start); windows are half open, [start_s, end_s).

    :meth:`moved` records that a task has been restarted elsewhere, which changes the answers for later times.
    :meth:`delay_for`, :meth:`loader_for`, :meth:`level` and :meth:`next_change` take O(log n) for n windows (of the
    target, of the plan); :meth:`active` only processes windows that opened or closed since the last call, and starts
    over when ``t`` decreases.

    Attributes:
        kinds: kinds of the plan's disturbances.
    """

    def __init__(self, plan: Plan) -> None:
        self._windows = dict(enumerate(plan.disturbances))
        self.kinds: frozenset[Kind] = frozenset(one.kind for one in plan.disturbances if one.start_s < one.end_s)
        self._compile()

    def _compile(self) -> None:
        windows: dict[tuple[str, Kind], list[Disturbance]] = {}
        opening: list[tuple[float, int]] = []
        closing: list[tuple[float, int]] = []
        for index, one in self._windows.items():
            if one.start_s < one.end_s:
                windows.setdefault((one.target, one.kind), []).append(one)
                opening.append((one.start_s, index))
                closing.append((one.end_s, index))
        steps = {key: _Steps(key[1], own) for key, own in windows.items()}
        delayed = {target for target, kind in steps if kind in ("delay", "slowdown")}
        self._steps = steps
        waits: dict[str, list[Disturbance]] = {}
        for one in self._windows.values():
            if one.of_loader and one.start_s < one.end_s:
                waits.setdefault(one.target, []).append(one)
        self._loaders = {target: _Steps("delay", own) for target, own in waits.items()}
        self._delays = {one: DelaySteps(steps.get((one, "delay")), steps.get((one, "slowdown"))) for one in delayed}
        self._opening, self._closing = sorted(opening), sorted(closing)
        self._times = sorted({time for time, _ in (*opening, *closing)})
        self._now = -math.inf
        self._opened = self._closed = 0
        self._open: set[int] = set()
        self._indices: tuple[int, ...] = ()

    @property
    def disturbances(self) -> Collection[Disturbance]:
        """All windows, as they are now."""
        return self._windows.values()

    def moved(self, target: str, t: float) -> bool:
        """Record that a task is on another machine from ``t`` on; returns whether it left a disturbance behind.

        The ranks of a worker come along.
        """
        at = {i: one for i, one in self._windows.items() if one.of_machine and one.end_s > t}
        left = {i: one for i, one in at.items() if task_of(one.target) == target}
        for index, one in left.items():
            if one.start_s < t:
                self._windows[index] = msgspec.structs.replace(one, end_s=t)
            else:
                del self._windows[index]
        if left:
            self._compile()
        return bool(left)

    def delay_for(self, target: str, t: float) -> tuple[float, float]:
        """(seconds, fraction of its own computing time) added to work that ``target`` begins at ``t``."""
        delays = self._delays.get(target)
        return _NOTHING if delays is None else delays.at(t)

    @property
    def slows_loaders(self) -> bool:
        """Whether a worker ever waits for a batch."""
        return bool(self._loaders)

    def loader_for(self, target: str, t: float) -> float:
        """The part of :meth:`delay_for`'s seconds in which ``target`` waits for a batch."""
        waits = self._loaders.get(target)
        return 0.0 if waits is None else waits.at(t)

    def level(self, target: str, kind: Kind, t: float) -> float:
        """Strength of ``kind`` on ``target`` at ``t``, with all open windows composed (:data:`injectors.plan.RULES`).

        Seconds (delay), added fraction (slowdown), remaining fraction (cpu, gpu, bandwidth), or 1 (cut, pause, kill).
        Without a disturbance: 1 for cpu and bandwidth, else 0.
        """
        steps = self._steps.get((target, kind))
        return RULES[kind].neutral if steps is None else steps.at(t)

    def changes(self, kinds: Collection[Kind]) -> tuple[Change, ...]:
        """All changes of the level of one of ``kinds``, sorted by time, target and kind.

        A window that has no effect, such as a weaker quota inside a stronger one, makes no change.
        """
        found = (
            Change(t, target, kind, level)
            for (target, kind), steps in self._steps.items()
            if kind in kinds
            for t, level in zip(steps.times, steps.levels[1:], strict=True)
        )
        return tuple(sorted(found))

    def next_change(self, t: float) -> float:
        """The first time after ``t`` at which a window opens or closes; infinity if there is none."""
        position = bisect_right(self._times, t)
        return self._times[position] if position < len(self._times) else math.inf

    def active(self, t: float) -> tuple[int, ...]:
        """Indices of the plan's disturbances whose windows are open, in ascending order."""
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
