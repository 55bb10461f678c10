"""The points that a figure of an experiment plots, whole or in panels, and its caption (pure)."""

from __future__ import annotations

from dataclasses import dataclass

import pandas as pd

from analysis.experiments.results import Results, paper_values, summary
from analysis.experiments.spec import Shown


@dataclass(frozen=True)
class Plotted:
    """``ours`` are rows of :func:`summary`, ``paper`` rows of :func:`paper_values`; both by the axes ``compared``."""

    ours: pd.DataFrame
    paper: pd.DataFrame
    compared: list[str]

    def at(self, axis: str, level: str) -> Plotted:
        """Return the rows with this level on the axis."""
        return Plotted(self.ours[self.ours[axis] == level], self.paper[self.paper[axis] == level], self.compared)

    @property
    def together(self) -> pd.DataFrame:
        """For the CSV: ours, with the paper's in the columns ``paper``, ``paper_std`` and ``paper_how``."""
        named = self.paper.rename(columns={"value": "paper", "std": "paper_std", "how": "paper_how"})
        return self.ours.merge(named, on=self.compared, how="left")


def numbers_of_figure(results: Results, shown: Shown | None = None) -> Plotted:
    """All numbers of the experiment's figure, or of one of several measures that it shows."""
    return Plotted(summary(results, shown), paper_values(results, shown), results.spec.compared_axes)


def panels(whole: Plotted, results: Results) -> list[tuple[str | None, Plotted]]:
    """The level and the numbers of every panel, in order; a figure without ``panels`` is one panel of level None."""
    axis = results.spec.figure.panels
    return [(None, whole)] if axis is None else [(level, whole.at(axis, level)) for level in results.spec.axes[axis]]


def caption_of(results: Results, note: str, single: str = "") -> str:
    """Say what ran, after a note on intervals over the seeds, or after ``single`` if there is one seed."""
    said = note if results.runs["seed"].nunique() > 1 else single
    return f"{said} \N{MIDDLE DOT} {results.source}" if said else results.source
