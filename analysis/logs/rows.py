"""The rows that readers of printed logs find, and rows that stand for several steps."""

from __future__ import annotations

from array import array
from collections.abc import Mapping
from dataclasses import dataclass, field
from math import isnan, nan
from statistics import median_low
from typing import Any

import numpy as np
import pandas as pd

from analysis.logs.limits import MOST_ROWS
from analysis.logs.step_log import PER_ROW, Extremes, LogError

PART = "part "
"""Begins the names of columns with parts of steps."""
NO_PARTS: Mapping[str, float] = {}


@dataclass
class Rows:
    """Rows of a log in the order in which it has them, a few bytes each.

    Attributes:
        source: of messages.
        each: the setting that makes the program print every step, if it does not.
        sampled: whether a line that is not of every step is of the last one alone, and not their mean.
        remarks, job: see :class:`analysis.logs.step_log.StepLog`.
        hosts: by rank, if the log names any.
        extremes: by step, if the log has them.
    """

    source: str
    each: str = ""
    sampled: bool = False
    remarks: list[str] = field(default_factory=list)
    job: dict[str, Any] = field(default_factory=dict)
    hosts: dict[str, str] = field(default_factory=dict)
    extremes: dict[int, tuple[Extremes, ...]] = field(default_factory=dict)
    _parts: dict[str, array[float]] = field(default_factory=dict)
    _names: dict[str, int] = field(default_factory=dict)
    _ranks: array[int] = field(default_factory=lambda: array("q"))
    _steps: array[int] = field(default_factory=lambda: array("q"))
    _own_s: array[float] = field(default_factory=lambda: array("d"))
    _round_s: array[float] = field(default_factory=lambda: array("d"))
    _data_s: array[float] = field(default_factory=lambda: array("d"))

    def __len__(self) -> int:
        return len(self._steps)

    def add(
        self,
        rank: str,
        step: int,
        own_s: float,
        round_s: float = nan,
        parts_s: Mapping[str, float] = NO_PARTS,
        data_s: float = nan,
    ) -> None:
        """Add a step of a rank; ``parts_s``: seconds of its parts by name; ``data_s``: seconds of loading.

        Raises:
            LogError: there are more than ``MOST_ROWS``.
        """
        if len(self) >= MOST_ROWS:
            raise LogError(
                f"{self.source}: has more than {MOST_ROWS:,} steps of ranks, the most that are read; give a part of it"
            )
        self._ranks.append(self._names.setdefault(rank, len(self._names)))
        self._steps.append(step)
        self._own_s.append(own_s)
        self._round_s.append(round_s)
        self._data_s.append(data_s)
        for name, seconds in parts_s.items():
            fracs = self._parts.setdefault(name, array("d"))
            fracs.extend([nan] * (len(self) - 1 - len(fracs)))
            fracs.append(seconds / (own_s if isnan(round_s) else round_s))

    def frame(self) -> pd.DataFrame:
        """Columns ``rank``, ``step``, ``own_s``, ``round_s``, ``data_s``, parts of steps, and ``host`` if known.

        A row that is the mean of several steps has their sum, and ``extremes`` are changed likewise.
        """
        ranks = pd.Categorical.from_codes(np.array(self._ranks, "int64"), list(self._names))
        rows = pd.DataFrame({"rank": ranks, "step": np.array(self._steps, "int64")})
        times = {"own_s": self._own_s, "round_s": self._round_s, "data_s": self._data_s}
        rows = rows.assign(**{name: np.array(seconds) for name, seconds in times.items()})
        for name, fracs in self._parts.items():
            rows[f"{PART}{name}"] = np.array([*fracs, *[nan] * (len(self) - len(fracs))])
        if self.hosts:
            rows["host"] = rows["rank"].astype("str").map(self.hosts).fillna("?")
        every = self._interval()
        if every > 1:
            self.job[PER_ROW] = every
            counts = _steps_of(rows, every)
            rows[list(times)] = rows[list(times)].mul(counts, axis=0)
            for step, count in zip(rows["step"], counts, strict=True) if self.extremes else ():
                if step in self.extremes:
                    self.extremes[step] = tuple(one.times(count) for one in self.extremes[step])
            cure = f"; {self.each} prints each" if self.each else ""
            kind = "last" if self.sampled else "mean"
            self.remarks.append(
                f"every line is the {kind} of {every} iterations and counts as one step, which took as long as all of "
                f"them: what is slow in some of them hardly shows{cure}"
            )
        return rows

    def _interval(self) -> int:
        steps = np.unique(np.array(self._steps, "int64"))
        return int(median_low(np.diff(steps).tolist())) if len(steps) > 1 else 1


def _steps_of(rows: pd.DataFrame, every: int) -> pd.Series:
    """How many steps a line is the mean of: those since the last one, or all before the first."""
    since = rows.groupby("rank", observed=True)["step"].diff()
    since = since.where(since > 0, rows["step"])
    return since.clip(1, every)
