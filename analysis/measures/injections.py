"""What came of every disturbance: asked for, read back, and felt by the work. A run in, a tidy frame out.

Iterations that straddle the edge of a window, or begin within ``EDGE_S`` after one, belong to neither side, and neither
do those under several windows at once. What a window does to work is compared with the same workers' undisturbed
iterations of the same run, those nearest in time: a machine has its moods.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from math import nan
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from analysis.measures.disturbances import achieved
from analysis.records.load import Run
from analysis.records.schema import DURATIONS
from analysis.records.tables import Tables

EDGE_S = 0.1
NEAREST = 20
"""Undisturbed iterations that a window is compared with."""
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
    **{"cpu_share": "float64", "cpu_cost": "float64", "payload_asked_bytes_per_s": "float64"},
    **{"push_bytes_per_s": "float64", "pull_bytes_per_s": "float64", "outage_s": "float64"},
}
PLANNED = ("target", "kind", "start_s", "end_s", "magnitude")
ABOUT = {"run": "str", "seed": "int64", "work": "str"}
WORK_KEYS = ("workload", "task_fields", "backend", "global_batch_samples", "num_workers", "device", "devices")
"""Settings of the job that say how long an iteration takes."""

Row = dict[str, Any]


def injections(run: Run) -> pd.DataFrame:
    """One row per window of the plan that was carried out (for a delay: that met an iteration or update).

    ``window`` is its place in the plan; ``target``, ``kind``, ``start_s``, ``end_s``, ``magnitude`` as planned; ``by``
    whom it was carried out (``sleep``, ``cgroup``, ``duty``, ``cpulimit``, ``tc``, ``signal``).

    ``asked``, ``achieved`` (read back from who enforces it; of a sleep, measured), ``full`` (undisturbed): cores, bytes
    per second on the wire, mean seconds per iteration or update, or 0 and 1. ``readback_s`` is the time from the
    planned start until it was read back; ``onset_s`` until the first iteration that was slower began (0: it had begun
    before; so it is known to one iteration).

    ``iterations`` (whole ones within), ``base_s`` (of undisturbed ones) and ``felt_s`` (within): medians of the
    computing time or, for bandwidth, of what travels (a link: parameters and gradient; a route: one of them).
    ``slowdown`` = ``felt_s`` / ``base_s`` with its 10 % and 90 % quantiles, ``slowdown_asked`` what it should be.

    ``cpu_share``: processor time used / what the undisturbed target may use, where it was at work (should be
    ``magnitude``). ``cpu_cost``: processor time of a median iteration within / of an undisturbed one. Where iterations
    are even it is 1; if not, the machine was slower or faster by itself, and ``slowdown`` is off by as much.

    ``push_bytes_per_s``, ``pull_bytes_per_s``: payload of the model / median time to send it, to wait for it, with a
    single server; ``payload_asked_bytes_per_s`` what these should be.

    ``outage_s`` (pause, kill, cut): longest time without a gradient of the target's workers, less the usual one.
    """
    tables, around = run.tables, _surroundings(run)
    plan = achieved(run.plan, tables.iterations, tables.updates, tables.server_busy)
    work = _work(tables.iterations, plan, around)
    subjects = {
        key: _subject(*key, work, plan, around) for key in dict.fromkeys(zip(plan["kind"], plan["target"], strict=True))
    }
    rows = []
    for window in plan.itertuples():
        head = _slept(window) if window.kind in SLEPT else _noted(window, tables.injections)
        if head is not None:
            subject = subjects[window.kind, window.target]
            row = {"window": window.Index, **{name: getattr(window, name) for name in PLANNED}, **head}
            row |= _effect(window, subject) if subject.parts else {"iterations": int(_within(window, subject).sum())}
            rows.append(row | _by_kind(row, window, subject, tables, around))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def collect(runs: Iterable[Run]) -> pd.DataFrame:
    """:func:`injections` of several runs; in front ``run`` (its name), ``seed``, ``work`` (the same for equal jobs)."""
    columns = ABOUT | COLUMNS
    frames = [pd.DataFrame(columns=list(columns)).astype(columns)]
    for run in runs:
        about = {"run": str(run.meta.get("run_id", run.path.name)), "seed": run.meta["seed"], "work": _work_name(run)}
        if len(frame := injections(run)):
            frames.append(frame.assign(**about)[list(columns)])
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _work_name(run: Run) -> str:
    hosts = (run.meta.get("machine") or {}).get("hosts") or ()
    said = [*(run.job.get(key) for key in WORK_KEYS), [host.get("cores") for host in hosts]]
    return sha256(msgspec.json.encode(said, order="deterministic")).hexdigest()[:8]


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


def workers_of(run: Run, target: str) -> frozenset[int]:
    """The workers that a target of the plan holds: itself, or those on its host or hosts; none in a server."""
    return _own(target, _surroundings(run))


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
        return own, ("compute_s",) if own else ()
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
        touching[rows.index] = _touching(begun[rows.index], rows["t"], _reaching(frozenset({worker}), plan, around))
    return work.assign(begun_s=begun, touching=touching)


def _reaching(workers: frozenset[int], plan: pd.DataFrame, around: _Around) -> pd.DataFrame:
    """The windows that may have to do with any of these workers."""
    reached = [bool(workers & (_own(target, around) or around.everybody)) for target in plan["target"]]
    return plan[np.array(reached, dtype="bool")]


def _touching(begun_s: pd.Series, end_s: pd.Series, windows: pd.DataFrame) -> np.ndarray:
    """How many of ``windows`` were open during each of these stretches, or had closed just before."""
    opened = np.searchsorted(np.sort(windows["start_s"]), end_s, side="left")
    closed = np.searchsorted(np.sort(windows["end_s"] + EDGE_S), begun_s, side="right")
    return np.asarray(opened - closed)


class _Subject(NamedTuple):
    """The iterations that show a kind of disturbance of a target, in order of their arrival."""

    workers: frozenset[int]
    parts: tuple[str, ...]
    """Of an iteration: those that get longer; none: it is not one of them that does."""
    rows: pd.DataFrame
    begun_s: np.ndarray
    t: np.ndarray
    touching: np.ndarray
    felt_s: np.ndarray
    """Duration of the parts."""
    windows: pd.DataFrame
    """All that may have to do with them."""


def _subject(kind: str, target: str, work: pd.DataFrame, plan: pd.DataFrame, around: _Around) -> _Subject:
    workers, parts = _shown_by(kind, target, around)
    rows = work[work["worker"].isin(workers)].sort_values("t", kind="stable")
    begun, t, touching = (rows[name].to_numpy() for name in ("begun_s", "t", "touching"))
    felt = rows[list(parts)].sum(axis="columns").to_numpy()
    return _Subject(workers, parts, rows, begun, t, touching, felt, _reaching(workers, plan, around))


# ---- what was asked, and by whom it was done ------------------------------------------------------------------------


def _slept(window: Any) -> Row | None:
    """Seconds per piece of work, planned and measured there; none: it met no work."""
    if not window.hits:
        return None
    return {
        "by": "sleep",
        "asked": window.planned_s / window.hits,
        "achieved": window.achieved_s / window.hits,
        "onset_s": max(0.0, window.first_effect_s - window.start_s),
    }


def _noted(window: Any, notes: pd.DataFrame) -> Row | None:
    """From the note of its start; none: a stronger window held already, or the run was over."""
    due = notes["t"] - notes["took_s"] - notes["late_s"]
    same = (notes["target"] == window.target) & (notes["kind"] == window.kind)
    found = notes[same & ((due - window.start_s).abs() <= MATCH_S)]
    if not len(found):
        return None
    note = found.iloc[0]
    row = {**{name: note[name] for name in ("by", "asked", "achieved")}, "readback_s": note["late_s"] + note["took_s"]}
    # rounded, so that it is the same number whatever the level
    return row | {"full": float(f"{note['asked'] / note['level']:.6g}") if note["level"] > 0 else nan}


# ---- what it did ----------------------------------------------------------------------------------------------------


def _within(window: Any, subject: _Subject) -> np.ndarray:
    """Which iterations are wholly in this window and in no other."""
    return np.asarray(
        (subject.begun_s >= window.start_s + EDGE_S) & (subject.t <= window.end_s) & (subject.touching == 1)
    )


def _effect(window: Any, subject: _Subject) -> Row:
    felt, base_s = subject.felt_s[_within(window, subject)], _base_s(window, subject)
    felt_s = _median(felt)
    low, high = np.quantile(felt, [0.1, 0.9]) / base_s if len(felt) else (nan, nan)
    effect: Row = {"iterations": len(felt), "base_s": base_s, "felt_s": felt_s, "slowdown": felt_s / base_s}
    effect |= {"slowdown_p10": low, "slowdown_p90": high, "slowdown_asked": _slowdown_asked(window, base_s)}
    return effect if window.kind in SLEPT else effect | {"onset_s": _onset_s(window, subject, (base_s * felt_s) ** 0.5)}


def _base_s(window: Any, subject: _Subject) -> float:
    """The median while nothing disturbs them, near the window; not a number if there is none, or nothing to measure."""
    clear = np.flatnonzero(subject.touching == 0)
    away_s = np.maximum(window.start_s - subject.t[clear], subject.begun_s[clear] - window.end_s)
    return _median(subject.felt_s[clear[np.argsort(away_s, kind="stable")[:NEAREST]]]) or nan


def _slowdown_asked(window: Any, base_s: float) -> float:
    match window.kind:
        case "delay":
            return 1.0 + float(window.magnitude) / base_s
        case "slowdown":
            return 1.0 + float(window.magnitude)
        case _:
            return 1.0 / float(window.magnitude)


def _onset_s(window: Any, subject: _Subject, threshold_s: float) -> float:
    """Until the first iteration began that is nearer to the disturbed than to the undisturbed ones."""
    met = (subject.t > window.start_s) & (subject.begun_s < window.end_s)
    slow = subject.begun_s[met & (subject.felt_s >= threshold_s)]
    return max(0.0, float(slow.min()) - window.start_s) if len(slow) else nan


def _by_kind(row: Row, window: Any, subject: _Subject, tables: Tables, around: _Around) -> Row:
    """What only one kind of disturbance has."""
    if window.kind == "cpu":
        return _processor(row, window, subject, tables)
    if window.kind == "bandwidth":
        whole = subject.rows[_within(window, subject)]
        rates = {"push_bytes_per_s": "send_s", "pull_bytes_per_s": "pull_s"}
        found = {
            name: around.model_bytes / (_median(whole[part]) or nan)
            for name, part in rates.items()
            if part in subject.parts
        }
        return {"payload_asked_bytes_per_s": row["asked"] * PAYLOAD_FRAC, **found}
    return {"outage_s": _outage_s(window, subject.rows)} if window.kind in STOPS else {}


def _processor(row: Row, window: Any, subject: _Subject, tables: Tables) -> Row:
    """How much of it the target used, and an iteration took."""
    mine = tables.nodes[tables.nodes["node"] == window.target]
    begun = mine["t"] - mine["period_s"]
    within = mine[(begun >= window.start_s + EDGE_S) & (mine["t"] <= window.end_s)]
    cores = _cores(within, tables.iterations, subject.workers)
    found = {"cpu_share": cores / row["full"]}
    if subject.workers:
        clear = mine[_touching(begun, mine["t"], subject.windows) == 0]
        usual = _cores(clear, tables.iterations, subject.workers)
        found["cpu_cost"] = cores * row["felt_s"] / (usual * row["base_s"])
    return found


def _cores(samples: pd.DataFrame, iterations: pd.DataFrame, workers: frozenset[int]) -> float:
    """Used on average in those samples of one task or host in which it was busy."""
    busy = _busy_frac(samples, iterations, workers) if workers else samples["busy_frac"]
    counted = samples[(busy >= BUSY_FRAC) & samples["cpu_cores"].notna()]
    used_s = counted["cpu_cores"] * counted["period_s"]
    return float(used_s.sum() / counted["period_s"].sum()) if len(counted) else nan


def _busy_frac(samples: pd.DataFrame, iterations: pd.DataFrame, workers: frozenset[int]) -> np.ndarray:
    """Part of each sample in which the busiest of ``workers`` neither waited for an order nor for parameters."""
    most = np.zeros(len(samples))
    until, period = samples["t"].to_numpy(), samples["period_s"].to_numpy()
    for worker in workers:
        mine = iterations[iterations["worker"] == worker].sort_values("t", kind="stable")
        own_s = (mine["compute_s"] + mine["send_s"]).to_numpy()
        bounds = np.column_stack([mine["t"] - own_s, mine["t"]]).ravel()
        spent = np.column_stack([np.zeros(len(mine)), own_s]).ravel().cumsum()
        if len(mine):
            done = np.interp(until, bounds, spent, left=0.0) - np.interp(until - period, bounds, spent, left=0.0)
            most = np.maximum(most, done / period)
    return most


def _outage_s(window: Any, rows: pd.DataFrame) -> float:
    """The median over the workers that went on."""
    found = [_longest_gap_s(window, mine) for _, mine in rows.groupby("worker")]
    return _median([gap_s for gap_s in found if gap_s is not None])


def _longest_gap_s(window: Any, rows: pd.DataFrame) -> float | None:
    gaps = rows["t"].diff().fillna(rows["t"])
    usual_s = _median(gaps[rows["touching"] == 0])
    around = gaps[(rows["t"] > window.start_s) & (rows["t"] - gaps < window.end_s)]
    return max(0.0, float(around.max()) - usual_s) if len(around) else None


def _median(values: Any) -> float:
    return float(np.median(values)) if len(values) else nan
