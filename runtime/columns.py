"""One row per iteration instead of one line per event: the record of jobs too large for an event log.

Rows are streamed to ``iterations.parquet`` in groups, so memory does not grow with the job. A row is written when the
fate of its gradient is decided; ``docs/record.md`` describes the columns.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.recorder import Recorder
from strategies.protocol import Apply, Arrived, Drop

GROUP_ROWS = 1 << 17
INTEGERS = (
    "worker",
    "iteration",
    "grad",
    "version_read",
    "samples",
    "assigned_samples",
    "applied_version",
)
FLOATS = (
    "t",
    "wait_s",
    "pull_s",
    "data_s",
    "compute_s",
    "send_s",
    "injected_s",
    "overrun_s",
    "applied_t",
)
NEVER = 0
"""``applied_version`` of a gradient that was dropped; ``applied_t`` is not a number then."""

Row = tuple[int, int, int, int, int, int, int, float, float, float, float, float, float, float, float, float]
"""In the order of ``INTEGERS``, then ``FLOATS``."""


class IterationWriter:
    """Appends rows, or blocks of columns, to ``iterations.parquet``."""

    def __init__(self, run_dir: Path) -> None:
        import pyarrow as pa
        import pyarrow.parquet as pq

        fields = [(name, pa.int64()) for name in INTEGERS] + [(name, pa.float64()) for name in FLOATS]
        self._schema = pa.schema(fields)
        # plain and uncompressed: the columns are nearly random, and time is what such jobs lack
        self._writer = pq.ParquetWriter(
            run_dir / "iterations.parquet",
            self._schema,
            compression="none",
            use_dictionary=False,
            write_statistics=False,
        )
        self._rows: list[Row] = []
        self._blocks: list[dict[str, NDArray[Any]]] = []
        self._num_rows = 0

    def row(self, row: Row) -> None:
        """One iteration."""
        self._rows.append(row)
        if len(self._rows) >= GROUP_ROWS:
            self._flush_rows()

    def block(self, columns: dict[str, NDArray[Any]]) -> None:
        """Several iterations: every column with one value per row."""
        self._blocks.append(columns)
        self._num_rows += len(columns["worker"])
        if self._num_rows >= GROUP_ROWS:
            self._flush_blocks()

    def close(self) -> None:
        """No more rows."""
        self._flush_rows()
        self._flush_blocks()
        self._writer.close()

    def _flush_rows(self) -> None:
        rows, self._rows = self._rows, []
        if rows:
            values = list(zip(*rows, strict=True))
            kinds = [np.int64] * len(INTEGERS) + [np.float64] * len(FLOATS)
            arrays = [np.array(column, dtype=kind) for column, kind in zip(values, kinds, strict=True)]
            self._write(dict(zip((*INTEGERS, *FLOATS), arrays, strict=True)))

    def _flush_blocks(self) -> None:
        blocks, self._blocks, self._num_rows = self._blocks, [], 0
        if blocks:
            self._write({name: np.concatenate([block[name] for block in blocks]) for name in (*INTEGERS, *FLOATS)})

    def _write(self, columns: dict[str, NDArray[Any]]) -> None:
        import pyarrow as pa

        self._writer.write_table(pa.table(columns, schema=self._schema), row_group_size=GROUP_ROWS)


class ColumnRecorder:
    """A record whose arrivals are rows; everything else is lines of ``events.jsonl`` as usual."""

    def __init__(self, run_dir: Path) -> None:
        self.lines = Recorder(run_dir)
        self.rows = IterationWriter(run_dir)
        self._open: dict[int, tuple[float, Arrived]] = {}

    def event(self, t: float, event: object, commands: Any, version: int, decide_us: float, state: object) -> None:
        """An arrival waits for the fate of its gradient; other events are written at once, without their commands."""
        if isinstance(event, Arrived):
            if event.grad.samples:
                self._open[event.grad.id] = (t, event)
        else:
            self.lines.event(t, event, (), version, decide_us, None)
        applied = sum(isinstance(command, Apply) for command in commands)
        number = version - applied
        for command in commands:
            if isinstance(command, Apply):
                number += 1
                for grad in command.grads:
                    self._decided(grad, number, t)
            elif isinstance(command, Drop):
                for grad in command.grads:
                    self._decided(grad, NEVER, float("nan"))

    def note(self, t: float, kind: str, /, **fields: object) -> None:
        """A line."""
        self.lines.note(t, kind, **fields)

    def close(self) -> None:
        """No more lines or rows; gradients whose fate is open are left out."""
        self.rows.close()
        self.lines.close()

    def _decided(self, grad_id: int, applied_version: int, applied_t: float) -> None:
        if grad_id not in self._open:  # the job ended before this command was carried out
            return
        t, event = self._open.pop(grad_id)
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
                timings.wait_s,
                timings.pull_s,
                timings.data_s,
                timings.compute_s,
                timings.send_s,
                timings.injected_s,
                timings.overrun_s,
                applied_t,
            )
        )
