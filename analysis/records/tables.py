"""Tidy frames of one run, one row per occurrence; times in seconds since the job's start."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.records import rows
from analysis.records.gather import BUSY, NUMBERS, Gathered
from analysis.records.history import FATES, NEVER, Updates
from analysis.records.jumps import iterations_with, jumps_of, updates_with
from analysis.records.schema import (
    DURATIONS,
    OF_TASKS,
    PARTS,
    Injected,
    Line,
    Other,
    Preempted,
    Repartitioning,
    Rollback,
    type_of,
)
from strategies.protocol import Evaluated, Failed, Joined, Lost, NodeUse, Observed, Restored, ServerJoined, ServerLost


@dataclass(frozen=True)
class Tables:
    """The frames of a run; the function that builds each describes its columns."""

    iterations: pd.DataFrame
    updates: pd.DataFrame
    evaluations: pd.DataFrame
    server_busy: pd.DataFrame
    restarts: pd.DataFrame
    injections: pd.DataFrame
    nodes: pd.DataFrame
    notes: pd.DataFrame
    decisions: pd.DataFrame

    def items(self) -> Iterable[tuple[str, pd.DataFrame]]:
        """(name, frame) of every table."""
        return vars(self).items()


def make_tables(gathered: Gathered, rows_path: Path | None) -> Tables:
    """All frames of a run, once; ``rows_path``: its file of rows, if it has one. Tables without rows are empty frames.

    Columns go from ``gathered`` into the frames, so that there are not two of each. Iterations and updates that were
    skipped are there, too (:mod:`analysis.records.jumps`).
    """
    lines = gathered.kept
    if rows_path is not None:
        rollbacks = [rows.Undone(line.t, line.event.version) for line in lines if isinstance(line.event, Restored)]
        iterations = rows.read_rows(rows_path, rollbacks)
        updates = rows.updates_of(iterations, rollbacks)
    else:
        iterations, updates = _iterations(gathered), _updates(gathered.history.updates)
    if jumps := jumps_of(lines):
        iterations, updates = iterations_with(iterations, jumps), updates_with(updates, jumps)
    return Tables(
        iterations=iterations,
        updates=updates,
        evaluations=_evaluations(lines),
        server_busy=_server_busy(gathered),
        restarts=_restarts(lines),
        injections=_injections(lines),
        nodes=_nodes(lines),
        notes=_notes(lines),
        decisions=_decisions(gathered),
    )


def _iterations(gathered: Gathered) -> pd.DataFrame:
    """One row per ``Arrived``.

    ``t`` arrival; ``worker``, ``incarnation``, ``iteration``; ``grad`` its id; ``version_read``; ``samples``,
    ``assigned_samples``, ``cut_samples``; the five durations, and all else of ``Timings`` (``injected_s``,
    ``overrun_s``: parts of ``compute_s``, as ``stage_s``; ``recv_s``; ``cpu_s``, null where unknown);
    ``iter_s`` = data + compute + send; ``bpt_s`` = data + compute; ``start_s`` = t minus all five,
    and minus the time for which the worker held the gradient; ``issued_s`` when
    the Compute was carried out; ``loss``; ``fate`` (``applied``, ``dropped``, ``void``: rolled back, ``open``: unused
    at the end, ``empty``: no samples); ``applied_version``, ``applied_t``, ``staleness`` (null where never applied).
    """
    take, fates = gathered.arrivals.take, gathered.history.arrivals
    columns: dict[str, Any] = {"t": take("t")}
    columns |= {name: take(name, np.int64) for name in NUMBERS}
    for row, skipped_updates, skipped in gathered.history.later:
        columns["version_read"][row] += skipped_updates
        columns["iteration"][row] += skipped
    columns |= {name: take(name) for name in (*DURATIONS, *PARTS)}
    columns["iter_s"] = columns["data_s"] + columns["compute_s"] + columns["send_s"]
    columns["bpt_s"] = columns["data_s"] + columns["compute_s"]
    columns["start_s"] = columns["t"] - sum(columns[name] for name in DURATIONS) - np.frombuffer(fates.kept_s)
    columns["issued_s"] = np.frombuffer(fates.issued_s)
    columns["loss"] = take("loss")
    columns["fate"] = _names(FATES, np.frombuffer(fates.fate, np.int8))
    version = np.frombuffer(fates.applied_version, np.int64)
    columns["applied_version"] = pd.arrays.IntegerArray(version, version == NEVER)
    columns["applied_t"] = np.frombuffer(fates.applied_t)
    columns["staleness"] = pd.arrays.IntegerArray(version - 1 - columns["version_read"], version == NEVER)
    return pd.DataFrame(columns, copy=False)


def _updates(updates: Updates) -> pd.DataFrame:
    """One row per update carried out: ``t``, ``version``, ``num_grads``, ``samples``, ``lr_scale``, ``void``."""
    columns = {name: np.array(getattr(updates, name)) for name in ("t", "version", "num_grads", "samples", "lr_scale")}
    return pd.DataFrame({**columns, "void": np.array(updates.void, np.bool_)}, copy=False)


def _evaluations(lines: list[Line]) -> pd.DataFrame:
    """One row per ``Evaluated``: ``asked_s`` (time of the snapshot), ``t``, ``version``, and a column per metric."""
    found = [line for line in lines if isinstance(line.event, Evaluated)]
    metrics = [line.event.metrics for line in found if isinstance(line.event, Evaluated)]
    columns = {
        "asked_s": _floats(found, "event.asked_s"),
        "t": _floats(found, "t"),
        "version": _ints(found, "event.version"),
    }
    for name in dict.fromkeys(name for each in metrics for name in each):
        columns[name] = pd.Series([each.get(name) for each in metrics], dtype="float64")
    return pd.DataFrame(columns).sort_values("asked_s", kind="stable", ignore_index=True)


def _injections(lines: list[Line]) -> pd.DataFrame:
    """One row per ``Injected`` note.

    ``t`` when it took effect; ``target``, ``kind``, ``level`` (remaining fraction of processor, GPU or link, else 0 or
    1); ``by`` the mechanism; ``asked`` and ``achieved`` (read back) in cores, parts of a GPU, bytes per second on the
    wire, or 0 and 1, null for no limit; ``late_s`` behind the plan when it was begun, ``took_s`` until it was done;
    ``measured``: the remaining part of a GPU since the change before.
    """
    found = [line for line in lines if isinstance(line.note, Injected)]
    columns: dict[str, Any] = {"t": _floats(found, "t")}
    columns |= {name: _texts(found, f"note.{name}") for name in ("target", "kind", "by")}
    numbers = ("level", "asked", "achieved", "late_s", "took_s", "measured")
    columns |= {name: _floats(found, f"note.{name}") for name in numbers}
    return pd.DataFrame(columns)


def _nodes(lines: list[Line]) -> pd.DataFrame:
    """One row per task or host and sample.

    ``t``, ``period_s``, ``node``; ``cpu_cores`` used; ``memory_bytes``; ``out_bytes_per_s``, ``in_bytes_per_s`` (hosts,
    on the wire); ``busy_frac`` (servers: fraction of the time spent on updates).
    """
    found = [
        (line.t, line.event.period_s, *msgspec.structs.astuple(node))
        for line in lines
        if isinstance(line.event, Observed)
        for node in line.event.nodes
    ]
    frame = pd.DataFrame(found, columns=["t", "period_s", *NodeUse.__struct_fields__])
    return frame.astype({name: "float64" for name in frame.columns if name != "node"})


def _server_busy(gathered: Gathered) -> pd.DataFrame:
    """One row per ``Updated``: ``t``, ``server``, ``version``, ``updates``, ``busy_s``, ``injected_s``.

    It is a note, or an event if the strategy subscribes to it.
    """
    columns = {name: gathered.busy.take(name, kind) for name, kind in {"t": np.float64, **BUSY}.items()}
    return pd.DataFrame(columns, copy=False)


def _restarts(lines: list[Line]) -> pd.DataFrame:
    """One row per ``Lost``, ``Joined``, ``Failed``, ``ServerLost``, ``ServerJoined`` and ``Restored``.

    ``t``, ``what``, ``role`` (``worker``, ``server`` or ``job``), ``id`` (-1 for the job), ``reason``, ``version``.
    Changes that were ordered and undo nothing have other names: a node that was retired, or a server that held nothing,
    is ``Left``; parameters that were divided again are ``Repartitioned``; a job that gave its places to others was
    ``Preempted`` and is ``Resumed``.
    """
    found, moves, away = [], False, False
    for line in lines:
        if line.note is None and not isinstance(line.event, OF_TASKS):  # nearly all
            continue
        moves = (moves or isinstance(line.note, Repartitioning)) and not _takes_back(line)
        away = away or isinstance(line.note, Preempted)
        if away and isinstance(line.event, Restored):
            found.append((line.t, "Resumed", "job", -1, "", line.event.version))
        elif (row := _restart(line, moves)) is not None:
            found.append((line.t, *row))
        moves, away = (now and not isinstance(line.event, Restored) for now in (moves, away))
    frame = pd.DataFrame(found, columns=["t", "what", "role", "id", "reason", "version"])
    return frame.astype(
        {"t": "float64", "what": "str", "role": "str", "id": "int64", "reason": "str", "version": "int64"}
    )


def _takes_back(line: Line) -> bool:
    """Whether all return to the last checkpoint instead."""
    return isinstance(line.note, Rollback) or (isinstance(line.event, ServerLost) and line.event.holding)


def _restart(line: Line, moves: bool) -> tuple[str, str, int, str, int] | None:
    if isinstance(line.note, Preempted):
        return "Preempted", "job", -1, "", line.note.version
    match line.event:
        case Lost(worker=worker, reason=reason, cause="retired" | "evicted"):
            return "Left", "worker", worker, reason, line.version
        case ServerLost(server=server, reason=reason, holding=False):
            return "Left", "server", server, reason, line.version
        case ServerJoined(server=server):
            return "ServerJoined", "server", server, "", line.version
        case Restored(version=version) if moves:
            return "Repartitioned", "job", -1, "", version
        case Lost(worker=worker, reason=reason) | Failed(worker=worker, reason=reason):
            return type_of(line.event), "worker", worker, reason, line.version
        case Joined(worker=worker):
            return "Joined", "worker", worker, "", line.version
        case ServerLost(server=server, reason=reason):
            return "ServerLost", "server", server, reason, line.version
        case Restored(version=version):
            return "Restored", "job", -1, "", version
    return None


def _notes(lines: list[Line]) -> pd.DataFrame:
    """One row per note of the runtime except ``Updated``: ``seq``, ``t``, ``type``, ``fields`` (JSON)."""
    found = [line for line in lines if line.note is not None]
    return pd.DataFrame(
        {
            "seq": _ints(found, "seq"),
            "t": _floats(found, "t"),
            "type": pd.Series([type_of(line.note) for line in found], dtype="str"),
            "fields": pd.Series([_fields(line.note) for line in found], dtype="str"),
        }
    )


def _decisions(gathered: Gathered) -> pd.DataFrame:
    """One row per event: ``seq``, ``t``, ``event``, ``commands`` (their number), ``version``, ``decide_us``."""
    take = gathered.events.take
    return pd.DataFrame(
        {
            "seq": take("seq", np.int64),
            "t": take("t"),
            "event": _names(tuple(gathered.kinds), take("kind", np.int16)),
            "commands": take("commands", np.int64),
            "version": take("version", np.int64),
            "decide_us": take("decide_us"),
        },
        copy=False,
    )


def _fields(note: Any) -> str:
    return msgspec.json.encode(note.fields if isinstance(note, Other) else note).decode()


def _floats(rows: Sequence[object], path: str) -> pd.Series:
    """One field of every row; None becomes NaN."""
    return pd.Series(np.array(list(map(attrgetter(path), rows)), dtype="float64"))


def _ints(rows: Sequence[object], path: str) -> pd.Series:
    return pd.Series(np.array(list(map(attrgetter(path), rows)), dtype="int64"))


def _texts(rows: Sequence[object], path: str) -> pd.Series:
    return pd.Series(list(map(attrgetter(path), rows)), dtype="str")


def _names(names: Sequence[str], numbers: NDArray[Any]) -> pd.Series:
    """The name at every number, as text."""
    return pd.Series(pd.Categorical.from_codes(numbers, list(names))).astype("str")
