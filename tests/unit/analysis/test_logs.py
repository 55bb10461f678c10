"""Logs of other people's jobs: every form is read, and what cannot be is refused in one line."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import LogError, rounds_s, without_first
from analysis.logs.table import Columns
from analysis.measures.straggling import straggling
from tests.support.log_samples import refusal
from tests.support.records import Story, bsp_story
from tests.support.runs import ROOT


def table(path: Path, **columns: Any) -> Path:
    pd.DataFrame(columns).to_csv(path, index=False)
    return path


def four(path: Path, **more: Any) -> Path:
    """Two ranks, two steps."""
    return table(path, rank=[0, 1, 0, 1], step=[1, 1, 2, 2], seconds=[1.0, 2.0, 1.5, 1.0], **more)


@pytest.mark.parametrize("ending", ["csv", "tsv", "csv.gz", "semicolon.CSV", "parquet"])
def test_a_table_in_any_order_with_named_columns_and_units(tmp_path: Path, ending: str) -> None:
    frame = pd.DataFrame({"gpu": [10, 2, 10, 2], "it": [5, 5, 3, 3], "ms": [1000, 2000, 3000, 4000], "node": [*"baba"]})
    path = tmp_path / f"log.{ending}"
    if ending == "parquet":
        frame.to_parquet(path)
    else:
        frame.to_csv(path, index=False, sep={"tsv": "\t", "semicolon.CSV": ";"}.get(ending, ","))
    log = read_log(path, Reading(Columns(rank="gpu", step="it", seconds="ms", host="node"), unit_s=0.001))
    assert (log.ranks, log.steps, log.hosts) == (("2", "10"), (3, 5), ("a", "b"))
    assert log.own_s.tolist() == [[4.0, 3.0], [2.0, 1.0]]
    assert log.per_rank
    assert log.round_s is None


def test_own_work_is_the_compute_column_or_what_communication_leaves(tmp_path: Path) -> None:
    path = four(tmp_path / "a.csv", comm=[0.25, 0.5, 0.5, 0.25], work=[0.5, 1.0, 0.5, 0.5])
    by_rest = read_log(path, Reading(Columns(comm="comm")))
    assert by_rest.own_s.tolist() == [[0.75, 1.5], [1.0, 0.75]]
    by_column = read_log(path, Reading(Columns(compute="work")))
    assert by_column.own_s.tolist() == [[0.5, 1.0], [0.5, 0.5]]
    assert by_column.comm_s.tolist() == [[0.5, 1.0], [1.0, 0.5]]
    assert by_column.round_s.tolist() == [2.0, 1.5]
    log = read_log(four(tmp_path / "a.csv", n=[8, 24, 16, 16]), Reading(Columns(samples="n")))
    assert log.job == {"global_batch_samples": 32}, "what all ranks take together"


def test_columns_of_other_units_are_read_together(tmp_path: Path) -> None:
    path = table(tmp_path / "a.csv", rank=[0, 1], step=[1, 1], time_ms=[2000.0, 3000.0], work_s=[1.0, 3.0])
    log = read_log(path, Reading(Columns(seconds="time_ms", compute="work_s")))
    assert log.own_s.tolist() == [[1.0, 3.0]]
    assert log.comm_s.tolist() == [[1.0, 0.0]]
    assert "time_ms: in units of 0.001 s by its name; --unit says otherwise" in log.remarks
    plain = read_log(path, Reading(Columns(seconds="work_s"), unit_s=1.0))
    assert "--compute or --comm may name one" in plain.remarks[0]
    assert "time_ms" in plain.remarks[0]


BAD = {
    "missing": ("rank,step\n0,1\n", "has no column seconds; --seconds names it. It has rank, step"),
    "all missing": ("a,b\n0,1\n", "has no columns rank, step, seconds; --rank, --step, --seconds name them. It has"),
    "negative": ("rank,step,seconds\n0,1,1\n3,1,-1\n", "row 2, rank 3: its seconds must be more than 0"),
    "no time": ("rank,step,seconds\n0,1,0\n", "row 1, rank 0: its seconds must be more than 0"),
    "twice": ("rank,step,seconds\n0,1,1\n0,1,2\n", "rank 0 has step 1 twice"),
    "empty": ("", "is empty"),
    "no rows": ("rank,step,seconds\n", "holds no step"),
    "wide": ("rank,step,seconds\n0,1,2,3\n", "rows have more cells than the header has names"),
    "ragged": ("rank,step,seconds\n0,1,1\n0,1,2,3,4\n", "is not a table"),
}


@pytest.mark.parametrize("case", BAD)
def test_a_bad_table_is_one_line(tmp_path: Path, case: str) -> None:
    text, says = BAD[case]
    path = tmp_path / "a.csv"
    path.write_text(text)
    assert says in refusal(path)


def test_a_record_is_a_log_of_its_iterations(tmp_path: Path) -> None:
    log = read_log(bsp_story().write(tmp_path / "run"))
    assert log.per_rank
    assert log.num_ranks == log.own_s.shape[1] > 1
    assert log.job["strategy"] == "bsp"
    assert log.begin_s[0].min() == 0.0
    with pytest.raises(LogError, match="holds 1 runs; name one"):
        read_log(tmp_path)


def test_a_last_step_on_the_rest_of_the_data_is_none(tmp_path: Path) -> None:
    """3 of the 8 samples of a batch are left: with that step, which has no time, nothing could be said of the job."""
    log = read_log(bsp_story(num_samples=99, epochs=1).write(tmp_path / "run"))
    assert log.steps == (0, 1, 2)
    assert np.isfinite(log.own_s).all()
    assert log.comm_s is not None
    assert len(log.comm_s) == 3
    assert np.isfinite(straggling(log, barrier=True, slow_frac=0.1).slowdown)


def test_a_worker_that_is_given_little_has_times_too(tmp_path: Path) -> None:
    """Of 2 samples a step, where the other worker has 14, scaled to 8."""
    story = Story("bsp", num_workers=2, num_samples=48, global_batch_samples=16, epochs=1)
    story.started()
    for step in range(3):
        for worker, samples in ((0, 14), (1, 2)):
            timings = {"wait_s": 0.0, "pull_s": 0.0, "data_s": 0.0, "compute_s": 0.1, "send_s": 0.0}
            about = {"samples": samples, "iteration": step, **timings, "injected_s": 0.0, "overrun_s": 0.0}
            story.arrived(0.1 * (step + 1), worker, 2 * step + worker, **about)
    story.finished(0.3)
    log = read_log(story.write(tmp_path / "run"))
    assert log.own_s.tolist() == [pytest.approx([0.1 * 8 / 14, 0.4])] * 3


def span(name: str, ts: float, dur: float, cat: str = "user_annotation") -> dict[str, Any]:
    return {"ph": "X", "name": name, "ts": ts, "dur": dur, "cat": cat}


def trace(path: Path, rank: int | None, events: list[dict[str, Any]]) -> Path:
    about = {} if rank is None else {"distributedInfo": {"rank": rank}}
    data = json.dumps({**about, "traceEvents": events}).encode()
    path.write_bytes(gzip.compress(data) if path.suffix == ".gz" else data)
    return path


def test_exposed_communication_is_not_own_work(tmp_path: Path) -> None:
    """A step of 100 us: kernels of communication from 40 to 70 and from 60 to 80, of computing until 50."""
    events = [
        span("ProfilerStep#3", 0, 100),
        span("ProfilerStep#3", 5, 90, "gpu_user_annotation"),
        span("gemm", 0, 50, "kernel"),
        span("ncclDevKernel_AllReduce", 40, 30, "kernel"),
        span("ncclDevKernel_AllGather", 60, 20, "kernel"),
        span("nccl:all_reduce", 0, 100),
    ]
    trace(tmp_path / "a.json", 1, events)
    trace(tmp_path / "rank0.json.gz", None, [span("ProfilerStep#3", 7, 100), span("ProfilerStep#4", 107, 10)])
    log = read_log(tmp_path)
    assert (log.ranks, log.steps) == (("0", "1"), (3,))
    assert log.own_s == pytest.approx(np.array([[100e-6, 70e-6]]))
    assert log.comm_s == pytest.approx(np.array([[0.0, 30e-6]]))
    (tmp_path / "gloo").mkdir()
    trace(tmp_path / "gloo" / "rank_0.json", None, [span("ProfilerStep#1", 0, 100), span("gloo:all_reduce", 60, 40)])
    trace(tmp_path / "gloo" / "rank_1.json", None, [span("ProfilerStep#1", 0, 100)])
    assert read_log(tmp_path / "gloo").own_s == pytest.approx(np.array([[60e-6, 100e-6]])), "on processors"


def test_traces_that_pytorch_wrote() -> None:
    """Two processes with DDP over gloo (torch 2.13); rank 1 slept 50 ms in the last two steps, and rank 0 waited."""
    log = read_log(ROOT / "tests" / "logs")
    assert (log.ranks, log.steps) == (("0", "1"), (1, 2, 3, 4))
    assert (log.own_s[2:, 1] > 0.05).all()
    assert (log.own_s[1:, 0] < 0.01).all()
    assert (log.comm_s[2:, 0] > 0.05).all()


def test_bad_traces(tmp_path: Path) -> None:
    cases = [("ProfilerStep#1", ["a.json", "b.json"], "no rank is in it")]
    cases.append(("ProfilerStep#1", ["rank1.json", "x_rank1.json"], "is of rank 1, as is"))
    for number, (step, names, says) in enumerate([*cases, ("x", ["rank0.json"], "has no ProfilerStep spans")]):
        (tmp_path / f"{number}").mkdir()
        for name in names:
            trace(tmp_path / f"{number}" / name, None, [span(step, 0, 1)])
        with pytest.raises(LogError, match=says):
            read_log(tmp_path / f"{number}")


def test_times_of_steps_are_those_of_rounds_or_of_the_slowest_and_begin_with_the_rest(tmp_path: Path) -> None:
    path = four(tmp_path / "a.csv", work=[0.5, 1.0, 0.5, 0.5])
    assert rounds_s(read_log(path)).sum() == pytest.approx(3.5)
    assert rounds_s(read_log(path, Reading(Columns(compute="work"))))[0] == pytest.approx(2.0)
    path = four(tmp_path / "a.csv", work=[0.5, 1.0, 0.5, 0.5], at=[10.0, 10.0, 12.0, 12.5])
    log = without_first(read_log(path, Reading(Columns(compute="work", start="at"))), 1)
    assert log.steps == (2,)
    assert log.begin_s.tolist() == [[0.0, 0.5]]
