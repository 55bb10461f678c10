"""What came of every disturbance: asked for, read back, and felt by the work. A run in, a tidy frame out.

Iterations that straddle the edge of a window, or begin within ``EDGE_S`` after one, belong to neither side, and neither
do those under several windows at once. What windows do to work is compared with the same worker's undisturbed
iterations of the same run.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from math import nan
from typing import Any, NamedTuple

import numpy as np
import pandas as pd

from analysis.disturbances import achieved
from analysis.load import Run
from analysis.schema import DURATIONS

EDGE_S = 0.1
MATCH_S = 1e-3
"""A note belongs to the window that begins when the note says that it should have been in effect."""
BUSY_FRAC = 0.9
"""A sample of processor use counts if its target was at work for so much of it: who waits needs no processor."""
PAYLOAD_FRAC = 1448 / 1514
"""Of a full Ethernet frame: 1500 bytes less 52 of headers, in a frame of 14 more."""
FLOAT_BYTES = 4
SLEPT = ("delay", "slowdown")
"""Kinds that workers and servers carry out themselves, by sleeping."""
STOPS = ("pause", "kill", "cut")

COLUMNS = {
    **{"window": "int64", "target": "str", "kind": "str", "by": "str", "start_s": "float64", "end_s": "float64"},
    **{"magnitude": "float64", "asked": "float64", "achieved": "float64", "full": "float64"},
    **{"readback_s": "float64", "onset_s": "float64", "iterations": "int64"},
    **{"base_s": "float64", "felt_s": "float64", "slowdown_asked": "float64"},
    **{"slowdown": "float64", "slowdown_p10": "float64", "slowdown_p90": "float64"},
    **{"cpu_share": "float64", "payload_asked_bytes_per_s": "float64"},
    **{"push_bytes_per_s": "float64", "pull_bytes_per_s": "float64", "outage_s": "float64"},
}
ABOUT = {"run": "str", "seed": "int64"}

Row = dict[str, Any]


def injections(run: Run) -> pd.DataFrame:
    """One row per window of the plan that was carried out (for a delay: that met an iteration or update).

    ``window`` is its place in the plan; ``target``, ``kind``, ``start_s``, ``end_s``, ``magnitude`` as planned; ``by``
    whom it was carried out (``sleep``, ``cgroup``, ``duty``, ``cpulimit``, ``tc``, ``signal``).

    ``asked``, ``achieved`` (read back from who enforces it; of a sleep, measured), ``full`` (undisturbed): cores, bytes
    per second on the wire, mean seconds per iteration or update, or 0 and 1. ``readback_s`` is the time from the
    planned start until it was read back; ``onset_s`` until the first iteration that was slower began (0: it had begun
    before; so it is known to one iteration).

    ``iterations`` (whole ones within), ``base_s`` (undisturbed) and ``felt_s`` (within): medians of the computing time
    or, for bandwidth, of what travels (a link: parameters and gradient; a route: one of them). ``slowdown`` =
    ``felt_s`` / ``base_s`` with its 10 % and 90 % quantiles, ``slowdown_asked`` what it should be.

    ``cpu_share``: processor time used / what the undisturbed target may use, where it was at work (should be
    ``magnitude``). ``push_bytes_per_s``, ``pull_bytes_per_s``: payload of the model / median time to send it, to wait
    for it, with a single server; ``payload_asked_bytes_per_s`` what these should be.

    ``outage_s`` (pause, kill, cut): longest time without a gradient of the target's workers, less the usual one.
    """
    tables, around = run.tables, _surroundings(run)
    plan = achieved(run.plan, tables.iterations, tables.updates, tables.server_busy)
    work = _work(tables.iterations, plan, around)
    rows = []
    for index, window in plan.iterrows():
        head = _slept(window) if window["kind"] in SLEPT else _noted(window, tables.injections)
        if head is not None:
            workers, parts = _shown_by(window["kind"], window["target"], around)
            row = {"window": index, **window[["target", "kind", "start_s", "end_s", "magnitude"]], **head}
            row |= _effect(window, work[work["worker"].isin(workers)], list(parts))
            row |= _by_kind(row, tables.iterations, tables.nodes, work[work["worker"].isin(workers)], around, parts)
            rows.append(row)
    return pd.DataFrame(rows, columns=list(COLUMNS)).fillna({"iterations": 0}).astype(COLUMNS)


def collect(runs: Iterable[Run]) -> pd.DataFrame:
    """:func:`injections` of several runs, with ``run`` (its name) and ``seed`` in front."""
    frames = [
        injections(run).assign(run=str(run.meta.get("run_id", run.path.name)), seed=run.meta["seed"]) for run in runs
    ]
    columns = ABOUT | COLUMNS
    found = [frame for frame in frames if len(frame)]
    return (pd.concat(found, ignore_index=True) if found else pd.DataFrame(columns=list(columns)))[
        list(columns)
    ].astype(columns)


# ---- the circumstances ----------------------------------------------------------------------------------------------


class _Around(NamedTuple):
    """What of a run one must know to tell whom a disturbance reaches."""

    everybody: frozenset[int]
    """All workers."""
    on_host: Mapping[int, frozenset[int]]
    """Workers by the number of their host."""
    model_bytes: float
    """That a worker and the one server exchange; not a number with several servers, whose ranges travel at once."""


def _surroundings(run: Run) -> _Around:
    hosts = (run.meta.get("machine") or {}).get("hosts") or ()
    size = getattr(run.finished, "num_parameters", None) or run.job.get("num_parameters")
    single = run.job.get("num_servers") == 1 and size is not None
    return _Around(
        everybody=frozenset(range(run.job["num_workers"])),
        on_host={
            host["number"]: frozenset(
                int(task.removeprefix("worker:")) for task in host["tasks"] if task.startswith("worker:")
            )
            for host in hosts
        },
        model_bytes=float(FLOAT_BYTES * size) if single and size is not None else nan,
    )


def _own(target: str, around: _Around) -> frozenset[int]:
    """The workers that a target holds: itself, or those on its host or hosts."""
    role, _, place = target.partition(":")
    if role == "worker":
        return frozenset({int(place)})
    if role == "server":
        return frozenset()
    return frozenset().union(*(around.on_host.get(int(host), ()) for host in place.split(">")))


def _shown_by(kind: str, target: str, around: _Around) -> tuple[frozenset[int], tuple[str, ...]]:
    """Whose iterations show a disturbance, and in which of their parts (none: not in any alone)."""
    own = _own(target, around)
    if kind in STOPS:
        return own or around.everybody, ()
    if kind != "bandwidth":
        return own, ("compute_s",)
    sender, _, receiver = target.partition(":")[2].partition(">")
    if not receiver:
        return own or around.everybody, ("pull_s", "send_s")
    pushing = around.on_host.get(int(sender), frozenset())
    return (pushing, ("send_s",)) if pushing else (around.on_host.get(int(receiver), frozenset()), ("pull_s",))


def _work(iterations: pd.DataFrame, plan: pd.DataFrame, around: _Around) -> pd.DataFrame:
    """The iterations of the usual size, with ``begun_s`` and ``touching`` (windows that may have to do with them)."""
    sizes = iterations.groupby("worker")["samples"].transform(lambda samples: samples.mode().max())
    work = iterations[(iterations["samples"] == sizes) & (iterations["samples"] > 0)]
    begun = work["t"] - sum(work[part] for part in DURATIONS if part != "wait_s")
    touching = pd.Series(0, index=work.index)
    for worker, rows in work.groupby("worker"):
        reached = [worker in (_own(target, around) or around.everybody) for target in plan["target"]]
        windows = plan[np.array(reached, dtype="bool")]
        opened = np.searchsorted(np.sort(windows["start_s"]), rows["t"], side="left")
        closed = np.searchsorted(np.sort(windows["end_s"] + EDGE_S), begun[rows.index], side="right")
        touching[rows.index] = opened - closed
    return work.assign(begun_s=begun, touching=touching)


# ---- what was asked, and by whom it was done ------------------------------------------------------------------------


def _slept(window: pd.Series) -> Row | None:
    """Seconds per piece of work. ``hits``, ``planned_s`` and ``achieved_s`` come from what was measured there."""
    if not window["hits"]:
        return None
    return {
        "by": "sleep",
        "asked": window["planned_s"] / window["hits"],
        "achieved": window["achieved_s"] / window["hits"],
        "onset_s": max(0.0, window["first_effect_s"] - window["start_s"]),
    }


def _noted(window: pd.Series, notes: pd.DataFrame) -> Row | None:
    """From the note of its start; none: a stronger window held already, or the run was over."""
    due = notes["t"] - notes["took_s"] - notes["late_s"]
    same = (notes["target"] == window["target"]) & (notes["kind"] == window["kind"])
    found = notes[same & ((due - window["start_s"]).abs() <= MATCH_S)]
    if not len(found):
        return None
    note = found.iloc[0]
    full = note["asked"] / note["level"] if note["level"] > 0 else nan
    return {
        **{name: note[name] for name in ("by", "asked", "achieved")},
        "full": full,
        "readback_s": note["late_s"] + note["took_s"],
    }


# ---- what it did ----------------------------------------------------------------------------------------------------


def _effect(window: pd.Series, work: pd.DataFrame, parts: list[str]) -> Row:
    """Of the iterations ``work`` of those who show it, in their ``parts``."""
    start, end = window["start_s"], window["end_s"]
    whole = work[(work["begun_s"] >= start + EDGE_S) & (work["t"] <= end) & (work["touching"] == 1)]
    if not parts:
        return {"iterations": len(whole)}
    base_s = _median(work.loc[work["touching"] == 0, parts].sum(axis="columns"))
    felt = whole[parts].sum(axis="columns")
    low, high = np.quantile(felt, [0.1, 0.9]) / base_s if len(felt) else (nan, nan)
    felt_s = _median(felt)
    effect: Row = {"iterations": len(whole), "base_s": base_s, "felt_s": felt_s, "slowdown": felt_s / base_s}
    effect |= {"slowdown_p10": low, "slowdown_p90": high, "slowdown_asked": _slowdown_asked(window, base_s)}
    if window["kind"] not in SLEPT:
        effect["onset_s"] = _onset_s(start, end, work, parts, (base_s * felt_s) ** 0.5)
    return effect


def _slowdown_asked(window: pd.Series, base_s: float) -> float:
    magnitude = float(window["magnitude"])
    match window["kind"]:
        case "delay":
            return 1.0 + magnitude / base_s
        case "slowdown":
            return 1.0 + magnitude
        case _:
            return 1.0 / magnitude


def _onset_s(start_s: float, end_s: float, work: pd.DataFrame, parts: list[str], threshold_s: float) -> float:
    """Until the first iteration began that is nearer to the disturbed than to the undisturbed ones."""
    met = work[(work["t"] > start_s) & (work["begun_s"] < end_s)]
    slow = met.loc[met[parts].sum(axis="columns") >= threshold_s, "begun_s"]
    return max(0.0, float(slow.min()) - start_s) if len(slow) else nan


def _by_kind(
    row: Row, iterations: pd.DataFrame, nodes: pd.DataFrame, work: pd.DataFrame, around: _Around, parts: tuple[str, ...]
) -> Row:
    """What only one kind of disturbance has."""
    start, end = row["start_s"], row["end_s"]
    if row["kind"] == "cpu":
        samples = nodes[(nodes["t"] - nodes["period_s"] >= start + EDGE_S) & (nodes["t"] <= end)]
        samples = samples[samples["node"] == row["target"]]
        return {"cpu_share": _cores(samples, iterations, _own(row["target"], around)) / row["full"]}
    if row["kind"] == "bandwidth":
        whole = work[(work["begun_s"] >= start + EDGE_S) & (work["t"] <= end) & (work["touching"] == 1)]
        rates = {"push_bytes_per_s": "send_s", "pull_bytes_per_s": "pull_s"}
        found = {name: around.model_bytes / _median(whole[part]) for name, part in rates.items() if part in parts}
        return {"payload_asked_bytes_per_s": row["asked"] * PAYLOAD_FRAC, **found}
    return {"outage_s": _outage_s(start, end, work)} if row["kind"] in STOPS else {}


def _cores(samples: pd.DataFrame, iterations: pd.DataFrame, workers: frozenset[int]) -> float:
    """Used on average in those samples of one task or host in which it was busy."""
    busy = samples["busy_frac"] if not workers else _busy_frac(samples, iterations, workers)
    counted = samples[(busy >= BUSY_FRAC) & samples["cpu_cores"].notna()]
    used_s = counted["cpu_cores"] * counted["period_s"]
    return float(used_s.sum() / counted["period_s"].sum()) if len(counted) else nan


def _busy_frac(samples: pd.DataFrame, iterations: pd.DataFrame, workers: frozenset[int]) -> np.ndarray:
    """Part of each sample in which the busiest of ``workers`` neither waited for an order nor for parameters."""
    most = np.zeros(len(samples))
    until, period = samples["t"].to_numpy(), samples["period_s"].to_numpy()
    for worker in workers:
        mine = iterations[iterations["worker"] == worker].sort_values("t")
        own_s = (mine["compute_s"] + mine["send_s"]).to_numpy()
        bounds = np.column_stack([mine["t"] - own_s, mine["t"]]).ravel()
        spent = np.column_stack([np.zeros(len(mine)), own_s]).ravel().cumsum()
        if len(mine):
            done = np.interp(until, bounds, spent, left=0.0) - np.interp(until - period, bounds, spent, left=0.0)
            most = np.maximum(most, done / period)
    return most


def _outage_s(start_s: float, end_s: float, work: pd.DataFrame) -> float:
    """The median over the workers; nobody's work that never went on is counted."""
    found = [_longest_gap_s(start_s, end_s, rows.sort_values("t")) for _, rows in work.groupby("worker")]
    return _median(pd.Series([gap for gap in found if gap is not None], dtype="float64"))


def _longest_gap_s(start_s: float, end_s: float, rows: pd.DataFrame) -> float | None:
    gaps = rows["t"].diff().fillna(rows["t"])
    usual_s = _median(gaps[rows["touching"] == 0])
    around = gaps[(rows["t"] > start_s) & (rows["t"] - gaps < end_s)]
    return max(0.0, float(around.max()) - usual_s) if len(around) else None


def _median(values: pd.Series) -> float:
    return float(values.median()) if len(values) else nan
