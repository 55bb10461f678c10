"""When convergence is drawn twice: where curves end close to each other, and not where they can be distinguished."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures.convergence import NARROW_IN, draw_convergence
from analysis.figures.style import looks
from analysis.figures.zoom import BAND_FRAC, late_window

T_S = np.linspace(0.0, 100.0, 201)


def saturating(label: str, end: float, after_s: float, until_s: float = 100.0) -> pd.DataFrame:
    """A metric that reaches ``end`` with the time constant ``after_s``."""
    times = T_S[until_s >= T_S]
    values = end * (1 - np.exp(-times / after_s))
    return pd.DataFrame({"t_s": times, "median": values, "low": values, "high": values, "label": label, "runs": 1})


def both(one: pd.DataFrame, other: pd.DataFrame) -> pd.DataFrame:
    return pd.concat([one, other], ignore_index=True)


def test_the_window_begins_where_all_curves_are_in_the_band() -> None:
    window = late_window(both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.94, 8.0)))
    # asp is the later one: 0.95 - 0.94 (1 - exp(-t / 8)) = a fifth of 0.95
    expected_s = 8.0 * np.log(0.94 / (BAND_FRAC * 0.95 - 0.01))
    assert window.start_s == pytest.approx(expected_s, abs=1.0)
    assert window.end_s == 100.0
    assert window.low < 0.8 * 0.95 + 0.02
    assert 0.95 < window.high < 1.0


@pytest.mark.parametrize(
    ("curves", "why"),
    [
        (saturating("bsp", 0.95, 5.0), "one curve"),
        (both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.3, 5.0)), "they end far from each other"),
        (both(saturating("bsp", 0.95, 900.0), saturating("asp", 0.94, 900.0)), "they rise to the end"),
        (both(saturating("bsp", 0.95, 0.01), saturating("asp", 0.95, 0.01)), "they are the same from the start"),
        (both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.6, 5.0, until_s=30.0)), "a job that ended counts"),
    ],
)
def test_nothing_is_drawn_twice_if_it_shows_nothing_more(curves: pd.DataFrame, why: str) -> None:
    assert late_window(curves) is None, why


@pytest.mark.parametrize(("sign", "corner"), [(1.0, "lower"), (-1.0, "upper")])
def test_the_piece_is_drawn_where_the_curves_leave_room(sign: float, corner: str) -> None:
    curves = both(saturating("bsp", 0.95, 5.0), saturating("asp", 0.94, 8.0))
    curves[["median", "low", "high"]] *= sign
    marks = pd.DataFrame({"strategy": ["bsp", "asp"], "tta_s": [float("nan")] * 2, "missed": 0, "runs": 1})
    wide, narrow = Figure(figsize=(NARROW_IN + 2, 3.0)).subplots(), Figure(figsize=(NARROW_IN - 1, 3.0)).subplots()
    for axes in (wide, narrow):
        draw_convergence(axes, curves, marks, looks(["bsp", "asp"]), "accuracy", None)
    assert len(narrow.child_axes) == 0, "a narrow picture has no room"
    (inset,) = wide.child_axes
    assert len(inset.lines) == 2
    wide.figure.draw_without_rendering()  # type: ignore[union-attr]
    place = wide.transAxes.inverted().transform(inset.get_window_extent())
    assert ((place[0, 1] + place[1, 1]) / 2 < 0.5) == (corner == "lower")
