"""Readers of files that others have written, and a seeded mutator of such files."""

from __future__ import annotations

import io
import json
import random
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pandas as pd

from analysis.experiments.spec import SpecError, load_spec
from injectors.arrivals.listed import Listed
from injectors.arrivals.philly import Philly
from injectors.arrivals.table import JobTable
from injectors.patterns import IterationTimes, OperatorTrace, Trace
from injectors.plan import ClusterShape, parse_plan
from predictors.fitted_file import FittedKind, read_fitted
from predictors.noise_table import read_table
from reading.plain import load_yaml
from runtime.config.foreign import plain_section, refuse_foreign, taken_from_record
from runtime.core.scheduling import TracePending
from runtime.errors import ConfigError
from runtime.house import ROOT
from runtime.run.jobs.models import Models
from runtime.training.progress import load_progress
from runtime.virtual.costs import load_costs

SHAPE = ClusterShape(num_workers=4, num_servers=2, base_iter_s=0.1)
PIECES = (
    *(b"[" * 3000, b"{a: " * 200, b"\x00", b"\xff\xfe", b"\xef\xbb\xbf", b"9" * 5000, b"1e400", b"-1e308", b"nan"),
    *(b".inf", b"-0", b"&a [*a]", b"*a", b"<<: *a", b"!!python/object/apply:os.system [ls]", b"!!binary x", b"!!set"),
    *(b"${oc.env:HOME}", b"\n---\n", b"? ", b": ", b'"', b"'", b"\r", b"\n", b",", b";", b"\t", b"x" * 300, b"null"),
    *(b"2026-99-99", b"true", b"-1", b"0", b"1_000", b"0x7f", b"\xf0\x9f\x98\x80", b"/dev/zero", b"../../etc/passwd"),
    *(b"\x1b[31m", b'"\\e[31m\\n"', b"'\xc2\x9b31m'", b"\\u001b[31m", b"\xe2\x80\xae"),
    *(b"_target_", b"18446744073709551616", b"9223372036854775808", b"\xed\xa0\x80", b"%", b"@", b"`", b"|\n  x"),
)


class Reader(NamedTuple):
    """A reader, the ending of its files, and files that it accepts."""

    ending: str
    read: Callable[[Path], object]
    good: tuple[bytes, ...]


def npz() -> bytes:
    file = io.BytesIO()
    np.savez_compressed(file, format=np.array("mark 1"), a=np.arange(6.0).reshape(2, 3), names=np.array(["x", "yy"]))
    return file.getvalue()


def parquet(**columns: list[object]) -> bytes:
    file = io.BytesIO()
    pd.DataFrame(columns).to_parquet(file)
    return file.getvalue()


def readers() -> dict[str, Reader]:
    """All of them by name."""
    listed = (
        b"- {job: a, submit_s: 0, gpus: 2, duration_s: 6.5, settings: ['seed=3']}\n- {job: b, submit_s: 2, gpus: 1}\n"
    )
    logged = {"jobid": "j1", "submitted_time": "2017-10-09 07:01:55", "status": "Pass", "user": "u"}
    attempt = {"start_time": "2017-10-09 07:02:00", "end_time": "2017-10-09 08:02:00"}
    attempt |= {"detail": [{"ip": "m1", "gpus": ["g0", "g1"]}]}  # type: ignore[dict-item]
    table = b"id,at,gpus,len\na,0,1,10\nb,5,2,1:00:30\nc,7.5,4,3\n"
    trace = b"time,duration,target,kind,magnitude\n0,5,worker:1,delay,0.2\n3,2,server:0,slowdown,1.5\n"
    steps = b"worker,iteration,seconds\n0,0,0.1\n1,0,0.2\n2,0,0.1\n3,0,0.1\n0,1,0.1\n1,1,0.3\n2,1,0.1\n3,1,0.1\n"
    ops = b"dp_rank,stage,step,optype,start_ts,duration\n" + b"".join(
        b"%d,0,%d,%s,%d.0,0.5\n" % (rank, step, kind, step * 2 + late)
        for rank in range(4)
        for step in range(2)
        for late, kind in enumerate((b"forward-compute", b"backward-compute"))
    )
    plan = {"schema": 1, "pattern": "p", "seed": 1, "horizon_s": 9.0, "disturbances": []}
    models = b"schema: 1\nmodels:\n  small: {costs: ideal, num_parameters: 1000, batch_samples: 32}\n"
    record = b"seed: 3\nstrategy: {_target_: strategies.basic.ssp.SSP, bound: '${seed}', data: dynamic}\n"
    config = ROOT / "conf" / "experiment" / "gc_fig2a.yaml"
    jobs = {"submit_column": "at", "gpus_column": "gpus", "job_column": "id", "duration_column": "len"}
    tables = (
        parquet(id=["a", "b"], at=[0.0, 1.0], gpus=[1, 2], len=["10", "5"]),
        parquet(id=[1], at=[2], gpus=[1], len=[3]),
    )
    return {
        "costs": Reader(".yaml", lambda path: load_costs(str(path)), tuple(_files("runtime/fitted/costs"))),
        "progress": Reader(".yaml", lambda path: load_progress(str(path)), tuple(_files("runtime/fitted/progress"))),
        "models": Reader(".yaml", lambda path: Models(str(path), path.parent), (models,)),
        "listed": Reader(".yaml", lambda path: _settings(Listed(path=str(path)), path), (listed,)),
        "philly": Reader(
            ".json",
            lambda path: Philly(path=str(path)).submissions(0),
            (
                json.dumps([{**logged, "attempts": [attempt], "vc": "v"}]).encode(),
                b"timestamp,duration,num_gpus,gpu_time,cluster\n2017-10-09 07:01:55,60,2,120,v\n",
            ),
        ),
        "jobs table": Reader(".csv", lambda path: JobTable(path=str(path), **jobs).submissions(0), (table,)),  # type: ignore[arg-type]
        "jobs parquet": Reader(".parquet", lambda path: JobTable(path=str(path), **jobs).submissions(0), tables),  # type: ignore[arg-type]
        "trace": Reader(".csv", lambda path: Trace(path=str(path)).plan(SHAPE, 60.0, 1), (trace,)),
        "iterations": Reader(".csv", lambda path: IterationTimes(path=str(path)).plan(SHAPE, 60.0, 1), (steps,)),
        "operators": Reader(".csv", lambda path: OperatorTrace(path=str(path)).plan(SHAPE, 60.0, 1), (ops,)),
        "pending": Reader(".csv", lambda path: TracePending(path=str(path)), (b"t_s,pending_s\n0,1\n5,2.5\n",)),
        "noise": Reader(
            ".csv", lambda path: read_table(str(path)), (b"model,batch_samples,step,sqr,var\nm,32,0,1.5,2.5\n",)
        ),
        "arrays": Reader(".npz", lambda path: read_fitted(path, FittedKind("x", "mark 1", "y"), "z"), (npz(),)),
        "plan": Reader(".json", lambda path: parse_plan(path.read_bytes()), (json.dumps(plan).encode(),)),
        "experiment": Reader(".yaml", load_spec, (config.read_bytes(),)),
        "record": Reader(".yaml", lambda path: plain_section(load_yaml(path), "strategy", path.parent), (record,)),
        "settings": Reader(
            ".yaml",
            lambda path: taken_from_record(load_yaml(path), path.parent),
            (b"- seed=3\n- strategy=ssp\n- strategy.bound=${seed}\n- 'workload.optimizer={name: sgd}'\n",),
        ),
    }


def _files(folder: str) -> list[bytes]:
    return [path.read_bytes() for path in sorted((ROOT / folder).glob("*.yaml"))[:3]]


def _settings(source: Listed, path: Path) -> None:
    for one in source.submissions(0):
        for line in one.settings:
            refuse_foreign(line, path.parent)


def mutated(data: bytes, draw: random.Random) -> bytes:
    """A file with some changes: bytes, pieces, lines, halves."""
    for _ in range(draw.choice((1, 1, 2, 4))):
        at, to = sorted((draw.randrange(len(data) + 1), draw.randrange(len(data) + 1)))
        match draw.randrange(7):
            case 0:
                data = data[:at] + draw.choice(PIECES) + data[at:]
            case 1:
                data = data[:at] + draw.choice(PIECES) + data[min(at + draw.randrange(12), len(data)) :]
            case 2:
                data = data[:at] + bytes([draw.randrange(256)]) + data[at + 1 :]
            case 3:
                data = data[:at] + data[min(at + draw.randrange(1, 30), len(data)) :]
            case 4:
                data = data[:to] + data[at:to] * draw.choice((1, 2, 50)) + data[to:]
            case 5:
                data = data[:at]
            case _:
                lines = data.split(b"\n")
                lines[draw.randrange(len(lines))] = draw.choice([*lines, *PIECES])
                data = b"\n".join(lines)
    return data[: 1 << 20]


def try_reader(reader: Reader, path: Path, data: bytes) -> str:
    """What is wrong with how a reader takes a file; empty: nothing."""
    path.write_bytes(data)
    try:
        reader.read(path)
    except (ValueError, ConfigError, SpecError) as error:
        if type(error) not in (ValueError, ConfigError, SpecError) and not type(error).__module__.endswith(
            ("reading.errors", "patterns.trace", "patterns.tables")
        ):
            return f"{type(error).__name__}: {traceback.format_exc()}"
        text = str(error)
        if not text.isprintable() or len(text) > 1000:
            return f"{len(text)} letters, several lines or codes of a terminal: {text[:300]!r}"
    except BaseException:  # noqa: BLE001 (whatever it is, it would have been a traceback)
        return traceback.format_exc()
    return ""
