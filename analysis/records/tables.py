"""Tidy frames of one run, one row per occurrence; times in seconds since the job's start."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from operator import attrgetter
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd

from analysis.records import rows
from analysis.records.history import Arrival, History, Update
from analysis.records.jumps import iterations_with, jumps_of, updates_with
from analysis.records.schema import (
    DURATIONS,
    PARTS,
    Evaluated,
    Failed,
    Injected,
    Joined,
    Line,
    Lost,
    NodeUse,
    Observed,
    Other,
    Repartitioning,
    Restored,
    RollingBack,
    ServerJoined,
    ServerLost,
    Updated,
    type_of,
)

_OF_TASKS = (Lost, Joined, Failed, ServerLost, ServerJoined, Restored)


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


def make_tables(lines: list[Line], gradients: History | Path) -> Tables:
    """All frames of a run; ``gradients``: their history, or the file of rows. Tables without rows are empty frames.

    Iterations and updates that were skipped are there, too (:mod:`analysis.records.jumps`).
    """
    if isinstance(gradients, Path):
        iterations = rows.read_rows(gradients)
        updates = rows.updates_of(iterations)
    else:
        iterations, updates = _iterations(gradients.arrivals), _updates(gradients.updates)
    if jumps := jumps_of(lines):
        iterations, updates = iterations_with(iterations, jumps), updates_with(updates, jumps)
    return Tables(
        iterations=iterations,
        updates=updates,
        evaluations=_evaluations(lines),
        server_busy=_server_busy(lines),
        restarts=_restarts(lines),
        injections=_injections(lines),
        nodes=_nodes(lines),
        notes=_notes(lines),
        decisions=_decisions(lines),
    )


def _iterations(arrivals: list[Arrival]) -> pd.DataFrame:
    """One row per ``Arrived``.

    ``t`` arrival; ``worker``, ``incarnation``, ``iteration``; ``grad`` its id; ``version_read``; ``samples``,
    ``assigned_samples``; the five durations, and all else of ``Timings`` (``injected_s``, ``overrun_s``: parts of
    ``compute_s``; ``recv_s``; ``cpu_s``, null where unknown);
    ``iter_s`` = data + compute + send; ``bpt_s`` = data + compute; ``start_s`` = t minus all five; ``issued_s`` when
    the Compute was carried out; ``loss``; ``fate`` (``applied``, ``dropped``, ``void``: rolled back, ``open``: unused
    at the end, ``empty``: no samples); ``applied_version``, ``applied_t``, ``staleness`` (null where never applied).
    """
    columns: dict[str, Any] = {"t": _floats(arrivals, "t")}
    grads = {"grad": "id", "version_read": "version"}
    names = ("worker", "incarnation", "iteration", "grad", "version_read", "samples", "assigned_samples")
    columns |= _block(arrivals, {name: f"grad.{grads.get(name, name)}" for name in names}, "int64")
    known = [name for name in (*DURATIONS, *PARTS) if name != "cpu_s"]
    durations = _block(arrivals, {name: f"timings.{name}" for name in known}, "float64")
    durations["cpu_s"] = _floats(arrivals, "timings.cpu_s")
    columns |= {name: durations[name] for name in (*DURATIONS, *PARTS)}
    columns["iter_s"] = columns["data_s"] + columns["compute_s"] + columns["send_s"]
    columns["bpt_s"] = columns["data_s"] + columns["compute_s"]
    columns["start_s"] = columns["t"] - sum(columns[name] for name in DURATIONS)
    columns["issued_s"] = _floats(arrivals, "issued_s")
    columns["loss"] = _floats(arrivals, "loss")
    columns["fate"] = _texts(arrivals, "fate")
    columns["applied_version"] = _floats(arrivals, "applied_version").astype("Int64")
    columns["applied_t"] = _floats(arrivals, "applied_t")
    columns["staleness"] = _floats(arrivals, "staleness").astype("Int64")
    return pd.DataFrame(columns)


def _updates(updates: list[Update]) -> pd.DataFrame:
    """One row per update carried out: ``t``, ``version``, ``num_grads``, ``samples``, ``lr_scale``, ``void``."""
    return pd.DataFrame(
        {
            "t": _floats(updates, "t"),
            "version": _ints(updates, "version"),
            "num_grads": pd.Series([len(update.grads) for update in updates], dtype="int64"),
            "samples": _ints(updates, "samples"),
            "lr_scale": _floats(updates, "lr_scale"),
            "void": _ints(updates, "void").astype("bool"),
        }
    )


def _evaluations(lines: list[Line]) -> pd.DataFrame:
    """One row per ``Evaluated``: ``asked_s`` (time of the snapshot), ``t``, ``version``, and a column per metric."""
    found = [line for line in lines if isinstance(line.event, Evaluated)]
    metrics: list[dict[str, float | None]] = [line.event.metrics for line in found if isinstance(line.event, Evaluated)]
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

    ``t`` when it took effect; ``target``, ``kind``, ``level`` (remaining fraction of processor or link, else 0 or 1);
    ``by`` the mechanism; ``asked`` and ``achieved`` (read back) in cores, bytes per second on the wire, or 0 and 1,
    null for no limit; ``late_s`` behind the plan when it was begun, ``took_s`` until it was done.
    """
    found = [line for line in lines if isinstance(line.note, Injected)]
    columns: dict[str, Any] = {"t": _floats(found, "t")}
    columns |= {name: _texts(found, f"note.{name}") for name in ("target", "kind", "by")}
    columns |= {name: _floats(found, f"note.{name}") for name in ("level", "asked", "achieved", "late_s", "took_s")}
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


def _server_busy(lines: list[Line]) -> pd.DataFrame:
    """One row per ``Updated``: ``t``, ``server``, ``version``, ``updates``, ``busy_s``, ``injected_s``.

    It is a note, or an event if the strategy subscribes to it.
    """
    found = [(line.t, update) for line in lines if isinstance(update := line.note or line.event, Updated)]
    columns: dict[str, Any] = {"t": np.array([t for t, _ in found], dtype="float64")}
    kinds = {"server": "int64", "version": "int64", "updates": "int64", "busy_s": "float64", "injected_s": "float64"}
    columns |= {
        name: np.array([getattr(update, name) for _, update in found], dtype=kind) for name, kind in kinds.items()
    }
    return pd.DataFrame(columns)


def _restarts(lines: list[Line]) -> pd.DataFrame:
    """One row per ``Lost``, ``Joined``, ``Failed``, ``ServerLost``, ``ServerJoined`` and ``Restored``.

    ``t``, ``what``, ``role`` (``worker``, ``server`` or ``job``), ``id`` (-1 for the job), ``reason``, ``version``.
    What was ordered and undoes nothing has other names: a node that was retired is ``Left``, and so is a server that
    held nothing; parameters that were divided again are ``Repartitioned``.
    """
    found, moves = [], False
    for line in lines:
        if line.note is None and not isinstance(line.event, _OF_TASKS):  # nearly all
            continue
        moves = (moves or isinstance(line.note, Repartitioning)) and not _takes_back(line)
        if (row := _restart(line, moves)) is not None:
            found.append((line.t, *row))
        moves = moves and not isinstance(line.event, Restored)
    frame = pd.DataFrame(found, columns=["t", "what", "role", "id", "reason", "version"])
    return frame.astype(
        {"t": "float64", "what": "str", "role": "str", "id": "int64", "reason": "str", "version": "int64"}
    )


def _takes_back(line: Line) -> bool:
    """Whether all return to the last checkpoint instead."""
    return isinstance(line.note, RollingBack) or (isinstance(line.event, ServerLost) and line.event.holding)


def _restart(line: Line, moves: bool) -> tuple[str, str, int, str, int] | None:
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
    found = [line for line in lines if line.note is not None and not isinstance(line.note, Updated)]
    return pd.DataFrame(
        {
            "seq": _ints(found, "seq"),
            "t": _floats(found, "t"),
            "type": pd.Series([type_of(line.note) for line in found], dtype="str"),
            "fields": pd.Series([_fields(line.note) for line in found], dtype="str"),
        }
    )


def _decisions(lines: list[Line]) -> pd.DataFrame:
    """One row per event: ``seq``, ``t``, ``event``, ``commands`` (their number), ``version``, ``decide_us``."""
    found = [line for line in lines if line.event is not None]
    return pd.DataFrame(
        {
            "seq": _ints(found, "seq"),
            "t": _floats(found, "t"),
            "event": pd.Series([type_of(line.event) for line in found], dtype="str"),
            "commands": pd.Series([len(line.commands) for line in found], dtype="int64"),
            "version": _ints(found, "version"),
            "decide_us": _floats(found, "decide_us"),
        }
    )


def _fields(note: Any) -> str:
    return msgspec.json.encode(note.fields if isinstance(note, Other) else note).decode()


def _floats(rows: Sequence[object], path: str) -> pd.Series:
    """One field of every row; None becomes NaN."""
    return pd.Series(np.array(list(map(attrgetter(path), rows)), dtype="float64"))


def _block(rows: Sequence[object], paths: Mapping[str, str], kind: str) -> dict[str, pd.Series]:
    """Several fields of every row, by column, none of which is None: one look at each row."""
    values = chain.from_iterable(map(attrgetter(*paths.values()), rows))
    block = np.fromiter(values, kind, len(rows) * len(paths)).reshape(len(rows), len(paths))
    return {name: pd.Series(column.copy()) for name, column in zip(paths, block.T, strict=True)}


def _ints(rows: Sequence[object], path: str) -> pd.Series:
    return pd.Series(np.array(list(map(attrgetter(path), rows)), dtype="int64"))


def _texts(rows: Sequence[object], path: str) -> pd.Series:
    return pd.Series(list(map(attrgetter(path), rows)), dtype="str")
