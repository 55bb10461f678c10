"""Which mode of synchronisation a run was in when, and what the choice cost against the true times of its plan.

The *true time* of a worker at some moment is the median over its iterations of this run that lay wholly within the same
windows of the plan as that moment: what an oracle of the plan would have predicted. A mode's cost (seconds per unit of
progress) comes from the caller, since only the strategy knows how it prices.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise
from math import nan
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from analysis.measures import work
from analysis.measures.injections import workers_of
from analysis.measures.metrics import jct_s
from analysis.records.load import Run

MODE, DECISIONS = "mode", "decisions"
"""What the gate of a strategy with modes logs, and its schedule."""
ROUNDING_S = 1e-9

Setting = frozenset[tuple[str, float]]
"""Kinds and magnitudes of the windows that are open for a worker."""
Costs = Callable[[float, Sequence[Hashable]], tuple[Mapping[Hashable, float], Hashable]]
"""(time, modes in question) -> (seconds per unit of progress by mode at the true times, the mode that is best then)."""


def modes_over_time(run: Run) -> pd.DataFrame:
    """``start_s``, ``end_s``, ``mode`` (text) of every stretch with one mode; empty for a strategy without modes."""
    found = [(t, str(state[MODE])) for t, state in _states(run) if MODE in state]
    changes = [(t, mode) for number, (t, mode) in enumerate(found) if not number or mode != found[number - 1][1]]
    ends = [*(t for t, _ in changes[1:]), jct_s(run)]
    rows = [(t, end, mode) for (t, mode), end in zip(changes, ends, strict=False)]
    return pd.DataFrame(rows, columns=["start_s", "end_s", "mode"]).astype({"start_s": "float64", "end_s": "float64"})


def decided_s(run: Run) -> list[float]:
    """When decisions about the mode were made."""
    counts = [(t, int(state[DECISIONS])) for t, state in _states(run) if MODE in state and DECISIONS in state]
    return [t for (_, before), (t, now) in pairwise([(0.0, 0), *counts]) if now > before]


def _states(run: Run) -> Iterator[tuple[float, dict[str, Any]]]:
    for line in run.notable_lines:
        if line.state:
            yield line.t, msgspec.json.decode(line.state)


# ---- true times -----------------------------------------------------------------------------------------------------


@dataclass(frozen=True)
class TrueTimes:
    """Iteration times by worker and by what the plan does to it."""

    windows: Mapping[int, Sequence[tuple[float, float, str, float]]]
    """``start_s``, ``end_s``, ``kind``, ``magnitude`` by worker."""
    median_s: Mapping[tuple[int, Setting], float]
    usual_s: Mapping[int, float]
    """Median of all iterations: of a worker for which there is none within the same windows."""

    def setting(self, worker: int, t: float) -> Setting:
        """The windows that are open for a worker."""
        return frozenset((kind, level) for start, end, kind, level in self.windows.get(worker, ()) if start <= t < end)

    def at(self, workers: Sequence[int], t: float) -> tuple[float, ...]:
        """Seconds of an iteration of each worker at the time ``t``; NaN for one that never finished any."""
        return tuple(
            self.median_s.get((worker, self.setting(worker, t)), self.usual_s.get(worker, nan)) for worker in workers
        )

    @property
    def edges_s(self) -> list[float]:
        """When any window opens or closes."""
        return sorted({edge for rows in self.windows.values() for start, end, *_ in rows for edge in (start, end)})


def true_times(run: Run) -> TrueTimes:
    """From the plan and the iterations of a run."""
    windows: dict[int, list[tuple[float, float, str, float]]] = {}
    for one in run.plan.itertuples():
        for worker in sorted(workers_of(run, str(one.target))):
            windows.setdefault(worker, []).append(
                (float(one.start_s), float(one.end_s), str(one.kind), float(one.magnitude))
            )
    rows = work.computed(run.tables.iterations)
    rows = rows[rows["samples"] == rows["assigned_samples"]]
    books, seconds = TrueTimes(windows, {}, {}), dict[tuple[int, Setting], list[float]]()
    for worker, begun, iter_s in zip(rows["worker"], rows["issued_s"], rows["iter_s"], strict=True):
        setting = books.setting(int(worker), begun)
        if setting == books.setting(int(worker), max(begun, begun + iter_s - ROUNDING_S)):
            seconds.setdefault((int(worker), setting), []).append(float(iter_s))
    medians = {key: float(np.median(each)) for key, each in seconds.items()}
    usual = rows.groupby("worker")["iter_s"].median()
    return TrueTimes(windows, medians, {int(str(worker)): float(value) for worker, value in usual.items()})


# ---- regret ---------------------------------------------------------------------------------------------------------


class Stretch(NamedTuple):
    """A time with one mode in force, the same windows, and no decision within."""

    start_s: float
    end_s: float
    mode: Hashable
    chosen: Hashable | None
    """What was chosen where it begins; None: no decision."""


def stretches(
    modes: Sequence[tuple[float, Hashable]],
    decisions: Sequence[tuple[float, Hashable]],
    edges_s: Sequence[float],
    end_s: float,
) -> list[Stretch]:
    """Cut the time until ``end_s`` at changes of the mode (time, new mode), at decisions (likewise) and at edges."""
    made = dict(decisions)
    cuts = sorted({t for t in (*(t for t, _ in modes), *made, *edges_s) if modes[0][0] <= t < end_s} | {end_s})
    found, place = list[Stretch](), 0
    for start, end in pairwise(cuts):
        while place + 1 < len(modes) and modes[place + 1][0] <= start:
            place += 1
        found.append(Stretch(start, end, modes[place][1], made.get(start)))
    return found


def regret(pieces: Sequence[Stretch], costs: Costs) -> pd.DataFrame:
    """What every stretch lost against the mode that the true times ask for, in a frame.

    ``start_s``, ``end_s``; ``mode`` in force, ``best`` by the true times, ``chosen`` by a decision at the start (text,
    empty: none); ``mode_cost_s``, ``best_cost_s``, ``chosen_cost_s``, their seconds per unit of progress at the true
    times; ``lost_s`` = (end_s - start_s) (1 - best_cost_s / mode_cost_s): how much sooner the best mode had made the
    same progress. All by the strategy's own prices: whether those are right, only jobs in fixed modes can say.
    """
    rows = list[dict[str, Any]]()
    for one in pieces:
        by_mode, best = costs(one.start_s, [mode for mode in (one.mode, one.chosen) if mode is not None])
        row = {"start_s": one.start_s, "end_s": one.end_s, "mode": str(one.mode), "best": str(best)}
        row["chosen"] = "" if one.chosen is None else str(one.chosen)
        row |= {"mode_cost_s": by_mode[one.mode], "best_cost_s": by_mode[best]}
        row["chosen_cost_s"] = nan if one.chosen is None else by_mode[one.chosen]
        row["lost_s"] = (one.end_s - one.start_s) * (1.0 - by_mode[best] / by_mode[one.mode])
        rows.append(row)
    return pd.DataFrame(rows)
