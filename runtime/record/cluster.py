"""The record of a cluster: its notes, its hosts' use, and a row for every job; see ``docs/record.md``."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import islice
from math import nan
from pathlib import Path
from typing import Any, final

import msgspec

from runtime.record.recorder import Recorder
from strategies.protocol import NodeId

LOG = "cluster.jsonl"
HOST_LINES = "hosts.jsonl"
"""The rows of ``hosts.parquet`` during the run: arrays, one a line."""
GROUP_ROWS = 1 << 13
"""Rows of ``hosts.parquet`` that are written at once."""


class HostRow(msgspec.Struct, frozen=True, array_like=True, gc=False):
    """The use of one host during a period that ended at ``t_s``."""

    t_s: float
    host: int
    gpus_used: int
    cpu_cores: float
    in_bytes_per_s: float
    out_bytes_per_s: float


class JobRow(msgspec.Struct, kw_only=True):
    """The times and the state of one job of the source."""

    job: str
    submit_s: float
    start_s: float | None = None
    """Time of the first start."""
    end_s: float | None = None
    gpus: int
    servers: int
    model: str
    user: str
    status: str = "unsubmitted"
    starts: int = 0
    preemptions: int = 0
    iterations: int = 0
    worker_hosts: list[int] = []
    server_hosts: list[int] = []


@final
class JobTable:
    """The jobs of a cluster as its notes tell of them (pure)."""

    def __init__(self, rows: Sequence[JobRow]) -> None:
        self.rows = {row.job: row for row in rows}
        self.held_s = 0.0
        """GPU seconds that jobs have held, of each until it has given its GPUs back."""
        self._since_s: dict[str, float] = {}
        self._gpus: dict[str, int] = {}
        """GPUs of the jobs that hold any."""

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        """Update the row of the job that the note is about."""
        row = self.rows.get(fields.get("job", ""))
        if row is None:
            return
        match kind:
            case "Submitted":
                row.status = "waiting"
            case "Placed":
                row.worker_hosts, row.server_hosts = list(fields["workers"]), list(fields["servers"])
                row.starts += 1
                row.status = "running"
                row.start_s = t if row.start_s is None else row.start_s
                self._since_s[row.job], self._gpus[row.job] = t, len(row.worker_hosts)
            case "Granted" | "Returned":
                self._on_released(row, t)
                row.worker_hosts, row.server_hosts = list(fields["workers"]), list(fields["servers"])
                self._since_s[row.job], self._gpus[row.job] = t, len(row.worker_hosts)
            case "Moved":
                node = NodeId.parse(fields["task"])
                hosts = row.worker_hosts if node.role == "worker" else row.server_hosts
                hosts[node.number] = fields["host"]
            case "Preempted":
                row.preemptions += 1
            case "Queued":
                row.status = "waiting"
                self._on_released(row, t)
            case "Ended":
                row.status, row.end_s = fields["status"], t
                self._on_released(row, t)

    def _on_released(self, row: JobRow, t: float) -> None:
        self.held_s += self._gpus.pop(row.job, 0) * (t - self._since_s.pop(row.job, t))

    def counts(self) -> dict[str, int]:
        """Number of jobs by status."""
        counts: dict[str, int] = {}
        for row in self.rows.values():
            counts[row.status] = counts.get(row.status, 0) + 1
        return counts


@final
class ClusterRecorder:
    """Writes the record of a cluster into ``run_dir``; raises ``FileExistsError`` if it has one.

    ``reasons``: why jobs have ended, filled in when they end, for the note ``Ended``.
    """

    def __init__(self, run_dir: Path, rows: Sequence[JobRow]) -> None:
        self.run_dir, self.table = run_dir, JobTable(rows)
        self.reasons: dict[str, str] = {}
        self._lines = Recorder(run_dir, LOG)
        self._hosts = _HostWriter(run_dir)

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        """Append a line to ``cluster.jsonl``."""
        if kind == "Ended":
            fields["reason"] = self.reasons.get(fields["job"], "")
        self.table.note(t, kind, **fields)
        self._lines.note(t, kind, **fields)

    def hosts(self, rows: Sequence[HostRow]) -> None:
        """Append rows of the hosts' use."""
        self._hosts.append(rows)

    def close(self) -> None:
        """Write the table of jobs and close all files; the log is closed whatever happens to the others."""
        try:
            self._hosts.close()
            write_jobs(self.run_dir / "jobs.parquet", list(self.table.rows.values()))
        finally:
            self._lines.close()


@final
class _HostWriter:
    """Writes rows as lines at once, so that a killed run leaves them readable; at the end they become a table."""

    def __init__(self, run_dir: Path) -> None:
        self._lines, self._table = run_dir / HOST_LINES, run_dir / "hosts.parquet"
        self._file = self._lines.open("xb", buffering=0)

    def append(self, rows: Sequence[HostRow]) -> None:
        if rows:
            self._file.write(b"".join(msgspec.json.encode(row) + b"\n" for row in rows))

    def close(self) -> None:
        """The lines remain if the table cannot be written."""
        self._file.close()
        if self._lines.exists():
            self._convert()
            self._lines.unlink()

    def _convert(self) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        kinds: dict[type[Any] | str, Any] = {"float": pa.float64(), "int": pa.int64()}
        names, hints = HostRow.__struct_fields__, HostRow.__annotations__
        schema = pa.schema([(name, kinds[hints[name]]) for name in names])
        with self._lines.open("rb") as lines, pq.ParquetWriter(self._table, schema, compression="zstd") as writer:
            while rows := [msgspec.json.decode(line) for line in islice(lines, GROUP_ROWS)]:
                columns = {
                    name: [nan if value is None else value for value in column]
                    for name, column in zip(names, zip(*rows, strict=True), strict=True)
                }
                writer.write_table(pa.table(columns, schema=schema))


def write_jobs(path: Path, rows: Sequence[JobRow]) -> None:
    """One row per job, in this order."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    kinds: Mapping[str, Any] = {
        "str": pa.string(),
        "int": pa.int64(),
        "float": pa.float64(),
        "float | None": pa.float64(),
        "list[int]": pa.list_(pa.int64()),
    }
    schema = pa.schema([(name, kinds[JobRow.__annotations__[name]]) for name in JobRow.__struct_fields__])
    columns = {name: [getattr(row, name) for row in rows] for name in JobRow.__struct_fields__}
    pq.write_table(pa.table(columns, schema=schema), path)
