"""How well virtual runs agree with live runs of the same jobs: records in, tidy frames of their differences out.

Two runs form a pair when only their runtime differs. A value of a case (strategy and straggler) is the median over its
seeds; the error is that of the medians, so that what one seed has too much another may have too little. The column
``worst_seed`` tells that.
"""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations, pairwise
from math import copysign, inf, isinf, isnan, nan
from typing import Any

import msgspec
import pandas as pd

from analysis.labels import STRATEGY_KEYS, strategy_labels
from analysis.load import RecordError, Run
from analysis.metrics import summarise
from analysis.stats import median, run_table

TOLERANCE_FRAC = 0.05
"""Relative errors up to this count as agreement, and medians that are no further apart as equal."""
ROUNDING = 1e-9
RELATIVE = ("jct_s", "tta_s", "tta_interp_s", "bpt_median_s", "bpt_p90_s", "updates")
"""Measures whose errors are relative; those of the others, which may be zero, are differences."""
ABSOLUTE = ("staleness_mean", "staleness_max", "dropped_frac")
NAMES = {"jct_s": "JCT", "tta_s": "TTA"}
"""The times that a verdict is about, and that strategies are ranked by."""
DASH = "\N{EN DASH}"
CASE_KEYS = STRATEGY_KEYS | {"straggler", "straggler_fields"}
"""Settings of the job in which cases may differ."""

COLUMNS = {
    **{"straggler": "str", "strategy": "str", "seeds": "int64", "measure": "str", "live": "float64"},
    **{"virtual": "float64", "error": "float64", "error_kind": "str", "within": "boolean", "worst_seed": "float64"},
    **{"live_missed": "Int64", "virtual_missed": "Int64"},
}

Key = tuple[str, str, bytes, int]
"""Straggler, strategy, its fields, seed."""


@dataclass(frozen=True, eq=False)
class Fidelity:
    """All frames have a row for each line of their table.

    ``measures``: ``straggler``, ``strategy``, ``seeds`` (their number), ``measure``, ``live``, ``virtual`` (medians
    over the seeds, of ``staleness_max`` the largest; infinite: a time that was not reached), ``error`` = virtual / live
    - 1 (``error_kind`` relative), virtual - live (difference) or the total-variation distance of the distributions
    (distance), ``within`` (the tolerance; null where the error is not relative, or neither side reached it),
    ``worst_seed`` (the error of the seed where it is largest), ``live_missed``, ``virtual_missed`` (seeds with an
    infinite time).

    ``rankings``: ``straggler``, ``measure``, ``live_order``, ``virtual_order``, ``pairs`` (of strategies whose live
    medians differ by more than that), ``swapped`` (those that virtual runs do not order so), ``same`` (null: no pairs).

    ``losses``: ``straggler``, ``seed``, ``losses`` (of BSP's iterations in both records), ``different``, ``missing``
    (in one of the two only), ``first`` difference in words, ``equal``.

    ``runs``: a row per record (:func:`analysis.stats.run_table`) with ``side`` and ``straggler``.
    """

    measures: pd.DataFrame
    rankings: pd.DataFrame
    losses: pd.DataFrame
    runs: pd.DataFrame
    tolerance_frac: float = TOLERANCE_FRAC


def fidelity(live: Sequence[Run], virtual: Sequence[Run], tolerance_frac: float = TOLERANCE_FRAC) -> Fidelity:
    """Compare records that pair up (in any order); cases come in the order of the live ones.

    Raises:
        RecordError: a record has no partner, is not complete, or is of another job than its partner.
    """
    pairs = pair_up(live, virtual)
    runs = _runs(pairs)
    cases = list(dict.fromkeys(zip(runs["straggler"], runs["strategy"], strict=True)))
    order = list(dict.fromkeys(straggler for straggler, _ in cases))
    cases.sort(key=lambda case: order.index(case[0]))
    rows = [row for case in cases for row in _measures(runs, *case, tolerance_frac)]
    measures = pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)
    return Fidelity(measures, _rankings(measures, tolerance_frac), _losses(pairs), runs, tolerance_frac)


# ---- pairs ----------------------------------------------------------------------------------------------------------


def pair_up(live: Sequence[Run], virtual: Sequence[Run]) -> list[tuple[Run, Run]]:
    """Each live run with the virtual one of the same job. Raises :class:`RecordError`."""
    ours, theirs = _by_key(live, "live"), _by_key(virtual, "virtual")
    for here, there, missing in ((ours, theirs, "virtual"), (theirs, ours, "live")):
        alone = [here[key] for key in here if key not in there]
        if alone:
            raise RecordError(
                f"{alone[0].path}: no {missing} record of {_in_words(alone[0])} ({len(alone)} without a partner)"
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
            raise RecordError(f"{run.path}: a second {runtime} record of {_in_words(run)}, beside {found[key].path}")
        found[key] = run
    return found


def _check_same(one: Run, other: Run, may_differ: frozenset[str]) -> None:
    ours, theirs = one.job, other.job
    keys = [key for key in ours | theirs if key not in may_differ and ours.get(key) != theirs.get(key)]
    if keys:
        told = ", ".join(f"job.{key} {theirs.get(key)!r}, not {ours.get(key)!r}" for key in keys[:3])
        raise RecordError(f"{other.path}: not the job of {one.path} ({told})")


def _in_words(run: Run) -> str:
    return f"{run.job['strategy']} under {run.job.get('straggler')}, seed {run.meta['seed']}"


# ---- values ---------------------------------------------------------------------------------------------------------


def _runs(pairs: Sequence[tuple[Run, Run]]) -> pd.DataFrame:
    runs = [run for pair in pairs for run in pair]
    metas, summaries = [run.meta for run in runs], [summarise(run) for run in runs]
    frame = run_table(metas, summaries, [run.path for run in runs])
    missed = [summary["tta_missed"] for summary in summaries]
    interpolated = [inf if gone else s["tta_interp_s"] for gone, s in zip(missed, summaries, strict=True)]
    return frame.assign(
        side=["live", "virtual"] * len(pairs),
        straggler=[str(run.job.get("straggler")) for run in runs],
        strategy=strategy_labels(metas),
        tta_interp_s=pd.Series(interpolated, dtype="float64"),
        bpt_p90_s=pd.Series([summary["bpt_s"]["p90"] for summary in summaries], dtype="float64"),
        iterations=[summary["iterations"] for summary in summaries],
        overruns=[summary["overruns"] for summary in summaries],
        staleness=[summary["staleness"] for summary in summaries],
    )


def _measures(runs: pd.DataFrame, straggler: str, strategy: str, tolerance_frac: float) -> Iterator[dict[str, Any]]:
    mine = runs[(runs["straggler"] == straggler) & (runs["strategy"] == strategy)]
    live, virtual = (mine[mine["side"] == side].set_index("seed").sort_index() for side in ("live", "virtual"))
    head = {"straggler": straggler, "strategy": strategy, "seeds": len(live)}
    for measure in (*RELATIVE, *ABSOLUTE):
        yield head | {"measure": measure} | _compare(measure, live[measure], virtual[measure], tolerance_frac)
    each = [total_variation(*pair) for pair in zip(live["staleness"], virtual["staleness"], strict=True)]
    distance = total_variation(_pooled(live["staleness"]), _pooled(virtual["staleness"]))
    yield head | {"measure": "staleness", "error": distance, "error_kind": "distance", "worst_seed": _worst(each)}


def _compare(measure: str, live: pd.Series, virtual: pd.Series, tolerance_frac: float) -> dict[str, Any]:
    """One measure of one case; the series are by seed."""
    kind, differ = ("relative", relative) if measure in RELATIVE else ("difference", difference)
    middle = max if measure == "staleness_max" else median
    values = {"live": float(middle(live)), "virtual": float(middle(virtual))}
    error = differ(**values)
    return values | {
        "error": error,
        "error_kind": kind,
        "within": within(error, tolerance_frac) if kind == "relative" and not isnan(error) else None,
        "worst_seed": _worst(differ(*pair) for pair in zip(live, virtual, strict=True)),
        "live_missed": int(live.map(isinf).sum()),
        "virtual_missed": int(virtual.map(isinf).sum()),
    }


def _worst(errors: Iterable[float]) -> float:
    return max((error for error in errors if not isnan(error)), key=abs, default=nan)


def relative(live: float, virtual: float) -> float:
    """The relative error; one infinite time beside a finite one is as wrong as can be, of two there is no error."""
    if isinf(live) or isnan(virtual):
        return nan if isinf(virtual) or isnan(virtual) else -1.0
    if live == 0:
        return copysign(inf, virtual) if virtual else 0.0
    return virtual / live - 1.0


def difference(live: float, virtual: float) -> float:
    """What virtual runs have more than live ones."""
    return virtual - live


def within(error: float, tolerance_frac: float = TOLERANCE_FRAC) -> bool:
    """Whether a relative error is small."""
    return abs(error) <= tolerance_frac + ROUNDING


def total_variation(live: dict[str, int], virtual: dict[str, int]) -> float:
    """Half the sum of the differences of the shares: 0 for equal distributions, 1 for disjoint ones."""
    ours, theirs = sum(live.values()), sum(virtual.values())
    if not ours or not theirs:
        return 0.0 if ours == theirs else nan
    return sum(abs(live.get(key, 0) / ours - virtual.get(key, 0) / theirs) for key in live | virtual) / 2


def _pooled(histograms: Iterable[dict[str, int]]) -> dict[str, int]:
    counts: dict[str, int] = {}
    for histogram in histograms:
        for value, count in histogram.items():
            counts[value] = counts.get(value, 0) + count
    return counts


# ---- order ----------------------------------------------------------------------------------------------------------


def _rankings(measures: pd.DataFrame, tolerance_frac: float) -> pd.DataFrame:
    rows = []
    for measure in NAMES:
        chosen = measures[(measures["measure"] == measure) & measures["live"].notna() & measures["virtual"].notna()]
        for straggler, group in chosen.groupby("straggler", sort=False):
            live, virtual = (dict(zip(group["strategy"], group[side], strict=True)) for side in ("live", "virtual"))
            rows.append({"straggler": straggler, "measure": measure} | ranking(live, virtual, tolerance_frac))
    columns = ["straggler", "measure", "live_order", "virtual_order", "pairs", "swapped", "same"]
    return pd.DataFrame(rows, columns=columns).astype({"same": "boolean"})


def ranking(
    live: dict[str, float], virtual: dict[str, float], tolerance_frac: float = TOLERANCE_FRAC
) -> dict[str, Any]:
    """Both orders of the strategies, fastest first, and the pairs that live runs tell apart and virtual ones swap.

    A pair whose virtual values are equal counts as swapped: the live order is then not to be seen in them.
    """
    apart = []
    for pair in combinations(live, 2):
        fast, slow = sorted(pair, key=lambda name: live[name])
        if live[slow] > live[fast] * (1 + tolerance_frac + ROUNDING):
            apart.append((fast, slow))
    swapped = [f"{fast} / {slow}" for fast, slow in apart if not virtual[fast] < virtual[slow]]
    orders = {f"{name}_order": _order(values) for name, values in (("live", live), ("virtual", virtual))}
    same = not swapped if apart else None
    return orders | {"pairs": len(apart), "swapped": ", ".join(swapped), "same": same}


def _order(values: dict[str, float]) -> str:
    """``asp < ssp = bsp`` of their values; who never got there is last and says so."""
    names = sorted(values, key=lambda name: values[name])
    steps = ["", *(" = " if values[a] == values[b] else " < " for a, b in pairwise(names))]
    return "".join(step + name + " (never)" * isinf(values[name]) for step, name in zip(steps, names, strict=True))


# ---- losses ---------------------------------------------------------------------------------------------------------


def _losses(pairs: Sequence[tuple[Run, Run]]) -> pd.DataFrame:
    """BSP computes every gradient on parameters that no timing can change, so its losses must be the same bits."""
    rows = [
        {"straggler": str(live.job.get("straggler")), "seed": live.meta["seed"]} | compare_losses(live, virtual)
        for live, virtual in pairs
        if live.job["strategy"] == "bsp"
    ]
    return pd.DataFrame(rows, columns=["straggler", "seed", "losses", "different", "missing", "first", "equal"])


def compare_losses(live: Run, virtual: Run) -> dict[str, Any]:
    """Bits of the loss of every iteration of every worker, in both records."""
    ours, theirs = _bits(live), _bits(virtual)
    both = [key for key in sorted(ours) if key in theirs]
    different = [key for key in both if ours[key] != theirs[key]]
    alone = sorted(ours.keys() ^ theirs.keys())
    first = min([*different, *alone], default=None)
    told = "" if first is None else f"iteration {first[0]} of worker {first[1]}"
    equal = bool(both) and first is None
    return {"losses": len(both), "different": len(different), "missing": len(alone), "first": told, "equal": equal}


def _bits(run: Run) -> dict[tuple[int, int], list[bytes]]:
    """By (iteration, worker); several where a crash had one repeated. What has no loss proves nothing."""
    found: dict[tuple[int, int], list[bytes]] = {}
    for arrival in run.history.arrivals:
        if arrival.grad.samples and arrival.loss is not None:
            key = (arrival.grad.iteration, arrival.grad.worker)
            found.setdefault(key, []).append(struct.pack("<d", arrival.loss))
    return found


# ---- in words -------------------------------------------------------------------------------------------------------


def verdict(found: Fidelity) -> list[str]:
    """What it comes to, in a few lines that name every miss."""
    lines = []
    for measure, name in NAMES.items():
        rows = found.measures[(found.measures["measure"] == measure) & found.measures["within"].notna()]
        missed = [
            f"{row['strategy']} under {row['straggler']} ({error_text(row)})" for row in _where_not(rows, "within")
        ]
        lines.append(_count(f"{name} within {100 * found.tolerance_frac:g} %:", len(rows), "cases", missed))
        rows = found.rankings[(found.rankings["measure"] == measure) & found.rankings["same"].notna()]
        missed = [f"{row['swapped']} under {row['straggler']}" for row in _where_not(rows, "same")]
        lines.append(_count(f"order of the strategies by {name} kept:", len(rows), "patterns of stragglers", missed))
    missed = [f"seed {row['seed']} under {row['straggler']}" for row in _where_not(found.losses, "equal")]
    lines.append(_count("losses of BSP equal to the bit:", len(found.losses), "pairs", missed))
    return lines


def _where_not(rows: pd.DataFrame, column: str) -> list[dict[Any, Any]]:
    return [dict(row) for _, row in rows[~rows[column].astype("bool")].iterrows()]


def _count(what: str, of: int, units: str, missed: Sequence[str]) -> str:
    told = f"; not {', '.join(missed)}" if missed else ""
    return f"{what} {of - len(missed)} of {of} {units}{told}" if of else f"{what} nothing to compare"


def error_text(row: Any) -> str:
    """The relative error of a row of ``measures``; where only one side got there, it has no figure."""
    return "one side only" if isinf(row["live"]) != isinf(row["virtual"]) else percent(row["error"])


def percent(value: float) -> str:
    """With its sign."""
    return DASH if isnan(value) else f"{100 * value:+.1f} %"
