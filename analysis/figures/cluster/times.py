"""Distributions of the jobs' times: completion, queueing, slowdown."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pandas as pd

from analysis.figures.cluster.curves import (
    distribution,
    draw_distribution,
    frame_distribution,
    keys_of,
    log_axis,
    looks_of,
)
from analysis.figures.page import new_page, save

PANELS = {
    "jct_s": "job completion time",
    "queue_s": "time without GPUs",
    "slowdown": "slowdown (JCT / duration)",
}


def draw_times(path: Path, times: Mapping[str, pd.DataFrame], about: str) -> Path | None:
    """Draw the distributions over the jobs.

    Args:
        path: the PNG.
        times: frames of :func:`analysis.measures.cluster.jobs.job_times` by label.
        about: the caption.
    """
    panels = {
        name: label for name, label in PANELS.items() if any(frame[name].notna().any() for frame in times.values())
    }
    if not panels or not any(len(frame) for frame in times.values()):
        return None
    looks, shown = looks_of(times), []
    page = new_page(2.3, about)
    for axes, (name, label) in zip(
        page.subplots(1, len(panels), sharey=True, squeeze=False)[0], panels.items(), strict=True
    ):
        curves = {key: distribution(frame[name]) for key, frame in times.items()}
        floor = log_axis(axes, curves.values())
        for key, curve in curves.items():
            draw_distribution(axes, curve, looks[key], floor)
            shown.append(curve.assign(label=key, measure=name))
        frame_distribution(axes, label, "jobs", seconds=name.endswith("_s"))
    for axes in page.axes[1:]:
        axes.set_ylabel("")
    if len(looks) > 1:
        page.legend(handles=keys_of(looks), loc="outside upper left", ncols=min(5, len(looks)), columnspacing=1.3)
    return save(page, path, pd.concat(shown, ignore_index=True))
