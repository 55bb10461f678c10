"""The iterations of one job of a cluster, as few columns as stragglers need: hundreds of jobs are read in turn."""

from __future__ import annotations

from pathlib import Path

import msgspec
import numpy as np
import pandas as pd
import pyarrow.parquet as pq

from analysis.records.job_lines import lines_with
from analysis.records.rows import has_end
from analysis.records.schema import ROWS

INTEGERS = ("worker", "iteration", "samples", "assigned_samples")
FLOATS = ("t", "pull_s", "data_s", "compute_s", "send_s", "injected_s", "recv_s")


class _Grad(msgspec.Struct, gc=False):
    worker: int
    iteration: int
    samples: int
    assigned_samples: int


class _Timings(msgspec.Struct, gc=False):
    pull_s: float = 0.0
    data_s: float = 0.0
    compute_s: float = 0.0
    send_s: float = 0.0
    injected_s: float = 0.0
    recv_s: float = float("nan")


class _Arrived(msgspec.Struct, tag_field="type", tag="Arrived", gc=False):
    grad: _Grad
    timings: _Timings


class _Line(msgspec.Struct, gc=False):
    t: float
    event: _Arrived


_LINE = msgspec.json.Decoder(_Line)


def read_job_rows(folder: Path) -> pd.DataFrame:
    """One row per iteration of every worker, with the columns ``INTEGERS`` and ``FLOATS`` (seconds of the job's clock).

    ``recv_s`` is NaN where it was not recorded. A job without a record, or one whose rows were lost with the run, has
    an empty frame.

    Raises:
        RecordError: a line that is not the last one is damaged.
    """
    if (folder / ROWS).exists():
        return _from_rows(folder / ROWS)
    return _frame(lines_with(folder, "Arrived", _LINE))


def _from_rows(path: Path) -> pd.DataFrame:
    if not has_end(path):
        return _frame([])
    there = [name for name in (*INTEGERS, *FLOATS) if name in pq.read_schema(path).names]
    frame = pd.read_parquet(path, columns=there)
    return frame if "recv_s" in frame else frame.assign(recv_s=np.nan)


def _frame(lines: list[_Line]) -> pd.DataFrame:
    columns = {name: np.array([getattr(line.event.grad, name) for line in lines], np.int64) for name in INTEGERS}
    times = {name: np.array([getattr(line.event.timings, name) for line in lines], np.float64) for name in FLOATS[1:]}
    return pd.DataFrame({**columns, "t": np.array([line.t for line in lines], np.float64), **times})
