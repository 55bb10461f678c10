"""Pauses at regular intervals, such as garbage collections, with a phase and a period per rank."""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal, final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import (
    check_expected,
    check_flag,
    check_name,
    check_number,
    check_one_of,
    check_targets,
    expand_targets,
    one_line,
    undisturbed_s,
)
from injectors.patterns.streams import stream
from injectors.plan import RULES, ClusterShape, Disturbance, Plan, build_plan

PHASES = ("random", "equal")
KINDS = ("delay", "pause")


@final
@dataclass(frozen=True, kw_only=True)
class Pauses(Pattern):
    """Every target pauses for ``duration_s`` in each of its periods, as an interpreter that collects garbage.

    If the phases differ, a barrier of N ranks waits for N pauses per period; if all ranks pause in the same iteration,
    it waits for one. ``align`` is that cure: all targets take the phase and period that are drawn for the first one.

    A plan is made before any iteration happens. With ``kind=delay`` a window is as long as an undisturbed iteration, so
    it meets the one iteration that begins within it and makes it longer by the whole pause. An iteration that is longer
    than undisturbed can step over a window of its own rank. With ``kind=pause`` the processes are stopped for
    ``duration_s``. An emulated device continues meanwhile, so only the part of the pause counts that outlasts
    the device's work.

    Attributes:
        period_s: seconds from the start of a pause to the start of the next one; None if ``period_iters`` is given.
        period_iters: the same as undisturbed iterations between two pauses: the period is so many iterations and one
            pause.
        duration_s: seconds of a pause.
        phase: ``random``: the first pause begins anywhere in the first period; ``equal``: after one period.
        drift_frac: the period of each target is drawn from ``period_s`` x (1 - drift_frac, 1 + drift_frac), so that
            equal phases do not stay equal.
        align: all targets pause when the first one does.
        kind: ``delay`` or ``pause``, as above.
        base_s: seconds of an undisturbed iteration; None: from the cluster.
        targets: ``worker:1``, ``server:0``, ``worker:*``; ``host:2`` with ``kind=pause``.
        name: see :class:`Pattern`.
    """

    period_s: float | None = 60.0
    period_iters: float | None = None
    duration_s: float = 1.5
    phase: str = "random"
    drift_frac: float = 0.0
    align: bool = False
    kind: Literal["delay", "pause"] = "delay"
    base_s: float | None = None
    targets: tuple[str, ...] = ("worker:*",)
    name: str = "pauses"

    def __post_init__(self) -> None:
        check_one_of("period_s", self.period_s, "period_iters", self.period_iters)
        if self.period_s is not None:
            check_number("period_s", self.period_s, least=0.001)
        if self.period_iters is not None:
            check_number("period_iters", self.period_iters, above=0)
        check_number("duration_s", self.duration_s, above=0, most=RULES["delay"].most)
        check_number("drift_frac", self.drift_frac, least=0, most=0.5)
        for field, words in (("phase", PHASES), ("kind", KINDS)):
            if getattr(self, field) not in words:
                raise ValueError(f"{field}={one_line(getattr(self, field))}: must be {' or '.join(words)}")
        check_flag("align", self.align)
        if self.base_s is not None:
            check_number("base_s", self.base_s, above=0)
        check_targets(self.targets, self.kind)
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """One window per target and pause."""
        targets = expand_targets(self.targets, cluster)
        field = "period_iters" if self.period_s is None else "period_s"
        value: float = getattr(self, field)
        period_s = value if self.period_s is not None else value * undisturbed_s(self.base_s, cluster) + self.duration_s
        shortest_s = period_s * (1 - self.drift_frac)
        if shortest_s <= self.duration_s:
            raise ValueError(
                f"{field}={value}: makes periods of {shortest_s:g} s, which must be longer than a pause "
                f"(duration_s={self.duration_s})"
            )
        check_expected(field, value, shortest_s, horizon_s, len(targets))
        length_s = self.duration_s if self.kind == "pause" else undisturbed_s(self.base_s, cluster)
        windows = (
            Disturbance(
                start_s=start_s,
                end_s=start_s + length_s,
                target=target,
                kind=self.kind,
                magnitude=1.0 if self.kind == "pause" else self.duration_s,
            )
            for target in targets
            for start_s in self._starts(targets[0] if self.align else target, period_s, horizon_s, seed)
        )
        return build_plan(self.name, seed, horizon_s, windows)

    def _starts(self, drawn_for: str, period_s: float, horizon_s: float, seed: int) -> Iterator[float]:
        # both are always drawn, so that changing one field does not change the other's draws
        phase, drift = stream(seed, self.name, drawn_for).random(2).tolist()
        own_s = period_s * (1 + self.drift_frac * (2 * drift - 1))
        first_s = own_s * (phase if self.phase == "random" else 1.0)
        for turn in range(max(math.ceil((horizon_s - first_s) / own_s), 0)):
            yield first_s + turn * own_s
