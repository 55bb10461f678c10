"""The effect of every disturbance: requested, read back, and on the work. A run in, a tidy frame out.

Iterations that overlap an edge of a window, or begin within ``EDGE_S`` after one, count on neither side; neither do
iterations under several windows at once. The effect of a window on work is relative to the same workers' undisturbed
iterations of the same run, those nearest in time, because a machine's speed drifts.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from hashlib import sha256
from itertools import permutations
from math import nan
from typing import Any, NamedTuple

import msgspec
import numpy as np
import pandas as pd

from analysis.measures.disturbances import achieved_effects
from analysis.records.load import Run
from analysis.records.members import numbers_of
from analysis.records.nodes import parse_node
from analysis.records.schema import DURATIONS
from analysis.records.tables import Tables

EDGE_S = 0.1
NEAREST = 20
"""Number of undisturbed iterations that a window is compared with."""
MATCH_S = 1e-3
"""Maximum distance between a note's intended start and the start of the window that it belongs to."""
BUSY_FRAC = 0.9
"""A processor sample counts if its target was busy for at least this fraction of it: waiting needs no processor."""
PAYLOAD_FRAC = 1448 / 1514
"""Payload share of a full Ethernet frame: 1500 bytes less 52 of headers, in a frame with 14 more."""
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
    **{"cpu_share": "float64", "cpu_cost": "float64", "gpu_share": "float64", "payload_asked_bytes_per_s": "float64"},
    **{"push_bytes_per_s": "float64", "pull_bytes_per_s": "float64", "outage_s": "float64"},
}
PLANNED = ("target", "kind", "start_s", "end_s", "magnitude")
ABOUT = {"run": "str", "seed": "int64", "work": "str"}
WORK_KEYS = ("workload", "task_fields", "backend", "global_batch_samples", "num_workers", "device", "devices")
"""Settings of the job that determine the length of an iteration."""

Row = dict[str, Any]


def injections(run: Run) -> pd.DataFrame:
    """One row per executed window of the plan (for a delay: a window that met an iteration or update).

    ``window`` is its index in the plan; ``target``, ``kind``, ``start_s``, ``end_s``, ``magnitude`` as planned; ``by``
    is the mechanism (``sleep``, ``cgroup``, ``duty``, ``cpulimit``, ``hog``, ``tc``, ``pacing``, ``signal``).

    ``asked``, ``achieved`` (read back from the mechanism; for a sleep, measured), ``full`` (undisturbed): cores, parts
    of a GPU, bytes per second on the wire, mean seconds per iteration or update, or 0 and 1. ``readback_s`` is the time
    from the planned start until it was read back; ``onset_s`` until the first slower iteration began (0: it had begun
    before; so the resolution is one iteration).

    ``iterations`` (whole ones within), ``base_s`` (undisturbed) and ``felt_s`` (within): medians of the computing time
    or, for bandwidth, of the transfers (link: parameters and gradient; route: one of them). ``slowdown`` = ``felt_s`` /
    ``base_s`` with its 10 % and 90 % quantiles; ``slowdown_asked`` is the expected value.

    ``cpu_share``: processor time used / what the undisturbed target may use, while busy (expected: ``magnitude``).
    ``cpu_cost``: processor time of a median iteration within / of an undisturbed one. It is 1 if iterations are
    uniform; if not, the machine itself was slower or faster, and ``slowdown`` is off by as much.

    ``gpu_share``: the part of a GPU that was left during the window, by what its hogs used (expected: ``magnitude``).

    ``push_bytes_per_s``, ``pull_bytes_per_s``: payload of the model / median time to send it, to wait for it, with a
    single server; ``payload_asked_bytes_per_s`` is their expected value.

    ``outage_s`` (pause, kill, cut): longest time without a gradient of the target's workers, less the usual one.
    """
    tables, context = run.tables, _context_of(run)
    plan = achieved_effects(run.plan, tables.iterations, tables.updates, tables.server_busy)
    work = _work(tables.iterations, plan, context)
    subjects = {
        key: _subject(*key, work, plan, context)
        for key in dict.fromkeys(zip(plan["kind"], plan["target"], strict=True))
    }
    rows = []
    for window in plan.itertuples():
        head = _sleep_row(window) if window.kind in SLEPT else _read_note(window, tables.injections)
        if head is not None:
            subject = subjects[window.kind, window.target]
            row = {"window": window.Index, **{name: getattr(window, name) for name in PLANNED}, **head}
            row |= _effect(window, subject) if subject.parts else {"iterations": int(_within(window, subject).sum())}
            rows.append(row | _by_kind(row, window, subject, tables, context))
    return pd.DataFrame(rows, columns=list(COLUMNS)).astype(COLUMNS)


def collect(runs: Iterable[Run]) -> pd.DataFrame:
    """:func:`injections` of several runs; adds ``run`` (its name), ``seed``, ``work`` (the same for equal jobs)."""
    columns = ABOUT | COLUMNS
    frames = [pd.DataFrame(columns=list(columns)).astype(columns)]
    for run in runs:
        about = {"run": str(run.meta.get("run_id", run.path.name)), "seed": run.meta["seed"], "work": _work_name(run)}
        if len(frame := injections(run)):
            frames.append(frame.assign(**about)[list(columns)])
    return pd.concat(frames[1:] or frames, ignore_index=True)


def _work_name(run: Run) -> str:
    hosts = (run.meta.get("machine") or {}).get("hosts") or ()
    identity = [*(run.job.get(key) for key in WORK_KEYS), [host.get("cores") for host in hosts]]
    return sha256(msgspec.json.encode(identity, order="deterministic")).hexdigest()[:8]


# ---- context of the run ---------------------------------------------------------------------------------------------


class _Machine(NamedTuple):
    """The tasks of a machine that has joined, by number."""

    workers: frozenset[int]
    servers: frozenset[int]


class _Context(NamedTuple):
    """The part of a run that determines which workers a disturbance affects."""

    all_workers: frozenset[int]
    """All workers."""
    on_host: Mapping[int, frozenset[int]]
    """Workers by host number."""
    on_machines: tuple[_Machine, ...]
    """Where machines have joined; empty otherwise."""
    on_device: Mapping[int, frozenset[int]]
    """Workers by the GPU that they use."""
    model_bytes: float
    """Bytes that a worker and the only server exchange; NaN with several servers, whose ranges travel in parallel."""


def _context_of(run: Run) -> _Context:
    hosts = (run.meta.get("machine") or {}).get("hosts") or ()
    size = getattr(run.finished, "num_parameters", None) or run.job.get("num_parameters")
    single = run.job.get("num_servers") == 1 and size is not None
    return _Context(
        all_workers=frozenset(numbers_of(run, "worker")),
        on_host={
            host["number"]: frozenset(node.number for node in map(parse_node, host["tasks"]) if node.role == "worker")
            for host in hosts
        },
        on_machines=_on_machines(run),
        on_device=_on_device(run),
        model_bytes=float(FLOAT_BYTES * size) if single and size is not None else nan,
    )


def _on_machines(run: Run) -> tuple[_Machine, ...]:
    """As placed at the start: each role round about (``docs/cluster.md``)."""
    count = len((run.meta.get("machine") or {}).get("nodes") or ())
    sizes = [run.job.get(f"num_{role}s") or 0 for role in ("worker", "server")]
    return tuple(_Machine(*(frozenset(range(at, size, count)) for size in sizes)) for at in range(count))


def _crossing(target: str, machines: tuple[_Machine, ...]) -> tuple[frozenset[int], frozenset[int]]:
    """The workers whose pushes, and whose pulls, pass a link or a route between machines that have joined."""
    ends = parse_node(target).numbers
    ways = permutations(range(len(machines)), 2)
    passing = [way for way in ways if (way == ends if len(ends) > 1 else ends[0] in way)]
    pushing = [machines[one].workers for one, other in passing if machines[other].servers]
    pulling = [machines[other].workers for one, other in passing if machines[one].servers]
    return frozenset[int]().union(*pushing), frozenset[int]().union(*pulling)


def _on_device(run: Run) -> dict[int, frozenset[int]]:
    in_turn = (run.meta.get("machine") or {}).get("gpus") or ()
    workers = numbers_of(run, "worker") if in_turn else ()
    used = {worker: in_turn[worker % len(in_turn)] for worker in workers}
    return {device: frozenset(one for one in used if used[one] == device) for device in in_turn}


def workers_of(run: Run, targets: Iterable[str]) -> dict[str, frozenset[int]]:
    """The workers in each target of the plan: itself, those on its GPU or host or hosts; none for a server.

    Of a part of a worker, that worker.
    """
    context = _context_of(run)
    return {target: _own(target, context) for target in targets}


def _own(target: str, context: _Context) -> frozenset[int]:
    """The workers that a target contains or is a part of: itself, those on its GPU, or those on its hosts."""
    node = parse_node(target)
    if node.role == "worker" or node.is_inside:
        return frozenset({node.number})
    if node.role == "device":
        return context.on_device.get(node.number, frozenset())
    if node.role == "server":
        return frozenset()
    if context.on_machines:
        return frozenset().union(*_crossing(target, context.on_machines))
    return frozenset().union(*(context.on_host.get(host, ()) for host in node.numbers))


def _find_showing(kind: str, target: str, context: _Context) -> tuple[frozenset[int], tuple[str, ...]]:
    """(workers whose iterations show a disturbance, the parts that show it); no part if none alone shows it."""
    own = _own(target, context)
    if kind in STOPS:
        return own or context.all_workers, ()
    if kind != "bandwidth":
        return own, ("compute_s",) if own else ()
    sender, *receivers = parse_node(target).numbers
    if receivers and context.on_machines:
        pushing, pulling = _crossing(target, context.on_machines)
        return (pushing, ("send_s",)) if pushing else (pulling, ("pull_s",))
    if not receivers:
        return own or context.all_workers, ("pull_s", "send_s")
    pushing = context.on_host.get(sender, frozenset())
    return (pushing, ("send_s",)) if pushing else (context.on_host.get(receivers[0], frozenset()), ("pull_s",))


def _work(iterations: pd.DataFrame, plan: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """The iterations of the usual size, with ``begun_s`` and ``touching`` (number of windows that may affect them)."""
    sizes = iterations.groupby("worker")["samples"].transform(lambda samples: samples.mode().max())
    work = iterations[(iterations["samples"] == sizes) & (iterations["samples"] > 0)]
    begun = work["t"] - sum(work[part] for part in DURATIONS if part != "wait_s")
    touching = pd.Series(0, index=work.index)
    for worker, rows in work.groupby("worker"):
        touching[rows.index] = _touching(begun[rows.index], rows["t"], _reaching(frozenset({worker}), plan, context))
    return work.assign(begun_s=begun, touching=touching)


def _reaching(workers: frozenset[int], plan: pd.DataFrame, context: _Context) -> pd.DataFrame:
    """The windows that may affect any of these workers."""
    reached = [bool(workers & (_own(target, context) or context.all_workers)) for target in plan["target"]]
    return plan[np.array(reached, dtype="bool")]


def _touching(begun_s: pd.Series, end_s: pd.Series, windows: pd.DataFrame) -> np.ndarray:
    """How many of ``windows`` were open during each of these intervals, or had closed just before."""
    opened = np.searchsorted(np.sort(windows["start_s"]), end_s, side="left")
    closed = np.searchsorted(np.sort(windows["end_s"] + EDGE_S), begun_s, side="right")
    return np.asarray(opened - closed)


class _Subject(NamedTuple):
    """The iterations that show a kind of disturbance of a target, in order of arrival."""

    workers: frozenset[int]
    parts: tuple[str, ...]
    """The parts of an iteration that get longer; empty if none does."""
    rows: pd.DataFrame
    begun_s: np.ndarray
    t: np.ndarray
    touching: np.ndarray
    felt_s: np.ndarray
    """Duration of the parts."""
    windows: pd.DataFrame
    """All windows that may affect them."""


def _subject(kind: str, target: str, work: pd.DataFrame, plan: pd.DataFrame, context: _Context) -> _Subject:
    workers, parts = _find_showing(kind, target, context)
    rows = work[work["worker"].isin(workers)].sort_values("t", kind="stable")
    begun, t, touching = (rows[name].to_numpy() for name in ("begun_s", "t", "touching"))
    felt = rows[list(parts)].sum(axis="columns").to_numpy()
    return _Subject(workers, parts, rows, begun, t, touching, felt, _reaching(workers, plan, context))


# ---- requested level and mechanism ----------------------------------------------------------------------------------


def _sleep_row(window: Any) -> Row | None:
    """Seconds per work item, planned and measured; None if it met no work."""
    if not window.hits:
        return None
    return {
        "by": "sleep",
        "asked": window.planned_s / window.hits,
        "achieved": window.achieved_s / window.hits,
        "onset_s": max(0.0, window.first_effect_s - window.start_s),
    }


def _read_note(window: Any, notes: pd.DataFrame) -> Row | None:
    """From the note of its start; None if a stronger window was already in force, or the run was over."""
    due = notes["t"] - notes["took_s"] - notes["late_s"]
    same = (notes["target"] == window.target) & (notes["kind"] == window.kind)
    found = notes[same & ((due - window.start_s).abs() <= MATCH_S)]
    if not len(found):
        return None
    note = found.iloc[0]
    row = {**{name: note[name] for name in ("by", "asked", "achieved")}, "readback_s": note["late_s"] + note["took_s"]}
    # rounded, so that the value does not depend on the level
    return row | {"full": float(f"{note['asked'] / note['level']:.6g}") if note["level"] > 0 else nan}


# ---- its effect ----------------------------------------------------------------------------------------------------


def _within(window: Any, subject: _Subject) -> np.ndarray:
    """Which iterations are entirely within this window and no other."""
    return np.asarray(
        (subject.begun_s >= window.start_s + EDGE_S) & (subject.t <= window.end_s) & (subject.touching == 1)
    )


def _effect(window: Any, subject: _Subject) -> Row:
    felt, base_s = subject.felt_s[_within(window, subject)], _base_s(window, subject)
    felt_s = _median(felt)
    low, high = np.quantile(felt, [0.1, 0.9]) / base_s if len(felt) else (nan, nan)
    effect: Row = {"iterations": len(felt), "base_s": base_s, "felt_s": felt_s, "slowdown": felt_s / base_s}
    effect |= {"slowdown_p10": low, "slowdown_p90": high, "slowdown_asked": _requested_slowdown(window, base_s)}
    return effect if window.kind in SLEPT else effect | {"onset_s": _onset_s(window, subject, (base_s * felt_s) ** 0.5)}


def _base_s(window: Any, subject: _Subject) -> float:
    """Median of undisturbed iterations near the window; NaN if there are none, or nothing to measure."""
    clear = np.flatnonzero(subject.touching == 0)
    away_s = np.maximum(window.start_s - subject.t[clear], subject.begun_s[clear] - window.end_s)
    return _median(subject.felt_s[clear[np.argsort(away_s, kind="stable")[:NEAREST]]]) or nan


def _requested_slowdown(window: Any, base_s: float) -> float:
    match window.kind:
        case "delay":
            return 1.0 + float(window.magnitude) / base_s
        case "slowdown":
            return 1.0 + float(window.magnitude)
        case _:
            return 1.0 / float(window.magnitude)


def _onset_s(window: Any, subject: _Subject, threshold_s: float) -> float:
    """Time until the first iteration began that is closer to the disturbed than to the undisturbed ones."""
    met = (subject.t > window.start_s) & (subject.begun_s < window.end_s)
    slow = subject.begun_s[met & (subject.felt_s >= threshold_s)]
    return max(0.0, float(slow.min()) - window.start_s) if len(slow) else nan


def _by_kind(row: Row, window: Any, subject: _Subject, tables: Tables, context: _Context) -> Row:
    """Columns of a single kind of disturbance."""
    if window.kind == "cpu":
        return _processor(row, window, subject, tables)
    if window.kind == "gpu":
        return {"gpu_share": _read_left(window, tables.injections)}
    if window.kind == "bandwidth":
        whole = subject.rows[_within(window, subject)]
        rates = {"push_bytes_per_s": "send_s", "pull_bytes_per_s": "pull_s"}
        found = {
            name: context.model_bytes / (_median(whole[part]) or nan)
            for name, part in rates.items()
            if part in subject.parts
        }
        return {"payload_asked_bytes_per_s": row["asked"] * PAYLOAD_FRAC, **found}
    return {"outage_s": _outage_s(window, subject.rows)} if window.kind in STOPS else {}


def _read_left(window: Any, notes: pd.DataFrame) -> float:
    """From the note of its end, or of the next change; NaN if the run was over before."""
    due = notes["t"] - notes["took_s"] - notes["late_s"]
    later = notes[
        (notes["target"] == window.target) & (notes["kind"] == window.kind) & (due > window.start_s + MATCH_S)
    ]
    return float(later.iloc[0]["measured"]) if len(later) else nan


def _processor(row: Row, window: Any, subject: _Subject, tables: Tables) -> Row:
    """Processor share of the target, and processor time per iteration."""
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
    """Average cores used in the samples of one task or host in which it was busy."""
    busy = _busy_frac(samples, iterations, workers) if workers else samples["busy_frac"]
    counted = samples[(busy >= BUSY_FRAC) & samples["cpu_cores"].notna()]
    used_s = counted["cpu_cores"] * counted["period_s"]
    return float(used_s.sum() / counted["period_s"].sum()) if len(counted) else nan


def _busy_frac(samples: pd.DataFrame, iterations: pd.DataFrame, workers: frozenset[int]) -> np.ndarray:
    """Fraction of each sample in which the busiest of ``workers`` waited neither for an order nor for parameters."""
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
    """Median over the workers that continued afterwards."""
    found = [_longest_gap_s(window, mine) for _, mine in rows.groupby("worker")]
    return _median([gap_s for gap_s in found if gap_s is not None])


def _longest_gap_s(window: Any, rows: pd.DataFrame) -> float | None:
    gaps = rows["t"].diff().fillna(rows["t"])
    usual_s = _median(gaps[rows["touching"] == 0])
    gaps_around = gaps[(rows["t"] > window.start_s) & (rows["t"] - gaps < window.end_s)]
    return max(0.0, float(gaps_around.max()) - usual_s) if len(gaps_around) else None


def _median(values: Any) -> float:
    return float(np.median(values)) if len(values) else nan
