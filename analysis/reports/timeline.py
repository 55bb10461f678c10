"""The run as a trace in the Chrome trace event format: open ``timeline.json`` in ui.perfetto.dev.

Four groups of lanes: workers (phases of every iteration), servers (busy fraction between two notes), the plan (windows
by target), and the job (updates; epochs, losses, restores and commands to nodes as instants; metrics as counters).
Arrows lead from pushes to updates and on to pulls (:mod:`analysis.reports.flows`). Times in microseconds.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import chain
from math import isfinite
from typing import Any, NamedTuple

import msgspec
import pandas as pd

from analysis.measures.commands import commands_to_nodes
from analysis.measures.segments import segments
from analysis.records.load import Run
from analysis.records.members import numbers_of
from analysis.reports.flows import Update, flows, update_slices

Entry = dict[str, Any]
WORKERS, SERVERS, PLAN, JOB = 1, 2, 3, 4
NAMES = {WORKERS: "workers", SERVERS: "servers", PLAN: "planned disturbances", JOB: "job"}


def trace(run: Run) -> bytes:
    """The whole trace as JSON, encoded piece by piece: a long run has millions of entries."""
    tables, encode = run.tables, msgspec.json.Encoder().encode
    pieces, updates = segments(tables.iterations), update_slices(run)
    parts = (
        _names(run),
        _workers(pieces),
        _servers(tables.server_busy),
        _plan(run.plan),
        _updates(updates),
        _job(run),
        flows(tables.iterations, pieces, updates, WORKERS, (JOB, 0)),
    )
    entries = b",\n".join(map(encode, map(_from_one, chain.from_iterable(parts))))
    about = encode({"run_id": str(run.meta.get("run_id"))})
    return b'{"displayTimeUnit":"ms","otherData":' + about + b',"traceEvents":[\n' + entries + b"\n]}\n"


class Slice(NamedTuple):
    """A bar in a lane of a group."""

    group: str
    lane: str
    name: str
    start_s: float
    end_s: float


def trace_of(slices: Iterable[Slice]) -> bytes:
    """Any bars as a trace; groups and lanes in the order in which they come."""
    groups: dict[str, dict[str, int]] = {}
    entries = []
    for one in slices:
        lanes = groups.setdefault(one.group, {})
        number = list(groups).index(one.group) + 1
        if not lanes:
            entries.append({"ph": "M", "name": "process_name", "pid": number, "args": {"name": one.group}})
        if one.lane not in lanes:
            lanes[one.lane] = len(lanes) + 1
            about = {"pid": number, "tid": lanes[one.lane], "args": {"name": one.lane}}
            entries.append({"ph": "M", "name": "thread_name", **about})
        entries.append(_slice(one.name, (number, lanes[one.lane]), one.start_s, one.end_s, {}))
    return msgspec.json.encode({"displayTimeUnit": "ms", "traceEvents": entries}) + b"\n"


def _from_one(entry: Entry) -> Entry:
    """Lanes begin at 1: Perfetto takes thread 0 of a process for the one with the process's number."""
    if "tid" in entry:
        entry["tid"] += 1
    return entry


def _names(run: Run) -> Iterator[Entry]:
    for pid, name in NAMES.items():
        yield {"ph": "M", "name": "process_name", "pid": pid, "args": {"name": name}}
        yield {"ph": "M", "name": "process_sort_index", "pid": pid, "args": {"sort_index": pid}}
    lanes = [(WORKERS, w, f"worker {w}") for w in numbers_of(run, "worker")]
    lanes += [(SERVERS, s, f"server {s}") for s in numbers_of(run, "server")]
    lanes += [(JOB, tid, name) for tid, name in enumerate(("updates", "nodes", "epochs", "commands to nodes"))]
    for pid, tid, name in lanes:
        yield {"ph": "M", "name": "thread_name", "pid": pid, "tid": tid, "args": {"name": name}}


def _workers(pieces: pd.DataFrame) -> Iterator[Entry]:
    """Phases in a row, with the gradient's fate on ``compute``."""
    story = ["iteration", "incarnation", "grad", "version_read", "samples", "fate"]
    stories = pieces[story].to_dict("records")
    columns = (pieces[name].tolist() for name in ("phase", "worker", "start_s", "end_s"))
    for phase, worker, start, end, args in zip(*columns, stories, strict=True):
        yield _slice(phase, (WORKERS, worker), start, end, args if phase == "compute" else {})


def _servers(server_busy: pd.DataFrame) -> Iterator[Entry]:
    since: dict[int, float] = {}
    for row in server_busy.itertuples():
        start = since.get(row.server, 0.0)
        since[row.server] = row.t
        if row.t <= start:
            continue
        busy = row.busy_s / (row.t - start)
        args = {"busy_s": row.busy_s, "injected_s": row.injected_s, "version": row.version}
        yield _slice(f"{row.updates} updates, {busy:.0%} busy", (SERVERS, row.server), start, row.t, args)


def _plan(plan: pd.DataFrame) -> Iterator[Entry]:
    """Windows of one target may overlap, so they are asynchronous slices."""
    for number, row in enumerate(plan.itertuples()):
        common = {
            "name": f"{row.target} {row.kind} {row.magnitude:g}",
            "cat": row.target,
            "id": number,
            "pid": PLAN,
            "tid": 0,
        }
        yield {**common, "ph": "b", "ts": _us(row.start_s), "args": {"magnitude": row.magnitude}}
        yield {**common, "ph": "e", "ts": _us(row.end_s)}


def _updates(updates: list[Update]) -> Iterator[Entry]:
    for one in updates:
        args = {"gradients": one.num_grads, "samples": one.samples, "void": one.void}
        common = {"ph": "X", "name": f"update {one.version}", "pid": JOB, "tid": 0}
        yield {**common, "ts": one.start_us, "dur": one.dur_us, "args": args}


def _job(run: Run) -> Iterator[Entry]:
    tables = run.tables
    for row in tables.restarts.itertuples():
        who = f" {row.role} {row.id}" if row.id >= 0 else f" version {row.version}"
        yield _instant(f"{row.what}{who}", (JOB, 1), row.t, {"reason": row.reason})
    for t, node, what in commands_to_nodes(run):
        yield _instant(what, (JOB, 3), t, {"node": node})
    for row in tables.notes[tables.notes["type"] == "EpochStarted"].itertuples():
        yield _instant("epoch", (JOB, 2), row.t, msgspec.json.decode(row.fields))
    for name in tables.evaluations.columns.difference(["asked_s", "t", "version"], sort=False):
        for t, value in zip(tables.evaluations["asked_s"], tables.evaluations[name], strict=True):
            if isfinite(value):
                yield {"ph": "C", "name": name, "pid": JOB, "ts": _us(t), "args": {name: value}}


def _slice(name: str, lane: tuple[int, int], start_s: float, end_s: float, args: Entry) -> Entry:
    start, end = _us(start_s), _us(end_s)
    return {
        "ph": "X",
        "name": name,
        "pid": lane[0],
        "tid": lane[1],
        "ts": start,
        "dur": round(end - start, 1),
        "args": args,
    }


def _instant(name: str, lane: tuple[int, int], t: float, args: Entry) -> Entry:
    return {"ph": "i", "s": "t", "name": name, "pid": lane[0], "tid": lane[1], "ts": _us(t), "args": args}


def _us(seconds: float) -> float:
    """Microseconds, to a tenth, which keeps the file small."""
    return round(seconds * 1e6, 1)
