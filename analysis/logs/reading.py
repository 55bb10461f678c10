"""Which form a log has, and the reader for it."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from analysis.logs.archive import refuse_archive
from analysis.logs.chakra import chakra_in, is_chakra, read_chakra
from analysis.logs.deepspeed import is_deepspeed, read_deepspeed
from analysis.logs.epoch_lines import is_epoch_line, read_epoch_lines
from analysis.logs.gathering import gather, tell_apart
from analysis.logs.json_logs import FORMS, read_json
from analysis.logs.json_values import decode_file
from analysis.logs.lines import Line, Lines
from analysis.logs.megatron import is_megatron, read_megatron
from analysis.logs.mlflow_run import metric_files_in, read_mlflow
from analysis.logs.mlperf import is_mllog, read_mllog, refuse_without_steps
from analysis.logs.nanogpt import is_nanogpt, read_nanogpt
from analysis.logs.nanotron import is_nanotron, read_nanotron
from analysis.logs.nsight import is_database, read_nsight
from analysis.logs.opening import refuse_irregular
from analysis.logs.parts_table import part_files_in, read_parts
from analysis.logs.profiler import read_traces
from analysis.logs.rank_files import rank_files_in, read_rank_files
from analysis.logs.rank_lines import is_rank_line, read_rank_lines
from analysis.logs.records import is_lines, ranks_in, read_ranks, read_records, records_in
from analysis.logs.refused import why_refused
from analysis.logs.resiliency import is_resiliency, read_resiliency
from analysis.logs.rows import Rows
from analysis.logs.run_record import read_record
from analysis.logs.several import Counted
from analysis.logs.step_lines import is_step_line, read_step_lines
from analysis.logs.step_log import LogError, StepLog
from analysis.logs.table import Columns, read_table
from analysis.logs.table_file import has_columns, is_table
from analysis.logs.tensorboard import event_files_in, is_event_file, read_event_files
from analysis.logs.torchtitan import is_torchtitan, read_torchtitan
from analysis.logs.trace_file import NotATrace
from analysis.logs.trace_folder import is_trace, traces_in
from analysis.logs.xplane import is_xplane, read_xplanes, xplanes_in
from analysis.records.load import find_runs


class Reading(NamedTuple):
    """The facts that a reader cannot find out by itself."""

    columns: Columns = Columns()
    unit_s: float | None = None
    """Seconds per unit of a table's times; None: by the names of its columns."""
    timer: str | None = None
    tokens: float | None = None
    counted: Counted = list


class Printed(NamedTuple):
    """A program that prints its steps: how its lines are recognised, and the reader of all lines.

    ``within``: others train with its help, and print steps of their own, which say more.
    """

    program: str
    prints: Callable[[Line], bool]
    read: Callable[[str, Iterable[Line], Reading], Rows]
    within: bool = False


PRINTED = (
    Printed("Megatron-LM", is_megatron, lambda source, lines, asked: read_megatron(source, lines, asked.timer)),
    Printed("torchtitan", is_torchtitan, lambda source, lines, asked: read_torchtitan(source, lines, asked.tokens)),
    Printed("nanotron", is_nanotron, lambda source, lines, _: read_nanotron(source, lines)),
    Printed("DeepSpeed", is_deepspeed, lambda source, lines, _: read_deepspeed(source, lines), within=True),
    Printed("MLPerf's logging", is_mllog, lambda source, lines, _: read_mllog(source, lines)),
    Printed("nanoGPT", is_nanogpt, lambda source, lines, _: read_nanogpt(source, lines)),
    Printed("MaxText, verl or TF-Slim", is_step_line, lambda source, lines, _: read_step_lines(source, lines)),
    Printed("StragglAR", is_rank_line, lambda source, lines, _: read_rank_lines(source, lines)),
    Printed(
        "programs that count iterations of epochs",
        is_epoch_line,
        lambda source, lines, _: read_epoch_lines(source, lines),
    ),
    Printed("NVIDIA's resiliency extension", is_resiliency, lambda source, lines, _: read_resiliency(source, lines)),
)
KNOWN = (
    "a table (.csv, .tsv or .parquet), a run's directory, traces of the PyTorch profiler (.json, or a directory of "
    "them), profiles of TensorFlow and JAX (.xplane.pb) and of Nsight Systems (.sqlite), event files of TensorBoard, "
    "records of steps (.json or .jsonl), execution traces of Chakra (.et), dumps of PyTorch's flight recorder, "
    f"{' or '.join(form.name for form in FORMS)} (.json), or what "
    f"{', '.join(one.program for one in PRINTED[:-1])} or {PRINTED[-1].program} print; .gz and .zst, too"
)
USUAL = Reading()


def read_log(path: Path, reading: Reading = USUAL) -> StepLog:
    """The log of one job; raises :class:`LogError` with one line."""
    try:
        if not path.exists():
            raise LogError(f"{path}: no such file or directory")
        refuse_irregular(path)
        return tell_apart(_folder(path, reading) if path.is_dir() else _file(path, reading))
    except OSError as error:
        raise LogError(f"{path}: cannot be read ({(error.strerror or 'broken').lower()})") from None
    except MemoryError:
        raise LogError(f"{path}: needs more memory than there is; give a part of it, of fewer steps or ranks") from None


def _folder(path: Path, reading: Reading) -> StepLog:
    if (path / "meta.json").exists():
        return read_record(path)
    if runs := find_runs(path):
        raise LogError(f"{path}: holds {len(runs)} runs; name one, such as {runs[0]}")
    if tables := part_files_in(path):
        return read_parts(tables, reading.counted)
    if profiles := xplanes_in(path):
        return read_xplanes(profiles, reading.counted)
    try:
        if traces := _traces(path, reading.counted):
            return traces
    except NotATrace as error:
        if not (log := _other_folder(path, reading)):
            raise
        return replace(log, remarks=(*log.remarks, f"passed over: {error}"))
    if not (log := _other_folder(path, reading)):
        raise LogError(f"{path}: holds neither a run nor traces; name {KNOWN}")
    return log


def _traces(path: Path, counted: Counted) -> StepLog | None:
    here, below = traces_in(path)
    if not (here or below):
        return None
    try:
        return read_traces(here or below, counted)
    except NotATrace:
        if not (here and below):
            raise
        return read_traces(below, counted)


def _other_folder(path: Path, reading: Reading) -> StepLog | None:
    """The log of a folder without traces, which may have other JSON than these."""
    if graphs := chakra_in(path):
        return read_chakra(graphs, reading.counted)
    if events := event_files_in(path):
        return read_event_files(events, reading.unit_s, reading.counted)
    if metric_files_in(path):
        return read_mlflow(path, reading.unit_s)
    if (files := ranks_in(path)) and (log := read_ranks(path, files, reading.unit_s, reading.counted)):
        return log
    return _rank_files(path, reading)


def _rank_files(path: Path, reading: Reading) -> StepLog | None:
    """The log of the first series of files that is known; None: there is no series."""
    first: LogError | None = None
    for files in rank_files_in(path):
        try:
            return read_rank_files(path, files, lambda one: _file(one, reading), reading.counted)
        except LogError as error:
            first = first or error
    if first:
        raise first
    return None


def _file(path: Path, reading: Reading) -> StepLog:
    if is_table(path):
        return read_table(path, reading.columns, reading.unit_s)
    refuse_archive(path)
    if is_database(path):
        return read_nsight(path)
    if is_xplane(path):
        return read_xplanes([path])
    if is_chakra(path):
        return read_chakra([path])
    if is_event_file(path):
        return read_event_files([path], reading.unit_s)
    if is_lines(path) and (records := records_in(decode_file(path, lines=True))):
        return read_records(path, records, reading.unit_s)
    if is_trace(path):
        return _read_json(path, reading)
    if has_columns(path, (reading.columns.rank, reading.columns.step)):
        return read_table(path, reading.columns, reading.unit_s)
    return _read_printed(path, reading)


def _read_json(path: Path, reading: Reading) -> StepLog:
    """A trace, JSON of a known form, or other JSON with records of steps."""
    try:
        return read_traces([path])
    except NotATrace as error:
        found = decode_file(path)
        if (log := read_json(path, found)) is not None:
            return log
        if not (records := records_in(found)):
            raise NotATrace(f"{error}, and no records of steps") from None
    return read_records(path, records, reading.unit_s)


def _read_printed(path: Path, reading: Reading) -> StepLog:
    lines = Lines(path)
    printed = _program(lines)
    if printed is None:
        refuse_without_steps(str(path), lines)
        raise LogError(f"{path}: {why_refused(path) or f'is no log that is known here; name {KNOWN}'}")
    rows = printed.read(str(path), lines, reading)
    frame = rows.frame()
    remarks = [*rows.remarks, *lines.remarks()]
    return gather(str(path), frame, remarks=remarks, job=rows.job, extremes=rows.extremes)


def _program(lines: Lines) -> Printed | None:
    """Return the program that printed these lines, if known; of two, the one that uses the other."""
    helped = None
    for line in lines:
        found = next((one for one in PRINTED if one.prints(line)), None)
        if found is not None and not found.within:
            return found
        helped = helped or found
    return helped
