"""Traces of the PyTorch profiler (Kineto), one per rank and perhaps per cycle, in Chrome's trace format."""

from __future__ import annotations

import re
from collections.abc import Sequence
from itertools import groupby
from pathlib import Path

import numpy as np
import pandas as pd
from msgspec import UNSET

from analysis.logs.exposed import divide_steps
from analysis.logs.gathering import gather
from analysis.logs.intervals import Floats
from analysis.logs.limits import MOST_SECONDS, MOST_STEP
from analysis.logs.lines import whole
from analysis.logs.several import Counted, read_each
from analysis.logs.step_log import LogError, StepLog
from analysis.logs.trace_file import Event, NotATrace, Trace, read_trace
from analysis.logs.trace_folder import cycles, ranks_by_name
from reading.errors import shown

STEP = re.compile(rb"ProfilerStep\s*+#\s*+(\d++)")
COMMUNICATION = re.compile(rb"nccl|gloo|c10d|rccl|mpi:|allreduce|all_reduce|all_gather|reduce_scatter", re.IGNORECASE)
LOADING = re.compile(rb"^enumerate\(DataLoader\)|\bdata_?load|dataloader", re.IGNORECASE)
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset", "memcpy", "memset"})
"""Categories, in lower case; traces of 2021 write them with a capital."""
OF_DEVICE = "gpu_user_annotation"
MICRO = 1e-6
"""Chrome's traces count microseconds."""
FURTHEST = MOST_SECONDS * 1e9
"""No clock of a trace shows more microseconds, whenever it began."""


def read_traces(paths: Sequence[Path], counted: Counted = list) -> StepLog:
    """The ``ProfilerStep#N`` spans of every rank's traces, and the part of each spent only in communication.

    Own work is the step less the time in which a communication kernel ran on the device (or, of a job on processors, a
    collective on the host) and no other kernel. Time in which the device is idle since the host is late is own work;
    loading is the part of it in which the host was in the data loader.

    The rank is the trace's own (``distributedInfo``), or the number in the file's name. Of several files other JSON
    than traces is passed over. Steps of several folders follow each other, also if each counts from 0.

    Raises:
        LogError: no file is a trace, one is damaged or has no steps, or two have the same step of a rank.
    """
    folders, other = cycles(paths), list[NotATrace]()
    named = {path: rank for folder in folders for path, rank in _ranks(folder).items()}

    def read(path: Path) -> tuple[Path, str, pd.DataFrame] | None:
        try:
            return path, *_rows(path, named.get(path))
        except NotATrace as error:
            other.append(error)
            return None

    found, broken = read_each([path for folder in folders for path in folder], read, counted)
    frames = list[pd.DataFrame]()
    for _, traces in groupby(filter(None, found), key=lambda trace: trace[0].parent):
        rows = _cycle(list(traces))
        first = int(rows["step"].min())
        last = max(int(frame["step"].max()) for frame in frames) if frames else first - 1
        frames.append(rows.assign(step=rows["step"] + max(0, last + 1 - first)))
    if not frames:
        raise other[0]
    rows = pd.concat(frames, ignore_index=True)
    common = set.intersection(*(set(part["step"]) for _, part in rows.groupby("rank")))
    if not common:
        raise LogError(f"{paths[0].parent}: the traces have no step in common; name traces of the same steps")
    rows = rows[rows["step"].isin(common)]
    if other:
        broken.append(f"passed over: {other[0]}" + (f", and {len(other) - 1} more" if len(other) > 1 else ""))
    # profilers of different ranks do not share a clock, so only the lengths of steps are compared
    return gather(f"{sum(map(bool, found))} traces", rows, remarks=broken)


def _ranks(folder: Sequence[Path]) -> dict[Path, str]:
    """Ranks by the names of the files in a folder; a single trace needs none."""
    return {**(dict.fromkeys(folder, "0") if len(folder) == 1 else {}), **ranks_by_name(folder)}


def _cycle(traces: Sequence[tuple[Path, str, pd.DataFrame]]) -> pd.DataFrame:
    """The steps of the traces in one folder, which are (file, rank, steps)."""
    seen: dict[tuple[str, int], Path] = {}
    for path, rank, rows in traces:
        for step in rows["step"].tolist():
            if (before := seen.setdefault((rank, step), path)) != path:
                raise LogError(
                    f"{path}: is of rank {rank}, as is {before}, and both have step {step}; name traces of one job, "
                    "and one per rank and step"
                )
    return pd.concat([rows.assign(rank=rank) for _, rank, rows in traces], ignore_index=True)


def _rows(path: Path, by_name: str | None) -> tuple[str, pd.DataFrame]:
    """(rank, its steps) of a trace, which is then released: the next one may be as large."""
    trace = read_trace(path)
    rank = by_name if trace.rank is None else shown(trace.rank)
    if rank is None:
        raise LogError(f"{path}: no rank is in it, nor in its name; call it rank0.json, rank1.json ...")
    return rank, _steps(path, trace)


def _steps(path: Path, trace: Trace) -> pd.DataFrame:
    spans = [event for event in trace.events if event.ph == "X" and event.dur is not UNSET]
    steps = {
        whole(found[1].decode(), "the number of a ProfilerStep", str(path), MOST_STEP): span
        for span in spans
        if (found := STEP.match(span.label)) and span.cat != OF_DEVICE
    }
    if not steps:
        raise LogError(
            f"{path}: has no ProfilerStep spans; give torch.profiler.profile a schedule=, as it writes none without, "
            "and call prof.step() after every step of the training loop"
        )
    device = [span for span in spans if span.cat.lower() in ON_DEVICE]
    host = [span for span in spans if span.cat.lower() not in ON_DEVICE and span.cat != OF_DEVICE]
    loading = [span for span in host if LOADING.search(span.label)]
    sending = [span for span in device or spans if COMMUNICATION.search(span.label)]
    working = [span for span in device if not COMMUNICATION.search(span.label)]
    step_spans = _ends(path, [steps[step] for step in sorted(steps)])
    parts = divide_steps(step_spans, _ends(path, working), _ends(path, sending), _ends(path, loading))
    seconds, comm_s = parts.step * MICRO, parts.communication * MICRO
    own_s = (seconds - comm_s).clip(min=MICRO)
    rows = pd.DataFrame({"step": sorted(steps), "own_s": own_s, "comm_s": comm_s, "round_s": seconds})
    return rows.assign(data_s=parts.loading * MICRO) if loading else rows


def _ends(path: Path, spans: Sequence[Event]) -> Floats:
    """[n, 2]: begin and end of every span, in microseconds."""
    starts = np.array([np.nan if span.ts is UNSET else span.ts for span in spans], "float64")
    lengths = np.array([span.dur for span in spans], "float64")
    bad = ~((np.abs(starts) < FURTHEST) & (lengths >= 0.0) & (lengths < FURTHEST))
    if bad.any():
        span = spans[int(np.flatnonzero(bad)[0])]
        begin = "none" if span.ts is UNSET else span.ts
        raise LogError(
            f"{path}: the event {shown(span.label.decode(errors='replace'))} has ts {begin} and dur {span.dur}: "
            "must be microseconds; profile again, or remove it"
        )
    return np.stack([starts, starts + lengths], axis=1)
