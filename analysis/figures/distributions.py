"""Distributions of one run: batch processing time by worker, staleness of the gradients used."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
import pandas as pd
from matplotlib.axes import Axes
from matplotlib.ticker import MaxNLocator

from analysis.figures.style import FAINT, INK, PHASE_COLOURS
from analysis.figures.time_axis import time_axis


def draw_bpt(axes: Axes, iterations: pd.DataFrame, quantiles: pd.DataFrame, place: Mapping[int, float]) -> None:
    """Every iteration as a dot, one row per worker, with quantiles as numbers and as ticks below the dots.

    Args:
        axes: where to draw.
        iterations: ``worker``, ``bpt_s``, ``injected_s``.
        quantiles: ``worker``, ``median``, ``p90``, ``p99`` (seconds).
        place: the height of every worker's row.
    """
    height = iterations["worker"].map(place).to_numpy()
    jitter = np.random.default_rng(0).uniform(-0.3, 0.16, len(iterations))
    size = float(np.clip(6000 / max(1, len(iterations)), 2.0, 12.0))
    disturbed = (iterations["injected_s"] > 0).to_numpy()
    for mask, phase, label in ((~disturbed, "compute", "undisturbed iteration"), (disturbed, "injected", "disturbed")):
        x, y = iterations["bpt_s"].to_numpy()[mask], height[mask] + jitter[mask]
        if len(x):
            axes.scatter(x, y, s=size, color=PHASE_COLOURS[phase], alpha=0.5, linewidths=0, label=label)
    axes.autoscale_view()
    axes.set_xlim(left=0.0)
    unit_s = time_axis(axes.xaxis, "batch processing time", of_steps=True).seconds
    for column, (name, head) in enumerate((("median", "median"), ("p90", "90 %"), ("p99", "99 %"))):
        x, y = quantiles[name], quantiles["worker"].map(place)
        axes.vlines(x, y + 0.24, y + 0.42, color=INK, linewidth=2.0 if name == "median" else 1.0)
        _draw_column(axes, 1.08 + 0.095 * column, head, dict(zip(y, x / unit_s, strict=True)))
    _draw_rows(axes, {worker: place[worker] for worker in sorted(quantiles["worker"])})
    axes.grid(visible=True, axis="x")
    axes.legend(
        loc="lower left", bbox_to_anchor=(0.0, 1.0), ncols=2, borderaxespad=0.1, markerscale=2.0, handletextpad=0.1
    )


def _draw_rows(axes: Axes, place: Mapping[int, float]) -> None:
    axes.set_yticks(list(place.values()), [f"worker {worker}" for worker in place])
    axes.set_ylim(max(place.values()) + 0.6, min(place.values()) - 0.5)
    axes.tick_params(axis="y", length=0)


def _draw_column(axes: Axes, x: float, head: str, values: dict[float, float]) -> None:
    """Numbers in the unit of the axis to its right."""
    axes.text(x, 1.02, head, transform=axes.transAxes, ha="right", va="bottom", fontsize=7.5, color=FAINT)
    for y, value in values.items():
        text = f"{value:.0f}" if value >= 100 else f"{value:.1f}"
        axes.text(x, y, text, transform=axes.get_yaxis_transform(), ha="right", va="center", fontsize=8)


def draw_staleness(axes: Axes, histogram: pd.DataFrame, colour: str, notes: Sequence[str]) -> None:
    """Share of the applied gradients by staleness.

    Args:
        axes: where to draw.
        histogram: ``staleness`` (updates), ``share`` (0 to 1).
        colour: colour of the bars.
        notes: lines of text for the corner.
    """
    axes.bar(histogram["staleness"], histogram["share"] * 100, 0.82, color=colour, alpha=0.85, linewidth=0)
    for row in histogram.itertuples():
        if len(histogram) <= 16:
            text = f"{row.share * 100:.0f}" if row.share >= 0.0095 else "<1"
            axes.annotate(
                text,
                (row.staleness, row.share * 100),
                xytext=(0, 2),
                textcoords="offset points",
                ha="center",
                fontsize=7,
                color=FAINT,
            )
    axes.text(
        0.985,
        0.97,
        "\n".join(notes),
        transform=axes.transAxes,
        ha="right",
        va="top",
        fontsize=8,
        backgroundcolor="white",
    )
    axes.set_xlim(-0.8, max(3.0, float(histogram["staleness"].max())) + 0.8)
    axes.set_ylim(0.0, max(histogram["share"]) * 112)
    axes.xaxis.set_major_locator(MaxNLocator(integer=True))
    axes.set_xlabel("staleness: updates since the parameters were read")
    axes.set_ylabel("gradients used (%)")
    axes.grid(visible=True, axis="y")
