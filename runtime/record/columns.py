"""One row per iteration instead of one line per event: the record of jobs too large for an event log.

Rows are streamed to ``iterations.parquet`` in groups, so memory does not grow with the job. A row is written when the
outcome of its gradient is known; ``docs/record.md`` describes the columns.
"""

from __future__ import annotations

import contextlib
import errno
import os
import resource
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, ClassVar, Literal

import numpy as np
from msgspec.structs import astuple
from numpy.typing import NDArray

from runtime.record.recorder import Recorder, reserve_space
from strategies.protocol import Apply, Arrived, Drop, Timings

GROUP_ROWS, PENDING_ROWS = 1 << 17, 1 << 12
"""Rows that are written, and that are turned into columns, at once."""
PAGE_BYTES, BATCH_ROWS = 1 << 23, 1 << 16
"""A column of a group is one page, encoded in large pieces: pyarrow's own sizes took 8 to 30 % longer, by hand."""
GROUP_BYTES, END_BYTES = 1 << 13, 1 << 16
"""Bytes, an upper bound: a group's column headers and its share of the file's footer; the rest of the footer."""
INTEGERS = (
    "worker",
    "iteration",
    "grad",
    "version_read",
    "samples",
    "assigned_samples",
    "applied_version",
)
FLOATS = ("t", *Timings.__struct_fields__, "applied_t")
UNNAMED = {name: getattr(Timings(), name) for name in Timings.__struct_fields__ if getattr(Timings(), name) is not None}
"""The default of a column that a block does not name, if not NaN: as for a worker that does not report it."""
NEVER = 0
"""``applied_version`` of a dropped gradient; its ``applied_t`` is NaN."""

Row = tuple[float | None, ...]
"""One value per column, in the order of ``INTEGERS``, then ``FLOATS``."""


class IterationWriter:
    """Appends rows or column blocks to ``iterations.parquet``; calls ``release_reserve`` when the disk is full."""

    def __init__(self, run_dir: Path, release_reserve: Callable[[], None] = lambda: None) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = [(name, pa.int64()) for name in INTEGERS] + [(name, pa.float64()) for name in FLOATS]
        self._schema = pa.schema(fields)
        # Lossless: numbers that count up become differences; of floats, the bytes that vary little lie side by side.
        encodings = dict.fromkeys(INTEGERS, "DELTA_BINARY_PACKED") | dict.fromkeys(FLOATS, "BYTE_STREAM_SPLIT")
        self._path, self._groups = run_dir / "iterations.parquet", 0
        self._writer = pq.ParquetWriter(
            self._path,
            self._schema,
            compression="lz4",  # of what zstd takes, encoding included, three quarters, for a tenth more bytes
            use_dictionary=False,
            column_encoding=encodings,
            write_statistics=False,
            data_page_size=PAGE_BYTES,
            write_batch_size=BATCH_ROWS,
        )
        self._rows: list[Row] = []
        kinds = dict.fromkeys(INTEGERS, np.int64) | dict.fromkeys(FLOATS, np.float64)
        self._group: dict[str, NDArray[Any]] = {name: np.empty(GROUP_ROWS, kind) for name, kind in kinds.items()}
        self._filled = 0
        self._release_reserve, self._open = release_reserve, True

    def row(self, row: Row) -> None:
        """Append one iteration to the pending rows."""
        self._rows.append(row)
        if len(self._rows) >= PENDING_ROWS:
            self._flush_rows()

    def block(self, columns: Mapping[str, NDArray[Any] | float]) -> None:
        """Append several iterations: ``worker`` has one value per row, others that or one for all; else ``UNNAMED``."""
        self._flush_rows()
        num_rows, begun = np.size(columns["worker"]), 0
        while begun < num_rows:
            end = min(num_rows, begun + GROUP_ROWS - self._filled)
            filled = self._filled + end - begun
            for name, into in self._group.items():
                values = columns.get(name, UNNAMED.get(name, np.nan))
                into[self._filled : filled] = values[begun:end] if isinstance(values, np.ndarray) else values
            self._filled, begun = filled, end
            if filled == GROUP_ROWS:
                self._write()

    def close(self) -> None:
        """Flush the pending rows and write the file's footer."""
        if self._open:
            self._flush_rows()
            self._write()
            self._open = False
            self._writer.close()

    def _flush_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            values = zip(*rows, strict=True)
            self.block({
                name: np.array(column, dtype=into.dtype)
                for column, (name, into) in zip(values, self._group.items(), strict=True)
            })  # fmt: skip

    def _write(self) -> None:
        """Write the group as far as it is filled."""
        import pyarrow as pa

        num_rows, self._filled = self._filled, 0
        if not num_rows:
            return
        columns = zip(self._schema.types, self._group.values(), strict=True)
        # from buffers: to look at values, pyarrow would import pandas, which takes a third of a second
        arrays = [pa.Array.from_buffers(kind, num_rows, [None, pa.py_buffer(own[:num_rows])]) for kind, own in columns]
        table = pa.Table.from_arrays(arrays, schema=self._schema)
        try:
            self._ensure_space(table.nbytes)
            self._writer.write_table(table, row_group_size=GROUP_ROWS)
            self._groups += 1
        except OSError:
            self._open = False
            self._release_reserve()
            with contextlib.suppress(OSError):
                self._writer.close()
            raise

    def _ensure_space(self, num_bytes: int) -> None:
        """Make sure that the group, even uncompressed, and the footer fit: without that no row can be read."""
        needed = num_bytes + GROUP_BYTES * (self._groups + 1) + END_BYTES
        limit = resource.getrlimit(resource.RLIMIT_FSIZE)[0]
        if limit != resource.RLIM_INFINITY and self._path.stat().st_size + needed > limit:
            raise OSError(errno.EFBIG, os.strerror(errno.EFBIG), str(self._path))
        try:
            room = reserve_space(self._path.parent, needed)
        except OSError as error:
            raise OSError(error.errno, error.strerror, str(self._path)) from None
        if room is not None:
            os.close(room)


class ColumnRecorder:
    """A recorder that writes arrivals as rows, and everything else as lines of ``events.jsonl``."""

    keeps: ClassVar[Literal["rows"]] = "rows"

    def __init__(self, run_dir: Path) -> None:
        self.lines = Recorder(run_dir)
        self.rows = IterationWriter(run_dir, self.lines.release_reserve)
        self.open_rows: dict[int, tuple[float, Arrived]] = {}

    def event(self, t: float, event: object, commands: Any, version: int, decide_us: float, state: object) -> None:
        """Hold an arrival until its gradient is applied or dropped; write other events at once, without commands."""
        if isinstance(event, Arrived):
            if event.grad.samples:
                self.open_rows[event.grad.id] = (t, event)
        else:
            self.lines.event(t, event, (), version, decide_us, None)
        number = version
        for command in commands:
            if isinstance(command, Apply):
                number -= 1
        for command in commands:
            if isinstance(command, Apply):
                number += 1
                for grad in command.grads:
                    self._decided(grad, number, t)
            elif isinstance(command, Drop):
                for grad in command.grads:
                    self._decided(grad, NEVER, float("nan"))

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """Write a note line; before the job's last one, close the rows, so that it can say if they are complete."""
        if kind == "Finished":
            self.rows.close()
        self.lines.note(t, kind, **fields)

    def close(self) -> None:
        """Close both files; gradients that were neither applied nor dropped are left out."""
        try:
            self.rows.close()
        finally:
            self.lines.close()

    def _decided(self, grad_id: int, applied_version: int, applied_t: float) -> None:
        waiting = self.open_rows.pop(grad_id, None)
        if waiting is None:  # already resolved, or the job ended before the command was executed
            return
        t, event = waiting
        grad, timings = event.grad, event.timings
        self.rows.row(
            (
                grad.worker,
                grad.iteration,
                grad.id,
                grad.version,
                grad.samples,
                grad.assigned_samples,
                applied_version,
                t,
                *astuple(timings),
                applied_t,
            )
        )
