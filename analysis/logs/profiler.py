"""Traces of the PyTorch profiler (Kineto), one per rank, in Chrome's trace format."""

from __future__ import annotations

import gzip
import re
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.logs.step_log import LogError, StepLog, gather

STEP = re.compile(r"ProfilerStep\s*#\s*(\d+)")
COMMUNICATION = re.compile(r"nccl|gloo|c10d|rccl|mpi:|allreduce|all_reduce|all_gather|reduce_scatter", re.IGNORECASE)
ON_DEVICE = frozenset({"kernel", "gpu_memcpy", "gpu_memset"})
RANK = re.compile(r"rank[_-]?(\d+)", re.IGNORECASE)
LAST_NUMBER = re.compile(r"(\d+)(?=\D*$)")
MICRO = 1e-6
"""Chrome's traces count microseconds."""

Floats = NDArray[np.float64]


def read_traces(paths: Sequence[Path]) -> StepLog:
    """The ``ProfilerStep#N`` spans of every rank's trace, and what of each was spent in nothing but communication.

    Own work is the step less the time in which a communication kernel ran on the device (or, of a job on processors, a
    collective on the host) and no other kernel. Time in which the device is idle since the host is late is own work.

    The rank is the trace's own (``distributedInfo``), or the number in the file's name.

    Raises:
        LogError: a file is no trace, has no steps, or two files have the same rank.
    """
    frames, ranks = [], dict[str, Path]()
    for path in paths:
        content = _content(path)
        rank = _rank(path, content)
        if rank in ranks:
            raise LogError(f"{path}: is of rank {rank}, as is {ranks[rank]}; name one trace per rank")
        ranks[rank] = path
        frames.append(pd.DataFrame(_steps(path, content["traceEvents"])).assign(rank=rank))
    rows = pd.concat(frames, ignore_index=True)
    common = set.intersection(*(set(part["step"]) for _, part in rows.groupby("rank")))
    if not common:
        raise LogError(f"{paths[0].parent}: the traces have no step in common; name traces of the same steps")
    rows = rows[rows["step"].isin(common)]
    # profilers of different ranks do not share a clock, so only the lengths of steps are compared
    return gather(f"{len(paths)} traces", rows[["rank", "step", "own_s", "comm_s", "round_s"]])


def is_trace(path: Path) -> bool:
    """Whether the file's name is that of a trace."""
    return path.name.endswith((".json", ".json.gz"))


def _content(path: Path) -> dict[str, Any]:
    try:
        data = path.read_bytes()
        content = msgspec.json.decode(gzip.decompress(data) if path.suffix == ".gz" else data)
    except (OSError, EOFError, msgspec.DecodeError) as error:
        why = (error.strerror or str(error)).lower() if isinstance(error, OSError) else str(error)
        raise LogError(f"{path}: is no trace ({why})") from None
    content = {"traceEvents": content} if isinstance(content, list) else content
    if not isinstance(content, dict) or not isinstance(content.get("traceEvents"), list):
        raise LogError(f"{path}: is no Chrome trace (it has no traceEvents)")
    return content


def _rank(path: Path, content: dict[str, Any]) -> str:
    about = content.get("distributedInfo")
    if isinstance(about, dict) and "rank" in about:
        return str(about["rank"])
    found = RANK.search(path.name) or LAST_NUMBER.search(path.name.split(".")[0])
    if found is None:
        raise LogError(f"{path}: no rank is in it, nor in its name; call it rank0.json, rank1.json ...")
    return str(int(found[1]))


def _steps(path: Path, events: Sequence[Any]) -> Iterator[dict[str, float]]:
    spans = [event for event in events if isinstance(event, dict) and event.get("ph") == "X" and "dur" in event]
    steps = {
        int(found[1]): (float(span["ts"]), float(span["dur"]))
        for span in spans
        if (found := STEP.match(str(span.get("name")))) and span.get("cat") != "gpu_user_annotation"
    }
    if not steps:
        raise LogError(
            f"{path}: has no ProfilerStep spans; give torch.profiler.profile a schedule=, as it writes none without, "
            "and call prof.step() after every step of the training loop"
        )
    device = [span for span in spans if span.get("cat") in ON_DEVICE]
    sending = [span for span in device or spans if COMMUNICATION.search(str(span.get("name")))]
    working = [span for span in device if not COMMUNICATION.search(str(span.get("name")))]
    comm, work = _union(sending), _union(working)
    for step, (start, length) in sorted(steps.items()):
        end = start + length
        exposed = _inside(comm, start, end) - _inside(_common(comm, work), start, end)
        seconds, comm_s = length * MICRO, exposed * MICRO
        yield {"step": step, "own_s": max(seconds - comm_s, MICRO), "comm_s": comm_s, "round_s": seconds}


def _union(spans: Sequence[dict[str, Any]]) -> Floats:
    """[n, 2]: begin and end of disjoint intervals, ascending."""
    ordered = sorted((float(span["ts"]), float(span["ts"]) + float(span["dur"])) for span in spans)
    merged: list[list[float]] = []
    for start, end in ordered:
        if merged and start <= merged[-1][1]:
            merged[-1][1] = max(merged[-1][1], end)
        else:
            merged.append([start, end])
    return np.array(merged, "float64").reshape(-1, 2)


def _common(one: Floats, other: Floats) -> Floats:
    """Where both are, as disjoint intervals; walks through both once."""
    found, a, b = [], 0, 0
    while a < len(one) and b < len(other):
        start, end = max(one[a, 0], other[b, 0]), min(one[a, 1], other[b, 1])
        if start < end:
            found.append((start, end))
        if one[a, 1] < other[b, 1]:
            a += 1
        else:
            b += 1
    return np.array(found, "float64").reshape(-1, 2)


def _inside(intervals: Floats, start: float, end: float) -> float:
    """Their length within [start, end)."""
    return float((np.minimum(intervals[:, 1], end) - np.maximum(intervals[:, 0], start)).clip(min=0.0).sum())
