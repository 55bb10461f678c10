"""Axes of time: the unit that suits their range, and as many ticks as have room."""

from __future__ import annotations

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.time_axis import log_time_axis, time_axis


def axes_to(low: float, high: float, width_in: float = 6.4) -> Axes:
    axes = Figure(figsize=(width_in, 2.3), dpi=100).subplots()
    axes.set_xlim(low, high)
    return axes


def ticks(axes: Axes) -> list[str]:
    """The texts within the limits."""
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    low, high = axes.get_xlim()
    return [
        text.get_text()
        for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True)
        if low <= place <= high
    ]


@pytest.mark.parametrize(
    ("high_s", "unit", "some"),
    [
        (0.5, "s", ["0.0", "0.5"]),
        (1500.0, "s", ["0", "1000"]),
        (7200.0, "min", ["0", "60", "120"]),
        (86400.0, "h", ["0", "6", "12", "18", "24"]),
        (4.1e6, "d", ["0", "20", "40"]),
    ],
)
def test_the_unit_suits_the_range(high_s: float, unit: str, some: list[str]) -> None:
    axes = axes_to(0.0, high_s)
    time_axis(axes.xaxis, "time", "!")
    assert axes.get_xlabel() == f"time ({unit})!"
    assert set(some) <= set(ticks(axes)), ticks(axes)
    assert axes.xaxis.get_offset_text().get_text() == "", "no power of ten at the corner"


def test_all_ticks_are_where_they_say() -> None:
    axes = axes_to(1.0, 1e6)
    axes.set_xscale("log")
    log_time_axis(axes.xaxis, "time")
    seconds = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        number, unit = text.get_text().split()
        assert float(number) * seconds[unit] == place
