"""Read the record of a cluster's run: many jobs on shared hosts (``docs/record.md``).

The jobs' history is taken from ``cluster.jsonl`` alone, which is readable however the run ended. The tables that are
written at the end, if they exist, add samples of the hosts and numbers of iterations.
"""

from __future__ import annotations

import json
import os
from dataclasses import dataclass, field
from functools import cached_property
from math import isnan, nan
from pathlib import Path
from typing import Any

import pandas as pd
from msgspec.structs import replace

from analysis.records import cluster_notes as notes
from analysis.records.load import CLUSTER_EVENTS, RecordError, check_kind, load_object
from analysis.records.log import of_record, raw_lines
from analysis.records.meta import AboutCluster
from analysis.records.nodes import parse_node
from analysis.records.rows import has_end
from reading.tables import check_cells

GPUS_ONLY = "gpus_only"
"""The value of ``replay.detail`` with which jobs hold GPUs and do nothing else."""
MOVED = "moved"
"""How a span ends when a task moves, and the job continues."""
RESIZED = "resized"
"""How a span ends when a node comes or leaves, and the job continues."""
USED = ("cpu_cores", "in_bytes_per_s", "out_bytes_per_s")
HOST_COLUMNS = ("t_s", "host", "gpus_used", *USED)
HOST_TYPES = {"t_s": "float64", "host": "int64", "gpus_used": "int64", **dict.fromkeys(USED, "float64")}
JOB_TYPES = {
    **dict.fromkeys(("job", "user", "model", "status", "reason"), "str"),
    **dict.fromkeys(("submit_s", "start_s", "zero_s", "end_s", "duration_s"), "float64"),
    **dict.fromkeys(("gpus", "servers", "starts", "preemptions", "granted", "refused"), "int64"),
}
SPAN_COLUMNS = ("job", "start_s", "end_s", "ended", "workers", "servers")


@dataclass(frozen=True, eq=False)
class Cluster:
    """One record of a cluster; times in seconds of the cluster's clock.

    ``jobs`` has a row per submitted job in the order of submission: ``job``, ``user``, ``model``, ``submit_s``,
    ``start_s`` (it first had GPUs; NaN: never), ``zero_s`` (time 0 of its own record), ``end_s`` (NaN: never),
    ``duration_s`` (alone; NaN: unknown), ``gpus``, ``servers``, ``starts``, ``preemptions``, ``granted`` and
    ``refused`` (reservations), ``status`` (as in ``Ended``; ``running`` or ``waiting`` at the end of the record) and
    ``reason``. ``spans`` has a row per time in
    which a job held the same GPUs: ``job``, ``start_s``, ``end_s`` (of the record if it still ran), ``ended``
    (``preempted``, ``moved``: a task is elsewhere in the next, ``resized``: a node more or less; ``ended``, ``open``),
    ``workers`` and ``servers``
    (tuples of host numbers). ``hosts`` has the samples of the hosts (empty if there are none). ``stored`` is
    ``jobs.parquet``, None if the run did not come to write it. ``end_s``: time of the last line; ``torn``: a line
    after it was cut off.
    """

    path: Path
    meta: dict[str, Any]
    jobs: pd.DataFrame
    spans: pd.DataFrame
    hosts: pd.DataFrame
    stored: pd.DataFrame | None
    end_s: float
    status: str
    torn: bool = False

    @cached_property
    def machines(self) -> pd.DataFrame:
        """A row per host by its number (the index ``host``): ``gpus``, ``cores``, ``link_bytes_per_s`` (NaN: none)."""
        return machines_of(self.meta)

    @property
    def folders(self) -> dict[str, Path]:
        """The directory of each job that has a record of its own, by the job's name."""
        root = self.path / "jobs"
        return {name: root / name for name in self.jobs["job"] if (root / name).is_dir()}


def machines_of(meta: dict[str, Any]) -> pd.DataFrame:
    """The hosts that ``meta.json`` describes, as :attr:`Cluster.machines` has them."""
    hosts = meta["machine"]["hosts"]
    numbers = pd.Index([host.get("number", place) for place, host in enumerate(hosts)], name="host", dtype="int64")
    columns = {
        "gpus": [host["gpus"] or 0 for host in hosts],
        "cores": [nan if host.get("cores") is None else host["cores"] for host in hosts],
        "link_bytes_per_s": [
            nan if host.get("link_bytes_per_s") is None else host["link_bytes_per_s"] for host in hosts
        ],
    }
    return pd.DataFrame(columns, index=numbers).astype({"cores": "float64", "link_bytes_per_s": "float64"})


def load_cluster(path: str | os.PathLike[str]) -> Cluster:
    """Read the directory of a cluster's run; a torn last line and missing tables are accepted (the run was killed).

    Raises:
        RecordError: a file is missing or malformed, or the notes contradict each other.
    """
    root = Path(path)
    with of_record(root):
        return _load(root)


def _load(root: Path) -> Cluster:
    meta = _load_meta(root / "meta.json")
    entries, torn = notes.read_entries(root / CLUSTER_EVENTS)
    lives, status = _lives(root / CLUSTER_EVENTS, entries)
    end_s = entries[-1].t if entries else 0.0
    spans = [span for life in lives.values() for span in life.closed(end_s)]
    return Cluster(
        path=root,
        meta=meta,
        jobs=pd.DataFrame([life.row() for life in lives.values()], columns=list(JOB_TYPES)).astype(JOB_TYPES),
        spans=pd.DataFrame(spans, columns=list(SPAN_COLUMNS)).astype({"start_s": "float64", "end_s": "float64"}),
        hosts=_hosts(root, meta),
        stored=_table(root / "jobs.parquet"),
        end_s=end_s,
        status=status or ("done" if lives and all(life.status for life in lives.values()) else "killed"),
        torn=torn,
    )


@dataclass
class _Life:
    """The state of one job so far."""

    submitted: notes.Submitted
    submit_s: float
    zero_s: float = nan
    end_s: float = nan
    status: str = ""
    reason: str = ""
    leaves: bool = False
    granted: int = 0
    refused: int = 0
    spans: list[tuple[str, float, float, str, tuple[int, ...], tuple[int, ...]]] = field(default_factory=list)
    placed: tuple[float, notes.Placed] | None = None

    def note(self, t: float, note: notes.OfJob) -> str:
        """Take one more note; returns what is wrong with it, or nothing."""
        match note:
            case notes.Placed() if not self.status and (self.placed is None or self.leaves):
                self._leave(t, "preempted")
                self.placed = (t, note)
            case notes.Began() if self.placed is not None and not self.leaves:
                self.zero_s = t if isnan(self.zero_s) else self.zero_s
            case notes.Moved(task=task, host=host) if self.placed is not None:
                self._move(t, task, host)
            case notes.Granted() | notes.Returned() if self.placed is not None:
                self._resize(t, note.workers, note.servers)
            case notes.Preempted() if self.placed is not None and not self.leaves:
                self.leaves = True
            case notes.Queued() if not self.status and (self.placed is None or self.leaves):
                self._leave(t, "preempted")
            case notes.Reserved():
                self.granted += 1
            case notes.Refused():
                self.refused += 1
            case notes.Ended(status=status, reason=reason) if not self.status:
                self._leave(t, "ended")
                self.end_s, self.status, self.reason = t, status, reason
            case _:
                there = "has ended" if self.status else "has no GPUs" if self.placed is None else "has its GPUs"
                return f"job {self.submitted.job} {there}"
        return ""

    def _leave(self, t: float, how: str) -> None:
        if self.placed is not None:
            since, note = self.placed
            self.spans.append((note.job, since, t, how, note.workers, note.servers))
        self.placed, self.leaves = None, False

    def _move(self, t: float, task: str, host: int) -> None:
        """Begin a new span for what it holds from now on."""
        assert self.placed is not None
        (_, before), leaves, node = self.placed, self.leaves, parse_node(task)
        self._leave(t, MOVED)
        hosts = list(before.workers if node.role == "worker" else before.servers)
        hosts[node.number] = host
        self.placed, self.leaves = (t, replace(before, **{f"{node.role}s": tuple(hosts)})), leaves

    def _resize(self, t: float, workers: tuple[int, ...], servers: tuple[int, ...]) -> None:
        """Begin a new span for the nodes that it has from now on; several changes of one moment are one."""
        assert self.placed is not None
        (since_s, before), leaves = self.placed, self.leaves
        if t > since_s:
            self._leave(t, RESIZED)
        self.placed, self.leaves = (t, replace(before, workers=workers, servers=servers)), leaves

    def closed(self, end_s: float) -> list[tuple[Any, ...]]:
        """Its spans; one that is open at the end of the record ends there."""
        self._leave(end_s, "open")
        return list(self.spans)

    def row(self) -> tuple[Any, ...]:
        """Its row of the table ``jobs``, in the order of the columns; seconds of the cluster's clock."""
        about, ends = self.submitted, [span[3] for span in self.spans]
        status = self.status or ("running" if "open" in ends else "waiting")
        start_s = self.spans[0][1] if self.spans else nan
        duration_s = nan if about.duration_s is None else about.duration_s
        times = (self.submit_s, start_s, self.zero_s, self.end_s, duration_s)
        numbers = (
            about.gpus,
            about.servers,
            len(ends) - ends.count(MOVED) - ends.count(RESIZED),
            ends.count("preempted"),
            self.granted,
            self.refused,
        )
        return (about.job, about.user, about.model, status, self.reason, *times, *numbers)


def _lives(path: Path, entries: list[notes.Entry]) -> tuple[dict[str, _Life], str]:
    """Return the states of all jobs by name, and the status in the record's last line (empty without one)."""
    lives: dict[str, _Life] = {}
    status = ""
    for number, entry in enumerate(entries, start=1):
        note, problem = entry.note, ""
        if note is None:
            continue
        if isinstance(note, notes.Finished):
            status = note.status
        elif isinstance(note, notes.Submitted):
            problem = f"job {note.job} was submitted before" if note.job in lives else ""
            lives.setdefault(note.job, _Life(note, entry.t if note.submit_s is None else note.submit_s))
        else:
            problem = (
                lives[note.job].note(entry.t, note) if note.job in lives else f"job {note.job} was never submitted"
            )
        if problem:
            raise RecordError(f"{path}:{number}: {note.__struct_config__.tag}, but {problem}. The record is damaged")
    return lives, status


def _load_meta(path: Path) -> dict[str, Any]:
    meta = load_object(path)
    check_kind(path, meta, AboutCluster)
    return meta


def _hosts(root: Path, meta: dict[str, Any]) -> pd.DataFrame:
    """The samples; processors and links, which are 0 where only GPUs were modelled, are unknown (NaN) then."""
    table = _table(root / "hosts.parquet")
    if table is None:
        table = _host_lines(root / "hosts.jsonl")
    replay = (meta.get("cluster") or {}).get("replay") or {}
    return table.assign(**dict.fromkeys(USED, nan)) if replay.get("detail") == GPUS_ONLY else table


def _host_lines(path: Path) -> pd.DataFrame:
    """The samples that a killed run has left: arrays, one a line, of which the last may be torn."""
    rows = list[list[Any]]()
    for line in raw_lines(path) if path.is_file() else ():
        if line.endswith(b"\n"):
            check_cells(len(rows), len(HOST_COLUMNS))
            rows.append([nan if value is None else value for value in json.loads(line)])
    return pd.DataFrame(rows, columns=list(HOST_COLUMNS)).astype(HOST_TYPES)


def _table(path: Path) -> pd.DataFrame | None:
    """A table that is written at the end; None if the run did not get so far."""
    return pd.read_parquet(path) if path.is_file() and has_end(path) else None
