"""Cumulative distributions and step lines, one look per compared label."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace

import numpy as np
import pandas as pd
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.lines import Line2D
from matplotlib.ticker import FuncFormatter, LogLocator, NullFormatter

from analysis.figures.style import FAINT, LINES, STRATEGY_COLOURS, Look, level_looks, looks
from analysis.figures.time_axis import log_time_axis, time_axis

ONE = Look("#0072B2")
"""The look of a run that is compared with nothing."""


def looks_of(labels: Iterable[str]) -> dict[str, Look]:
    """Looks of the labels: strategies by their names, others in the order of the colours; one alone has ``ONE``.

    Lines differ, too, since curves of policies often cover each other.
    """
    names = list(dict.fromkeys(labels))
    if any(name.split(" ", 1)[0] in STRATEGY_COLOURS for name in names):
        return looks(names)
    if len(names) == 1:
        return {names[0]: ONE}
    found = enumerate(level_looks(names).items())
    return {name: replace(look, line=LINES[place % len(LINES)]) for place, (name, look) in found}


def distribution(values: pd.Series) -> pd.DataFrame:
    """``value`` and ``frac``, the share of values at or below it, without infinite ones, which count; NaN do not."""
    known = np.sort(values.dropna().to_numpy(dtype="float64"))
    share = np.arange(1, len(known) + 1) / max(1, len(known))
    finite = np.isfinite(known)
    return pd.DataFrame({"value": known[finite], "frac": share[finite]})


def distribution_of_bins(table: pd.DataFrame) -> pd.DataFrame:
    """As :func:`distribution`, of ``up_to`` and ``count`` of bins in ascending order."""
    count = table["count"].to_numpy(dtype="float64")
    frame = pd.DataFrame({"value": table["up_to"].to_numpy(), "frac": count.cumsum() / max(1.0, count.sum())})
    return frame[np.isfinite(frame["value"])]


def draw_distribution(axes: Axes, curve: pd.DataFrame, look: Look, floor: float | None = None) -> None:
    """One curve (:func:`distribution`) as steps; values below ``floor``, such as 0 on a log axis, are drawn there."""
    if not len(curve):
        return
    x = curve["value"].to_numpy() if floor is None else curve["value"].clip(lower=floor).to_numpy()
    axes.step(
        np.concatenate([[x[0]], x]),
        np.concatenate([[0.0], curve["frac"] * 100]),
        where="post",
        color=look.colour,
        linestyle=look.line,
    )


def frame_distribution(axes: Axes, label: str, of_what: str, *, seconds: bool = False) -> None:
    """Set the labels, the limits and the grid of a panel of distributions; ``seconds``: of times."""
    axes.set_ylim(0.0, 100.0)
    if seconds and axes.get_xscale() == "log":
        log_time_axis(axes.xaxis, label)
    elif seconds:
        time_axis(axes.xaxis, label)
    else:
        axes.set_xlabel(label)
    axes.set_ylabel(f"{of_what} (%)")
    axes.grid(visible=True)


def log_axis(axes: Axes, curves: Iterable[pd.DataFrame]) -> float | None:
    """Make the horizontal axis logarithmic where values span more than a factor of 20; returns where 0 is drawn."""
    found = [curve["value"].to_numpy() for curve in curves if len(curve)]
    values = np.concatenate(found) if found else np.empty(0)
    above = values[values > 0.0]
    if not len(above) or above.max() < 20.0 * above.min():
        axes.set_xlim(left=0.0, right=float(values.max()) * 1.05 if values.max(initial=0.0) > 0 else 1.0)
        return None
    lowest = max(float(above.min()), float(above.max()) * 1e-5)
    plain_log(axes)
    floor = lowest / 1.5 if len(above) < len(values) or above.min() < lowest else lowest
    axes.set_xlim(floor / 1.1, float(above.max()) * 1.2)
    return floor


def plain_log(axes: Axes) -> None:
    """Make the horizontal axis logarithmic, with plain numbers at its powers of ten."""
    axes.set_xscale("log")
    axes.xaxis.set_major_locator(LogLocator(10.0, numticks=4))
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,g}" if x < 1e5 else f"{x:.0e}"))
    axes.xaxis.set_minor_formatter(NullFormatter())


def keys_of(shown: Mapping[str, Look]) -> list[Artist]:
    """Legend keys of the labels."""
    return [Line2D([], [], color=look.colour, ls=look.line, label=label) for label, look in shown.items()]


def mark(axes: Axes, x: float, text: str) -> None:
    """A thin vertical line with its meaning at the top."""
    axes.axvline(x, color=FAINT, linewidth=0.8, linestyle=":")
    axes.annotate(
        text, (x, 1.0), xycoords=axes.get_xaxis_transform(), xytext=(2, -2), textcoords="offset points",
        fontsize=6.5, color=FAINT, va="top",
    )  # fmt: skip
