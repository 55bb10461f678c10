"""Agreement of virtual runs with live runs of the same jobs: the records of an experiment in, tidy frames out.

Two runs form a pair if only their runtime differs. The error of a case (strategy and straggler) is the median over its
seeds of the errors of its pairs, with an interval; :mod:`analysis.measures.agreement` judges it.
"""

from __future__ import annotations

import struct
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import inf, nan
from typing import Any

import pandas as pd

from analysis.experiments.spec import Cell
from analysis.fitting.pacing import is_paced
from analysis.measures.agreement import CASE, SIDE, SIDES, TOLERANCE_FRAC, cases, order
from analysis.measures.memory_speed import Halves, halves, windows
from analysis.measures.metrics import summarise
from analysis.measures.stats import run_table
from analysis.records.load import RecordError, Run

TIMES = {"jct_s": "JCT", "tta_s": "TTA"}
"""The times that verdicts are about, and that strategies are ranked by."""
MEASURES = (
    *(*TIMES, "tta_interp_s", "bpt_median_s", "bpt_p90_s", "cpu_s", "updates"),
    *("staleness_mean", "staleness_max", "dropped_frac"),
)

Jobs = Mapping[tuple[str, str, int], Mapping[str, Run]]
"""Runs by straggler, strategy and seed, and then by side."""


@dataclass(frozen=True, eq=False)
class Fidelity:
    """All frames have a row per line of their table.

    ``measures``: :func:`analysis.measures.agreement.cases` of all ``MEASURES``.

    ``distances``: the total-variation distance of the distributions of staleness by straggler and strategy.

    ``rankings``: ``straggler``, ``measure`` and the fields of :class:`analysis.measures.agreement.Order`.

    ``losses``: ``straggler``, ``seed``, ``losses`` (of BSP's iterations in both records), ``different``, ``missing``
    (in only one of the two), ``first`` difference as text, ``equal``.

    ``runs``: a row per record (:func:`analysis.measures.stats.run_table`) with ``side`` and ``straggler``, and for its
    evaluations ``before_target`` (those before the one that reached it) and ``behind`` (those whose result came after
    the next was requested).

    ``memory``: how processor time follows the speed of this machine's memory; None without readings of it.
    """

    measures: pd.DataFrame
    distances: Mapping[tuple[str, str], float]
    rankings: pd.DataFrame
    losses: pd.DataFrame
    runs: pd.DataFrame
    tolerance_frac: float
    memory: Halves | None = None


def fidelity(records: Sequence[tuple[Cell, Run]], tolerance_frac: float = TOLERANCE_FRAC) -> Fidelity:
    """Compare the records of an experiment with the axes ``CASE`` and ``SIDE``.

    Raises :class:`RecordError` if a live or a virtual record has no partner, or one with another plan.
    """
    jobs: dict[tuple[str, str, int], dict[str, Run]] = {}
    for cell, run in records:
        straggler, strategy, side = (cell.levels[axis] for axis in (*CASE, SIDE))
        jobs.setdefault((straggler, strategy, cell.seed), {})[side] = run
    for (straggler, strategy, seed), sides in jobs.items():
        for side in SIDES[:2]:
            if side not in sides:
                raise RecordError(f"no {side} record of {strategy} under {straggler}, seed {seed}: nothing to compare")
        # delays that are given in iterations, and so the plan, follow the device
        if len({sides[side].meta.get("plan_sha256") for side in SIDES[:3] if side in sides}) > 1:
            raise RecordError(f"{sides['virtual'].path}: another straggler plan than live, so the two are no pair")
    runs = _runs(records)
    distances = {
        case: total_variation(*(_pool(mine.loc[mine[SIDE] == side, "staleness"]) for side in SIDES[:2]))
        for case, mine in runs.groupby(CASE, sort=False)
    }
    measures = pd.concat([cases(runs, measure, tolerance_frac) for measure in MEASURES], ignore_index=True)
    memory = halves(windows((sides["live"], sides["virtual"]) for sides in jobs.values()))
    return Fidelity(measures, distances, _rankings(runs, tolerance_frac), _losses(jobs), runs, tolerance_frac, memory)


def processor_speed(live: Run, virtual: Run) -> float:
    """How fast this machine's processors were live, of their speed in the cost model: by the time that iterations take.

    Raises :class:`RecordError` if one of the two has no processor times.
    """
    for run in (live, virtual):
        if not run.tables.iterations["cpu_s"].mean() > 0:
            raise RecordError(f"{run.path}: has no processor time of iterations, so it cannot be paced")
    return float(virtual.tables.iterations["cpu_s"].mean() / live.tables.iterations["cpu_s"].mean())


# ---- measures -------------------------------------------------------------------------------------------------------


def _runs(records: Sequence[tuple[Cell, Run]]) -> pd.DataFrame:
    summaries = [summarise(run) for _, run in records]
    frame = run_table([run.meta for _, run in records], summaries, [run.path for _, run in records])
    own = [_measures_of(run, summary) for (_, run), summary in zip(records, summaries, strict=True)]
    levels = [{**cell.levels, "seed": cell.seed} for cell, _ in records]
    columns = pd.DataFrame([each | level for each, level in zip(own, levels, strict=True)], index=frame.index)
    return frame.assign(**{str(name): column for name, column in columns.items()})


def _measures_of(run: Run, summary: Mapping[str, Any]) -> dict[str, Any]:
    asked_s, reached_s = run.tables.evaluations["asked_s"], summary["tta_s"]
    interpolated_s = inf if summary["tta_missed"] else summary["tta_interp_s"]
    return {
        "tta_interp_s": nan if interpolated_s is None else interpolated_s,
        "bpt_p90_s": nan if summary["bpt_s"]["p90"] is None else summary["bpt_s"]["p90"],
        "cpu_s": float(run.tables.iterations["cpu_s"].mean()),
        **{name: summary[name] for name in ("iterations", "overruns", "staleness", "evaluations")},
        "before_target": nan if reached_s is None else int((asked_s < reached_s).sum()),
        "paced_devices": is_paced(run.meta["job"]),
        "behind": int((run.tables.evaluations["t"] > asked_s.shift(-1)).sum()),
    }


def total_variation(live: Mapping[str, int], virtual: Mapping[str, int]) -> float:
    """Half the sum of the differences of the shares: 0 for equal distributions, 1 for disjoint ones."""
    ours, theirs = sum(live.values()), sum(virtual.values())
    if not ours or not theirs:
        return 0.0 if ours == theirs else nan
    return sum(abs(live.get(key, 0) / ours - virtual.get(key, 0) / theirs) for key in {*live, *virtual}) / 2


def _pool(histograms: Iterable[Mapping[str, int]]) -> Counter[str]:
    return sum(map(Counter, histograms), Counter[str]())


def _rankings(runs: pd.DataFrame, tolerance_frac: float) -> pd.DataFrame:
    rows = []
    for measure in TIMES:
        for straggler, group in runs.groupby("straggler", sort=False):
            live, virtual = (
                group[group[SIDE] == side].pivot(index="seed", columns="strategy", values=measure) for side in SIDES[:2]
            )
            if not live.isna().all(axis=None) and not virtual.isna().all(axis=None):
                found = order(live, virtual, tolerance_frac)
                rows.append({"straggler": straggler, "measure": measure} | found._asdict())
    columns = ["straggler", "measure", "live", "virtual", "pairs", "kept", "swapped", "undecided", "verdict"]
    return pd.DataFrame(rows, columns=columns)


def _losses(jobs: Jobs) -> pd.DataFrame:
    """BSP computes every gradient on parameters that timing cannot change, so its losses must be bit-identical."""
    rows = [
        {"straggler": straggler, "seed": seed} | compare_losses(sides["live"], sides["virtual"])
        for (straggler, strategy, seed), sides in jobs.items()
        if strategy == "bsp"
    ]
    return pd.DataFrame(rows, columns=["straggler", "seed", "losses", "different", "missing", "first", "equal"])


def compare_losses(live: Run, virtual: Run) -> dict[str, Any]:
    """Compare the bits of the loss of every iteration of every worker in both records."""
    ours, theirs = _bits(live), _bits(virtual)
    both = [key for key in sorted(ours) if key in theirs]
    different = [key for key in both if ours[key] != theirs[key]]
    alone = sorted(ours.keys() ^ theirs.keys())
    first = min([*different, *alone], default=None)
    where = "" if first is None else f"iteration {first[0]} of worker {first[1]}"
    equal = bool(both) and first is None
    return {"losses": len(both), "different": len(different), "missing": len(alone), "first": where, "equal": equal}


def _bits(run: Run) -> dict[tuple[int, int], list[bytes]]:
    """Losses by (iteration, worker); several if a crash made it repeat. Iterations without a loss are left out."""
    found: dict[tuple[int, int], list[bytes]] = {}
    rows = run.tables.iterations
    rows = rows[(rows["samples"] > 0) & rows["loss"].notna()]
    for iteration, worker, loss in zip(rows["iteration"], rows["worker"], rows["loss"], strict=True):
        found.setdefault((iteration, worker), []).append(struct.pack("<d", loss))
    return found
