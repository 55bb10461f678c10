"""Agreement of virtual runs with live runs of the same jobs: records in, tidy frames of their differences out.

Two runs form a pair if only their runtime differs. The error of a case (strategy and straggler) is the median over its
seeds of the errors of its pairs, with an interval; :mod:`analysis.measures.agreement` judges it. Three more kinds of
runs put errors into perspective: a second live run of the same seed, which differs from the first by noise alone, a
virtual run on devices that are 1 % slower, whose times change by as much as the job amplifies small errors, and one
whose processors are as fast as this machine's were in the live run of the same seed.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from math import inf, isinf, isnan, nan
from typing import Any

import msgspec
import pandas as pd

from analysis.measures.agreement import TOLERANCE_FRAC, agreement, order, relative
from analysis.measures.labels import STRATEGY_KEYS, strategy_labels
from analysis.measures.metrics import summarise
from analysis.measures.small_samples import median
from analysis.measures.stats import run_table
from analysis.records.load import RecordError, Run

RELATIVE = ("jct_s", "tta_s", "tta_interp_s", "bpt_median_s", "bpt_p90_s", "cpu_s", "updates")
"""Measures with relative errors; the others, which may be zero, have differences."""
ABSOLUTE = ("staleness_mean", "staleness_max", "dropped_frac")
NAMES = {"jct_s": "JCT", "tta_s": "TTA"}
"""The times that verdicts are about, and that strategies are ranked by."""
MEANINGS = {"jct_s": "job completion time", "tta_s": "time to accuracy"}
"""The meaning of these abbreviations, which a page gives where it first uses them."""
CASE_KEYS = STRATEGY_KEYS | {"straggler", "straggler_fields", "num_samples", "validation_samples"}
"""Settings of the job in which cases may differ (a strategy may hold samples out)."""
DEVICE_KEYS = frozenset({"device", "devices", "hosts"})
"""Settings in which a run on slower devices differs from the other virtual one."""

COLUMNS = {
    **{"straggler": "str", "strategy": "str", "seeds": "int64", "measure": "str", "live": "float64"},
    **{"virtual": "float64", "error": "float64", "error_kind": "str", "low": "float64", "high": "float64"},
    **{"verdict": "object", "worst_seed": "float64", "live_missed": "Int64", "virtual_missed": "Int64"},
    **{"again_pairs": "Int64", "again": "float64", "again_worst": "float64"},
    **{"slowed_pairs": "Int64", "slowed": "float64", "slowed_worst": "float64"},
    **{"paced_pairs": "Int64", "paced": "float64", "paced_low": "float64", "paced_high": "float64"},
    **{"paced_verdict": "object"},
}

Key = tuple[str, str, bytes, int]
"""Straggler, strategy, its fields, seed."""


@dataclass(frozen=True, eq=False)
class Fidelity:
    """All frames have a row per line of their table.

    ``measures``: ``straggler``, ``strategy``, ``seeds`` (their number), ``measure``, ``live``, ``virtual`` (medians
    over the seeds, for ``staleness_max`` the largest; infinite: a time that was not reached), ``error`` = the median
    over the seeds of virtual / live - 1 (``error_kind`` relative) with its 95 % interval ``low`` to ``high``, virtual -
    live (difference) or the total-variation distance of the distributions (distance), ``verdict``
    (:func:`analysis.measures.agreement.judge`; None if the error is not relative, or neither side reached it),
    ``worst_seed`` (the error of the seed where it is largest), ``live_missed``, ``virtual_missed`` (seeds with an
    infinite time). For relative errors also by how much second live runs differ from the first (``again_pairs`` seeds,
    ``again`` the median size, ``again_worst``) and virtual runs on devices that are 1 % slower from the others
    (``slowed_pairs``, ``slowed``, ``slowed_worst``), and the error of virtual runs at live's processor speed
    (``paced_pairs`` seeds, ``paced``, ``paced_low``, ``paced_high``, ``paced_verdict``).

    ``rankings``: ``straggler``, ``measure`` and the fields of :class:`analysis.measures.agreement.Order`.

    ``losses``: ``straggler``, ``seed``, ``losses`` (of BSP's iterations in both records), ``different``, ``missing``
    (in only one of the two), ``first`` difference as text, ``equal``.

    ``runs``: a row per record (:func:`analysis.measures.stats.run_table`) with ``side`` (live, virtual, again, slowed,
    paced) and ``straggler``, and for its evaluations ``before_target`` (those before the one that reached it) and
    ``behind`` (those whose result came after the next was requested).
    """

    measures: pd.DataFrame
    rankings: pd.DataFrame
    losses: pd.DataFrame
    runs: pd.DataFrame
    tolerance_frac: float = TOLERANCE_FRAC


def fidelity(
    live: Sequence[Run],
    virtual: Sequence[Run],
    tolerance_frac: float = TOLERANCE_FRAC,
    *,
    again: Sequence[Run] = (),
    slowed: Sequence[Run] = (),
    paced: Sequence[Run] = (),
) -> Fidelity:
    """Compare records that pair up (in any order); cases come in the order of the live ones.

    Args:
        live: records of the live runtime.
        virtual: records of the virtual one, of the same jobs.
        tolerance_frac: relative errors up to this count as agreement.
        again: second live runs of some of the jobs.
        slowed: virtual runs of some of them on slower devices.
        paced: virtual runs of some of them on processors as fast as live (:func:`processor_speed`).

    Raises:
        RecordError: a record has no partner, is incomplete, or is of another job than its partner.
    """
    pairs = pair_up(live, virtual)
    runs = _runs(
        {
            "live": live_of(pairs),
            "virtual": [pair[1] for pair in pairs],
            "again": repetitions(again, live, "live", frozenset()),
            "slowed": repetitions(slowed, virtual, "virtual", DEVICE_KEYS),
            "paced": repetitions(paced, virtual, "virtual", DEVICE_KEYS),
        }
    )
    cases = list(dict.fromkeys(zip(runs["straggler"], runs["strategy"], strict=True)))
    first = list(dict.fromkeys(straggler for straggler, _ in cases))
    cases.sort(key=lambda case: first.index(case[0]))
    rows = [row for case in cases for row in _measures(runs, *case, tolerance_frac)]
    measures = pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
    return Fidelity(measures, _rankings(runs, tolerance_frac), _losses(pairs), runs, tolerance_frac)


def processor_speed(live: Run, virtual: Run) -> float:
    """How fast this machine's processors were live, of their speed in the cost model: by the time that iterations take.

    Raises :class:`RecordError` if one of the two has no processor times.
    """
    for run in (live, virtual):
        if not run.tables.iterations["cpu_s"].mean() > 0:
            raise RecordError(f"{run.path}: has no processor time of iterations, so it cannot be paced")
    return float(virtual.tables.iterations["cpu_s"].mean() / live.tables.iterations["cpu_s"].mean())


# ---- pairs ----------------------------------------------------------------------------------------------------------


def pair_up(live: Sequence[Run], virtual: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Each live run with the virtual one of the same job. Raises :class:`RecordError`."""
    ours, theirs = _by_key(live, "live"), _by_key(virtual, "virtual")
    for here, there, missing in ((ours, theirs, "virtual"), (theirs, ours, "live")):
        alone = [here[key] for key in here if key not in there]
        if alone:
            raise RecordError(
                f"{alone[0].path}: no {missing} record of {_job_name(alone[0])} ({len(alone)} without a partner)"
            )
    if not ours:
        raise RecordError("no records to compare")
    pairs = [(run, theirs[key]) for key, run in ours.items()]
    models = list(dict.fromkeys(str(run.meta.get("calibration")) for run in theirs.values()))
    if len(models) > 1:
        raise RecordError(f"virtual records of several cost models ({', '.join(models)}): compare them one by one")
    for one, other in pairs:
        _check_same(one, other, frozenset())
        if one.meta.get("plan_sha256") != other.meta.get("plan_sha256"):
            raise RecordError(f"{other.path}: another straggler plan than {one.path}, so the two are no pair")
        _check_same(pairs[0][0], one, CASE_KEYS)
    return pairs


def live_of(pairs: Iterable[tuple[Run, Run]]) -> list[Run]:
    """The live run of each pair."""
    return [pair[0] for pair in pairs]


def repetitions(runs: Sequence[Run], first: Sequence[Run], runtime: str, may_differ: frozenset[str]) -> list[Run]:
    """``runs`` in order, each checked against the run that it repeats. Raises :class:`RecordError`."""
    firsts = _by_key(first, runtime)
    for key, run in _by_key(runs, runtime).items():
        if key not in firsts:
            raise RecordError(f"{run.path}: a second {runtime} record of {_job_name(run)}, of which there is no first")
        _check_same(firsts[key], run, may_differ)
        # delays that are given in iterations, and so the plan, follow the device
        if not may_differ and firsts[key].meta.get("plan_sha256") != run.meta.get("plan_sha256"):
            raise RecordError(f"{run.path}: another straggler plan than {firsts[key].path}, so it does not repeat it")
    return list(runs)


def _by_key(runs: Iterable[Run], runtime: str) -> dict[Key, Run]:
    found: dict[Key, Run] = {}
    for run in runs:
        if run.meta["runtime"] != runtime:
            raise RecordError(f"{run.path}: a {run.meta['runtime']} record where a {runtime} one is due")
        if run.status != "done":
            raise RecordError(f"{run.path}: {run.status}, so there is nothing to compare; repeat it or remove it")
        job = run.job
        fields = msgspec.json.encode(job.get("strategy_fields"), order="deterministic")
        key = (str(job.get("straggler")), str(job["strategy"]), fields, int(run.meta["seed"]))
        if key in found:
            raise RecordError(f"{run.path}: a second {runtime} record of {_job_name(run)}, after {found[key].path}")
        found[key] = run
    return found


def _check_same(one: Run, other: Run, may_differ: frozenset[str]) -> None:
    ours, theirs = one.job, other.job
    keys = [key for key in ours | theirs if key not in may_differ and ours.get(key) != theirs.get(key)]
    if keys:
        differences = ", ".join(f"job.{key} {theirs.get(key)!r}, not {ours.get(key)!r}" for key in keys[:3])
        raise RecordError(f"{other.path}: not the job of {one.path} ({differences})")


def _job_name(run: Run) -> str:
    return f"{run.job['strategy']} under {run.job.get('straggler')}, seed {run.meta['seed']}"


# ---- measures -------------------------------------------------------------------------------------------------------


def _runs(by_side: dict[str, list[Run]]) -> pd.DataFrame:
    runs = list(chain.from_iterable(by_side.values()))
    metas, summaries = [run.meta for run in runs], [summarise(run) for run in runs]
    frame = run_table(metas, summaries, [run.path for run in runs])
    missed = [summary["tta_missed"] for summary in summaries]
    interpolated = [inf if gone else s["tta_interp_s"] for gone, s in zip(missed, summaries, strict=True)]
    return frame.assign(
        side=[side for side, some in by_side.items() for _ in some],
        straggler=[str(run.job.get("straggler")) for run in runs],
        strategy=strategy_labels(metas),
        tta_interp_s=pd.Series(interpolated, dtype="float64"),
        bpt_p90_s=pd.Series([summary["bpt_s"]["p90"] for summary in summaries], dtype="float64"),
        cpu_s=[float(run.tables.iterations["cpu_s"].mean()) for run in runs],
        iterations=[summary["iterations"] for summary in summaries],
        overruns=[summary["overruns"] for summary in summaries],
        staleness=[summary["staleness"] for summary in summaries],
        evaluations=[summary["evaluations"] for summary in summaries],
        before_target=[
            int((run.tables.evaluations["asked_s"] < s["tta_s"]).sum()) if s["tta_s"] is not None else None
            for run, s in zip(runs, summaries, strict=True)
        ],
        behind=[_behind(run.tables.evaluations) for run in runs],
    )


def _behind(evaluations: pd.DataFrame) -> int:
    """Evaluations whose result came after the next was requested: the evaluator does not keep up."""
    return int((evaluations["t"] > evaluations["asked_s"].shift(-1)).sum())


def _measures(runs: pd.DataFrame, straggler: str, strategy: str, tolerance_frac: float) -> Iterator[dict[str, Any]]:
    mine = runs[(runs["straggler"] == straggler) & (runs["strategy"] == strategy)]
    sides = {
        side: mine[mine["side"] == side].set_index("seed").sort_index()
        for side in ("live", "virtual", "again", "slowed", "paced")
    }
    live, virtual = sides["live"], sides["virtual"]
    head = {"straggler": straggler, "strategy": strategy, "seeds": len(live)}
    for measure in (*RELATIVE, *ABSOLUTE):
        row = head | {"measure": measure} | _compare(measure, live[measure], virtual[measure], tolerance_frac)
        if measure in RELATIVE:
            row |= _repeat_columns("again", live[measure], sides["again"][measure], sized=True)
            row |= _repeat_columns("slowed", virtual[measure], sides["slowed"][measure], sized=False)
            row |= _paced_columns(live[measure], sides["paced"][measure], tolerance_frac)
        yield row
    each = [total_variation(*pair) for pair in zip(live["staleness"], virtual["staleness"], strict=True)]
    distance = total_variation(_pool(live["staleness"]), _pool(virtual["staleness"]))
    yield head | {"measure": "staleness", "error": distance, "error_kind": "distance", "worst_seed": _worst(each)}


def _compare(measure: str, live: pd.Series, virtual: pd.Series, tolerance_frac: float) -> dict[str, Any]:
    """One measure of one case; the series are by seed."""
    middle = max if measure == "staleness_max" else median
    values = {"live": float(middle(live)), "virtual": float(middle(virtual))}
    missed = {"live_missed": int(live.map(isinf).sum()), "virtual_missed": int(virtual.map(isinf).sum())}
    if measure not in RELATIVE:
        each = (difference(*pair) for pair in zip(live, virtual, strict=True))
        return values | missed | {"error": difference(**values), "error_kind": "difference", "worst_seed": _worst(each)}
    found = agreement((relative(*pair) for pair in zip(live, virtual, strict=True)), tolerance_frac)
    return values | missed | {
        "error": found.error,
        "error_kind": "relative",
        "low": found.low,
        "high": found.high,
        "verdict": found.verdict,
        "worst_seed": found.worst,
    }  # fmt: skip


def _repeat_columns(name: str, first: pd.Series, second: pd.Series, *, sized: bool) -> dict[str, Any]:
    """Return how far the second runs of some seeds differ from the first; ``sized``: without the sign."""
    both = [relative(first[seed], value) for seed, value in second.items()]
    known = [abs(error) if sized else error for error in both if not isnan(error)]
    return {f"{name}_pairs": len(known), name: median(known), f"{name}_worst": _worst(known)}


def _paced_columns(live: pd.Series, paced: pd.Series, tolerance_frac: float) -> dict[str, Any]:
    """The error at live's processor speed, of the seeds that have such a run."""
    found = agreement((relative(live[seed], value) for seed, value in paced.items()), tolerance_frac)
    limits = {"paced_low": found.low, "paced_high": found.high}
    return {"paced_pairs": len(paced), "paced": found.error, **limits, "paced_verdict": found.verdict}


def _worst(errors: Iterable[float]) -> float:
    return max((error for error in errors if not isnan(error)), key=abs, default=nan)


def difference(live: float, virtual: float) -> float:
    """The virtual value minus the live value."""
    return virtual - live


def total_variation(live: dict[str, int], virtual: dict[str, int]) -> float:
    """Half the sum of the differences of the shares: 0 for equal distributions, 1 for disjoint ones."""
    ours, theirs = sum(live.values()), sum(virtual.values())
    if not ours or not theirs:
        return 0.0 if ours == theirs else nan
    return sum(abs(live.get(key, 0) / ours - virtual.get(key, 0) / theirs) for key in live | virtual) / 2


def _pool(histograms: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            counts[value] = counts.get(value, 0) + count
    return counts


# ---- ranking --------------------------------------------------------------------------------------------------------


def _rankings(runs: pd.DataFrame, tolerance_frac: float) -> pd.DataFrame:
    rows = []
    for measure in NAMES:
        for straggler, group in runs.groupby("straggler", sort=False):
            live, virtual = (
                group[group["side"] == side].pivot(index="seed", columns="strategy", values=measure)
                for side in ("live", "virtual")
            )
            if not live.isna().all(axis=None) and not virtual.isna().all(axis=None):
                rows.append(
                    {"straggler": straggler, "measure": measure} | order(live, virtual, tolerance_frac)._asdict()
                )
    columns = ["straggler", "measure", "live", "virtual", "pairs", "kept", "swapped", "undecided", "verdict"]
    return pd.DataFrame(rows, columns=columns)


# ---- losses ---------------------------------------------------------------------------------------------------------


def _losses(pairs: Sequence[tuple[Run, Run]]) -> pd.DataFrame:
    """BSP computes every gradient on parameters that timing cannot change, so its losses must be bit-identical."""
    rows = [
        {"straggler": str(live.job.get("straggler")), "seed": live.meta["seed"]} | compare_losses(live, virtual)
        for live, virtual in pairs
        if live.job["strategy"] == "bsp"
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
