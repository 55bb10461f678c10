"""Axes of time: values stay in seconds, and tick labels have the unit that suits their range."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
from matplotlib.axis import Axis
from matplotlib.ticker import FixedLocator, FuncFormatter, MaxNLocator, NullFormatter, NullLocator

from analysis.measures.targets import step_text


class Unit(NamedTuple):
    """A unit of time, and the steps between ticks that divide the next one evenly."""

    name: str
    seconds: float
    steps: tuple[float, ...]


TENS = (1.0, 2.0, 2.5, 5.0, 10.0)
SIXTIES = (1.0, 2.0, 3.0, 6.0, 10.0)
MILLISECONDS, SECONDS, MINUTES, HOURS, DAYS = (
    Unit("ms", 1e-3, TENS),
    Unit("s", 1.0, TENS),
    Unit("min", 60.0, SIXTIES),
    Unit("h", 3600.0, SIXTIES),
    Unit("d", 86400.0, TENS),
)
LONGEST = ((2000.0, SECONDS), (3 * 3600.0, MINUTES), (4 * 86400.0, HOURS))
"""Up to how many seconds an axis is in which unit; longer ones are in days."""
LONGEST_STEP_S = 10.0
"""Up to how many seconds an axis of the lengths of iterations is in milliseconds."""
MOST_TICKS = 9
LOG_TICKS = tuple(
    (number * unit.seconds, f"{number:g} {unit.name}")
    for unit, numbers in (
        (SECONDS, (1e-3, 1e-2, 0.1, 1, 10)),
        (MINUTES, (1, 10)),
        (HOURS, (1,)),
        (DAYS, (1, 10, 100, 1000)),
    )
    for number in numbers
)
"""One for about each power of ten."""
MOST_LOG_TICKS = 4
LOG_REACH = 0.96
"""Part of a logarithmic axis where ticks may be: the text of one at its end would reach into the next panel."""


def unit_of(longest_s: float, *, of_steps: bool = False) -> Unit:
    """The unit of an axis that reaches so far; ``of_steps``: of iterations, short ones in milliseconds."""
    if of_steps and longest_s <= LONGEST_STEP_S:
        return MILLISECONDS
    return next((unit for limit, unit in LONGEST if longest_s <= limit), DAYS)


def step_in(step_s: float, unit: Unit) -> str:
    """Seconds between two evaluations, with their unit: the axis' own, unless they are shorter."""
    own = unit if step_s >= unit.seconds else unit_of(step_s)
    return f"{step_text(step_s / own.seconds)} {own.name}"


def time_axis(axis: Axis, label: str, more: str = "", *, of_steps: bool = False) -> Unit:
    """Give an axis of seconds its ticks, and its label with the unit and ``more``; its limits must be set.

    Returns the unit. ``of_steps``: see :func:`unit_of`.
    """
    unit = unit_of(float(np.abs(axis.get_view_interval()).max()), of_steps=of_steps)
    axis.set_label_text(f"{label} ({unit.name}){more}")
    if unit is not SECONDS:
        axis.set_major_locator(_In(unit))
        axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value / unit.seconds:g}"))
    return unit


class _In(MaxNLocator):
    """Ticks at round numbers of a unit."""

    def __init__(self, unit: Unit) -> None:
        super().__init__(nbins=MOST_TICKS, steps=unit.steps)
        self.unit_s = unit.seconds

    def tick_values(self, vmin: float, vmax: float) -> Sequence[float]:
        """Return ticks for an interval in seconds."""
        return [self.unit_s * value for value in super().tick_values(vmin / self.unit_s, vmax / self.unit_s)]


def log_time_axis(axis: Axis, label: str) -> None:
    """The same for a logarithmic axis: every tick has its own unit, and there are as many as have room."""
    low, high = axis.get_view_interval()
    end = low ** (1 - LOG_REACH) * high**LOG_REACH
    within = [(value, text) for value, text in LOG_TICKS if low <= value <= end]
    shown = within[:: -(-len(within) // MOST_LOG_TICKS) or 1]
    axis.set_label_text(label)
    axis.set_major_locator(FixedLocator([value for value, _ in shown]))
    texts = dict(shown)
    axis.set_major_formatter(FuncFormatter(lambda value, _: texts.get(value, f"{value:g} s")))
    axis.set_minor_locator(NullLocator())
    axis.set_minor_formatter(NullFormatter())
