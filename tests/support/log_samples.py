"""A small valid log of every form that ``advise`` reads."""

from __future__ import annotations

import gzip
import io
import json
import random
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pandas as pd
import pyarrow as pa
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import LogError
from analysis.logs.table import Columns
from tests.support import written_logs
from tests.support.records import bsp_story
from tests.support.runs import ROOT
from tests.support.xplanes import Event, profile

STEPS, RANKS = 24, 3
JOB = written_logs.truth(random.Random(1))
MADE = ROOT / "tests" / "logs" / "made"


def _seconds(rank: int, step: int) -> float:
    """Rank 1 is slow; others vary a little."""
    return (0.15 if rank == 1 else 0.1) * (1.0 + 0.01 * ((7 * step + 3 * rank) % 5))


def _frame() -> pd.DataFrame:
    pairs = [(rank, step) for step in range(STEPS) for rank in range(RANKS)]
    own_s = [_seconds(*pair) for pair in pairs]
    about = {"rank": [rank for rank, _ in pairs], "step": [step for _, step in pairs], "seconds": 0.2}
    frame = pd.DataFrame({**about, "work": own_s, "host": [f"n{rank}" for rank, _ in pairs]})
    return frame.assign(begin=[0.2 * step for _, step in pairs], n=8)


def _csv(separator: str = ",", decimal: str = ".") -> bytes:
    return str(_frame().to_csv(sep=separator, decimal=decimal, index=False)).encode()


def _wide() -> bytes:
    columns = {f"rank{rank} - time": [_seconds(rank, step) for step in range(STEPS)] for rank in range(RANKS)}
    return str(pd.DataFrame({"step": range(STEPS), **columns}).to_csv(index=False)).encode()


def _parquet() -> bytes:
    file = io.BytesIO()
    _frame().to_parquet(file)
    return file.getvalue()


def _program(name: str, before: str = "") -> bytes:
    """What a program prints of a job of four ranks; ``before`` stands before a rank's lines."""
    lines = written_logs.PROGRAMS[name](JOB)
    return "\n".join(f"{before.format(rank)}{text}" for rank, text in lines).encode()


def _trace(rank: int) -> bytes:
    return written_logs.trace(random.Random(rank), JOB, rank, range(len(JOB.steps)), ("rank within",))


def _records() -> bytes:
    records = [
        {"step": step, "wall_time_ms": 1000 * _seconds(1, step), "sync_blocked_ms": 100 * _seconds(0, step)}
        for step in range(STEPS)
    ]
    return json.dumps({"world_size": RANKS, "step_records": records}).encode()


def _golden() -> bytes:
    values = {str(5 * step): _seconds(0, step) if step else "nan" for step in range(STEPS)}
    return json.dumps({"iteration-time": {"start_step": 0, "step_interval": 5, "values": values}}).encode()


def _history() -> bytes:
    """As trackers export it: a record per step, without ranks."""
    rows = [
        {"_step": step, "_timestamp": 1.7e9 + step, "train/step_time": _seconds(1, step), "train/data_time": 0.01}
        for step in range(STEPS)
    ]
    return "\n".join(map(json.dumps, rows)).encode()


def _telemetry() -> bytes:
    records = [
        {
            "step": step,
            "rank": rank,
            "step_time_ms": 200.0,
            "sync_time_ms": 200.0 - 1e3 * _seconds(rank, step),
            "loss": 1,
        }
        for step in range(STEPS)
        for rank in range(RANKS)
    ]
    return json.dumps({"job": "a", "telemetry": records}).encode()


def _metrics() -> bytes:
    """As Lightning's table: rows of training and of validation, with empty cells."""
    lines = ["epoch,step,train_loss,train_step_timing in s,val_loss"]
    for step in range(STEPS):
        lines += [f"0,{step},0.5,{_seconds(1, step)},", *([f"0,{step},,,0.6"] if step % 10 == 9 else [])]
    return "\n".join(lines).encode()


def _parts() -> bytes:
    """As ``stragglab.logging`` writes them."""
    lines = ["rank,step,part,begin_s,seconds,group"]
    for step in range(STEPS):
        for rank in range(RANKS):
            own_s = _seconds(rank, step)
            for part, seconds in (("loading", 0.01), ("computing", own_s - 0.01), ("step", 0.2)):
                lines.append(f"{rank},{step},{part},{0.2 * step:.6f},{seconds:.6f},n{rank}")
    return "\n".join(lines).encode()


def _epochs() -> bytes:
    """As PyTorch's example for ImageNet prints them: the time of an iteration and, in brackets, the mean until then."""
    line = "Epoch: [{}][{:4d}/50]\tTime {:.3f} ({:.3f})\tData  0.010 ( 0.012)\tLoss 6.9 (6.9)"
    return "\n".join(line.format(epoch, place, 0.2, 0.21) for epoch in range(3) for place in range(0, 50, 10)).encode()


def _nsight() -> bytes:
    """Kernels of two devices, with ranges of steps."""
    with closing(sqlite3.connect(":memory:")) as database:
        database.executescript(
            "CREATE TABLE StringIds (id INTEGER PRIMARY KEY, value TEXT);"
            "CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, globalPid, shortName);"
            "CREATE TABLE NVTX_EVENTS (start, end, text, globalTid, textId);"
            "INSERT INTO StringIds VALUES (1, 'gemm'), (2, 'ncclDevKernel_AllReduce')"
        )
        for step in range(STEPS):
            for rank in range(2):
                start, end = 200_000_000 * step, 200_000_000 * (step + 1)
                middle = start + int(1e9 * _seconds(rank, step))
                process = (rank + 1) << 24
                database.execute(
                    "INSERT INTO NVTX_EVENTS VALUES (?, ?, ?, ?, NULL)", (start, end, f"step {step}", process)
                )
                for row in ((start, middle, rank, process, 1), (middle, end, rank, process, 2)):
                    database.execute("INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL VALUES (?, ?, ?, ?, ?)", row)
        database.commit()
        return database.serialize()


def _xplane() -> bytes:
    """Two devices of one host, which marks the steps."""
    marked = [Event("train", 200.0 * step, 200.0, step) for step in range(STEPS)]
    planes = {"/host:CPU": {"python": marked}}
    for rank in range(2):
        spans = [(200.0 * step, 1000.0 * _seconds(rank, step)) for step in range(STEPS)]
        working = [Event("fusion", begin, length) for begin, length in spans]
        sending = [Event("all-reduce", begin + length, 200.0 - length) for begin, length in spans]
        planes[f"/device:GPU:{rank}"] = {"Stream #1": [*working, *sending]}
    return profile(planes)


OWN = Reading(Columns(compute="work", start="begin", host="host", samples="n"))
FILES: dict[str, tuple[Callable[[], bytes], Reading]] = {
    "log.csv": (_csv, OWN),
    "log.tsv": (lambda: _csv("\t"), OWN),
    "semicolons.csv": (lambda: _csv(";", ","), OWN),
    "wide.csv": (_wide, Reading()),
    "log.csv.gz": (lambda: gzip.compress(_csv(), mtime=0), OWN),
    "log.parquet": (_parquet, OWN),
    "timers.log": (lambda: _program("Megatron-LM"), Reading()),
    "megatron.log.zst": (lambda: pa.compress(_program("Megatron-LM without timers"), "zstd", asbytes=True), Reading()),
    "megatron.log": (lambda: _program("Megatron-LM without timers"), Reading()),
    "titan.log": (lambda: _program("torchtitan", "[rank{}]: "), Reading(tokens=written_logs.TOKENS)),
    "nanotron.log": (lambda: _program("nanotron"), Reading()),
    "deepspeed.log": (lambda: _program("DeepSpeed"), Reading()),
    "between.log": (lambda: _program("Megatron-LM without names"), Reading()),
    "mlperf.log": (lambda: _program("MLPerf"), Reading()),
    "nanogpt.log": (lambda: _program("nanoGPT"), Reading()),
    "modded.log": (lambda: _program("modded-nanogpt"), Reading()),
    "epochs.log": (_epochs, Reading()),
    "ranks.log": (lambda: _program("StragglAR"), Reading()),
    "records.json": (_records, Reading()),
    "golden.json": (_golden, Reading()),
    "scores.log": (lambda: _program("resiliency"), Reading()),
    "trace_rank0.json": (lambda: _trace(0), Reading()),
    "history.jsonl": (_history, Reading()),
    "telemetry.json": (_telemetry, Reading()),
    "metrics.csv": (_metrics, Reading()),
    "steps.csv": (_parts, Reading()),
    "profile.sqlite": (_nsight, Reading()),
    "node0.xplane.pb": (_xplane, Reading()),
    "events.out.tfevents.1795950020.host": (
        (MADE / "events.out.tfevents.1795950020.host.1092.0").read_bytes,
        Reading(),
    ),
}
"""Content by name, and what the reader has to know."""
TRACES, RECORD = "traces", "record"
"""Forms that are directories."""


def refusal(path: Path, reading: Reading = Reading()) -> str:  # noqa: B008 (immutable)
    """The one line that refuses a log, without its path."""
    with pytest.raises(LogError) as caught:
        read_log(path, reading)
    text = str(caught.value)
    assert text.startswith(str(path))
    assert "\n" not in text
    return text[len(str(path)) :]


def write_sample(folder: Path, name: str) -> tuple[Path, list[Path], Reading]:
    """Write the sample: (the log, its files, what its reader has to know)."""
    if name == RECORD:
        path = bsp_story().write(folder / "run")
        return path, sorted(file for file in path.rglob("*") if file.is_file()), Reading()
    if name == TRACES:
        (folder / "traces").mkdir(exist_ok=True)
        files = [folder / "traces" / f"rank{rank}.json" for rank in range(RANKS)]
        for rank, file in enumerate(files):
            file.write_bytes(_trace(rank))
        return folder / "traces", files, Reading()
    content, reading = FILES[name]
    (folder / name).write_bytes(content())
    return folder / name, [folder / name], reading
