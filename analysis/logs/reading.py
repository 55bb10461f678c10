"""Which form a log has, and the reader for it."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

from analysis.logs.megatron import is_megatron, read_megatron
from analysis.logs.profiler import is_trace, read_traces
from analysis.logs.resiliency import is_resiliency, read_resiliency
from analysis.logs.run_record import read_record
from analysis.logs.step_log import LogError, StepLog, tell_apart
from analysis.logs.table import Columns, is_table, read_table
from analysis.logs.torchtitan import is_torchtitan, read_torchtitan
from analysis.records.load import find_runs

KNOWN = (
    "a table (.csv, .tsv, also .gz, or .parquet), a run's directory, traces of the PyTorch profiler (.json, .json.gz, "
    "or a directory of them), or what Megatron-LM, torchtitan or NVIDIA's resiliency extension print"
)


class Reading(NamedTuple):
    """What a reader cannot find out by itself."""

    columns: Columns = Columns()
    unit_s: float | None = None
    """Seconds per unit of a table's times; None: by the names of its columns."""
    timer: str | None = None
    tokens: float | None = None


USUAL = Reading()


def read_log(path: Path, reading: Reading = USUAL) -> StepLog:
    """The log of one job; raises :class:`LogError` with one line."""
    if not path.exists():
        raise LogError(f"{path}: no such file or directory; name {KNOWN}")
    return tell_apart(_folder(path) if path.is_dir() else _file(path, reading))


def _folder(path: Path) -> StepLog:
    if (path / "meta.json").exists():
        return read_record(path)
    if runs := find_runs(path):
        raise LogError(f"{path}: holds {len(runs)} runs; name one, such as {runs[0]}")
    traces: Sequence[Path] = sorted(one for one in path.iterdir() if is_trace(one))
    if not traces:
        raise LogError(f"{path}: holds neither a run nor traces; name {KNOWN}")
    return read_traces(traces)


def _file(path: Path, reading: Reading) -> StepLog:
    if is_table(path):
        return read_table(path, reading.columns, reading.unit_s)
    if is_trace(path):
        return read_traces([path])
    try:
        lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
    except OSError as error:
        raise LogError(f"{path}: cannot be read ({(error.strerror or 'broken').lower()})") from None
    if is_megatron(lines):
        return read_megatron(str(path), lines, reading.timer)
    if is_torchtitan(lines):
        return read_torchtitan(str(path), lines, reading.tokens)
    if is_resiliency(lines):
        return read_resiliency(str(path), lines)
    raise LogError(f"{path}: is no log that is known here; name {KNOWN}")
