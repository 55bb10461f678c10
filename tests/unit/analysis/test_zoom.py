"""Where curves differ is shown larger only if they coincide for most of the span."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest
from matplotlib.figure import Figure

from analysis.figures.convergence import draw_convergence
from analysis.figures.style import looks
from analysis.figures.zoom import window

TIMES = np.linspace(0.0, 100.0, 201)


def curves(**rises_s: float) -> pd.DataFrame:
    """Metrics that rise to 1 exponentially, with these time constants."""
    return pd.concat(
        pd.DataFrame({"label": name, "t_s": TIMES, "median": 1.0 - np.exp(-TIMES / rise_s)})
        for name, rise_s in rises_s.items()
    ).assign(runs=1)


def test_an_early_difference_is_enlarged() -> None:
    part = window(curves(bsp=4.0, asp=8.0))
    assert part is not None
    # exp(-t / 8) - exp(-t / 4) is 0.03 at 27.8 s (SciPy's brentq)
    assert part.left == pytest.approx(0.0, abs=0.3)
    assert part.right == pytest.approx(27.8 + 6.0, abs=0.6)
    assert part.bottom < 0.05
    assert 0.9 < part.top < 1.1


def test_where_close_curves_reach_the_target_is_enlarged() -> None:
    marks_s = [4.0 * np.log(20.0), 5.0 * np.log(20.0)]
    part = window(curves(bsp=4.0, asp=5.0), marks_s, 0.95)
    assert part is not None
    assert (part.left, part.right) == pytest.approx((marks_s[0] - 6.0, marks_s[1] + 6.0))
    assert part.bottom < 0.95 < part.top
    assert part.top - part.bottom < 0.2
    assert window(curves(bsp=4.0, asp=5.0), [marks_s[0], float("inf")], 0.95) == window(curves(bsp=4.0, asp=5.0))


@pytest.mark.parametrize(
    "rises_s",
    [{"bsp": 4.0}, {"bsp": 4.0, "asp": 4.0}, {"bsp": 10.0, "asp": 80.0}, {"bsp": 80.0, "asp": 81.0}],
    ids=["one curve", "equal curves", "different throughout", "no room: they still rise"],
)
def test_nothing_is_enlarged(rises_s: dict[str, float]) -> None:
    assert window(curves(**rises_s)) is None


@pytest.mark.parametrize(("slow_s", "insets"), [(8.0, 1), (80.0, 0)])
def test_the_enlargement_has_all_curves(slow_s: float, insets: int) -> None:
    frame = curves(bsp=4.0, asp=slow_s).assign(low=0.0, high=1.0)
    marks = pd.DataFrame({"strategy": ["bsp", "asp"], "tta_s": [9.2, 18.4], "missed": 0, "runs": 1})
    axes = Figure().subplots()
    draw_convergence(axes, frame, marks, looks(["bsp", "asp"]), "accuracy", 0.9)
    assert len(axes.child_axes) == insets
    assert all(len(inset.get_lines()) == 3 for inset in axes.child_axes), "two curves and the target"
