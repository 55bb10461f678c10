"""How fast the memory of a live run's machine was, and how the processor time of iterations follows it.

All work on emulated hosts takes :meth:`Law.longer` times the processor time that the cost model says. The law has one
factor for computing, messages and updates, which is a choice: whether it holds is what the errors in odd windows say.
"""

from __future__ import annotations

from collections.abc import Iterable
from math import exp, inf
from typing import NamedTuple

import msgspec
import numpy as np
import pandas as pd

from analysis.records.load import RecordError, Run

NOTE = "MemoryProbed"
WINDOW_S = 1.0
"""A window has some five readings. On the virtual clock ``runtime.speeds`` is by the second, too."""
UNREAD = "no reading of the memory's speed"
EQUAL = 1e-9
"""Least sum of squared logarithms: copies that differ by less are equal, and determine no exponent."""


class Law(NamedTuple):
    """Work takes ``level`` times as long as the cost model says where a copy takes ``usual_s``."""

    level: float
    usual_s: float
    exponent: float

    def longer(self, copy_s: float) -> float:
        """Factor of the processor time where a copy takes ``copy_s`` (or of each of a series of copies)."""
        factor: float = self.level * (copy_s / self.usual_s) ** self.exponent
        return factor


class Errors(NamedTuple):
    """Median sizes of the relative errors of the predicted processor time of windows.

    ``constant``: the errors with the same factor in every window, whatever the memory's speed.
    """

    windows: int
    by_memory: float
    constant: float


class Halves(NamedTuple):
    """A law that was fitted to even windows, its errors there, and its errors in odd windows."""

    law: Law
    even: Errors
    odd: Errors


def readings(run: Run) -> pd.DataFrame:
    """A row per reading of a live run on hosts: its time ``t``, and the seconds ``copy_s`` of a copy of 4 MiB."""
    notes = run.tables.notes
    found = notes[notes["type"] == NOTE]
    copies = [float(msgspec.json.decode(fields)["copy_s"]) for fields in found["fields"]]
    frame = pd.DataFrame({"t": found["t"].to_numpy("float64"), "copy_s": np.array(copies, "float64")})
    return frame[frame["copy_s"] > 0]


def by_window(run: Run) -> pd.Series:
    """The median ``copy_s`` of every window of ``WINDOW_S`` that has readings, by its number: 0, 1, 2 ..."""
    found = readings(run)
    medians: pd.Series = found.groupby(_window_of(found["t"]))["copy_s"].median()
    return medians


def windows(pairs: Iterable[tuple[Run, Run]]) -> pd.DataFrame:
    """The windows of live runs, each run with its virtual twin: ``window`` (its number), ``copy_s``, ``longer``.

    ``longer``: mean processor time of the iterations that arrived in the window, of the mean on the virtual clock.
    """
    found = [pd.DataFrame({"window": pd.Series(dtype="int64"), "copy_s": [], "longer": []})]
    for live, virtual in pairs:
        copies, rows = by_window(live), live.tables.iterations
        if len(copies):
            longer = rows["cpu_s"].groupby(_window_of(rows["t"])).mean() / virtual.tables.iterations["cpu_s"].mean()
            both = pd.DataFrame({"copy_s": copies, "longer": longer}).rename_axis("window").reset_index()
            found.append(both[both["longer"].between(0.0, inf, inclusive="neither") & both["copy_s"].notna()])
    return pd.concat(found[1:] or found, ignore_index=True)


def fit(rows: pd.DataFrame) -> Law:
    """The law of these windows, at least one, by least squares of logarithms."""
    copies, longer = np.log(rows["copy_s"]), np.log(rows["longer"])
    usual, level = float(copies.mean()), float(longer.mean())
    spread = float(((copies - usual) ** 2).sum())
    exponent = float(((copies - usual) * (longer - level)).sum()) / spread if spread > EQUAL else 0.0
    return Law(exp(level), exp(usual), exponent)


def halves(rows: pd.DataFrame) -> Halves | None:
    """Fit the law to even windows and predict odd ones, whose times it does not know; None if either half is empty."""
    even, odd = (rows[rows["window"] % 2 == rest] for rest in (0, 1))
    if even.empty or odd.empty:
        return None
    law = fit(even)
    constant = law._replace(exponent=0.0)
    errors = [Errors(len(half), _error(law, half), _error(constant, half)) for half in (even, odd)]
    return Halves(law, *errors)


def speeds(run: Run, law: Law) -> list[float]:
    """The speed of the processors in every window of a live run, as a fraction of the cost model's speed.

    A window without a reading has the speed of the window before. Raises :class:`RecordError` if none has a reading.
    """
    copies = by_window(run)
    if copies.empty:
        raise RecordError(f"{run.path}: {UNREAD}; only live runs on emulated hosts have any")
    every = copies.reindex(range(int(copies.index.max()) + 1)).ffill().bfill()
    return [1.0 / law.longer(copy_s) for copy_s in every]


def _window_of(times: pd.Series) -> pd.Series:
    number: pd.Series = (times // WINDOW_S).astype("int64")
    return number


def _error(law: Law, rows: pd.DataFrame) -> float:
    return float((law.longer(rows["copy_s"]) / rows["longer"] - 1.0).abs().median())
