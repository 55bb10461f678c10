"""Axes of time: the unit that suits their range, and as many ticks as have room."""

from __future__ import annotations

from itertools import pairwise

import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from analysis.figures.cluster.curves import frame_distribution, plain_log
from analysis.figures.time_axis import LOG_TICKS, MOST_LOG_TICKS, log_time_axis, time_axis


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


@pytest.mark.parametrize("high_s", [3e3, 3e4, 3e5, 3e6, 3e8])
def test_ticks_of_a_logarithmic_axis_have_room_in_a_third_of_a_page(high_s: float) -> None:
    axes = axes_to(high_s / 1e5, high_s, width_in=1.9)
    axes.set_xscale("log")
    frame_distribution(axes, "job completion time", "jobs", seconds=True)
    shown = ticks(axes)
    assert 2 <= len(shown) <= MOST_LOG_TICKS
    assert set(shown) <= {text for _, text in LOG_TICKS}
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    boxes = sorted(
        (text.get_window_extent() for text in axes.get_xticklabels() if text.get_text()), key=lambda box: box.x0
    )
    assert all(left.x1 < right.x0 for left, right in pairwise(boxes))


def test_powers_of_ten_have_room_in_a_third_of_a_page() -> None:
    axes = axes_to(1.0, 3e6, width_in=1.9)
    plain_log(axes)
    assert 2 <= len(ticks(axes)) <= 4


def test_all_ticks_are_where_they_say() -> None:
    axes = axes_to(1.0, 1e6)
    axes.set_xscale("log")
    log_time_axis(axes.xaxis, "time")
    seconds = {"s": 1.0, "min": 60.0, "h": 3600.0, "d": 86400.0}
    axes.figure.draw_without_rendering()  # type: ignore[union-attr]
    for place, text in zip(axes.get_xticks(), axes.get_xticklabels(), strict=True):
        number, unit = text.get_text().split()
        assert float(number) * seconds[unit] == place
