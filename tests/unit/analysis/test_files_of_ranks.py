"""Folders with a file per rank: all forms say the same, a broken file is named, and the user sees how far it is."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.several import left_out
from analysis.logs.step_log import LogError, StepLog
from reading.unpacked import READ, open_unpacked

RANKS, STEPS = 12, 24
WORK_S = 0.3 + 0.001 * np.arange(STEPS)[:, None] + 0.01 * np.arange(RANKS)
"""[steps, ranks]"""
WHOLE_S = WORK_S.max(axis=1) + 0.05


def parts(rank: int) -> pd.DataFrame:
    about = {"rank": rank, "step": np.arange(STEPS)}
    rows = [pd.DataFrame({**about, "part": "computing", "seconds": WORK_S[:, rank], "group": None})]
    return pd.concat([*rows, pd.DataFrame({**about, "part": "step", "seconds": WHOLE_S, "group": None})])


def as_csv(path: Path, rank: int) -> None:
    parts(rank).to_csv(path.with_name(f"steps.rank{rank}.csv"), index=False)


def as_parquet(path: Path, rank: int) -> None:
    parts(rank).to_parquet(path.with_name(f"steps.rank{rank}.parquet"))


def as_lines(path: Path, rank: int) -> None:
    lines = [
        f" iteration {step + 1:8d}/{STEPS:8d} | elapsed time per iteration (ms): {1e3 * WHOLE_S[step]:.6f} |\n"
        f"time (ms) | forward-backward: {1e3 * WORK_S[step, rank]:.6f} | optimizer: 1.00\n"
        for step in range(STEPS)
    ]
    path.write_text("".join(lines))


def as_table(path: Path, rank: int) -> None:
    rows = {"rank": rank, "step": np.arange(STEPS), "seconds": WORK_S[:, rank]}
    pd.DataFrame(rows).to_csv(path.with_suffix(".csv"), index=False)


def as_trace(path: Path, rank: int) -> None:
    """The profiler's spans of steps, with a kernel of NCCL at the end of each."""
    events, now = [], 1e6 * rank
    for step in range(STEPS):
        whole, work = 1e6 * WHOLE_S[step], 1e6 * WORK_S[step, rank]
        about = {"ph": "X", "ts": now, "dur": whole, "name": f"ProfilerStep#{step}", "cat": "user_annotation"}
        kernels = (("gemm", now, work), ("ncclKernel", now + work, whole - work))
        events += [about, *({"ph": "X", "cat": "kernel", "name": n, "ts": t, "dur": d} for n, t, d in kernels)]
        now += whole
    path.with_suffix(".json").write_text(json.dumps({"distributedInfo": {"rank": rank}, "traceEvents": events}))


FORMS: dict[str, Callable[[Path, int], None]] = {
    "csv": as_csv,
    "parquet": as_parquet,
    "lines": as_lines,
    "table": as_table,
    "trace": as_trace,
}


def written(folder: Path, form: str, where: str = "rank_{}.log") -> Path:
    for rank in range(RANKS):
        path = folder / where.format(rank)
        path.parent.mkdir(parents=True, exist_ok=True)
        FORMS[form](path, rank)
    return folder


def check(log: StepLog, ranks: list[int]) -> None:
    assert log.ranks == tuple(map(str, ranks))
    assert len(log.steps) == STEPS
    assert log.own_s == pytest.approx(WORK_S[:, ranks], abs=1e-8)


@pytest.mark.parametrize("form", FORMS)
def test_every_form_has_the_ranks_own_times(form: str, tmp_path: Path) -> None:
    check(read_log(written(tmp_path, form)), list(range(RANKS)))


@pytest.mark.parametrize("form", FORMS)
def test_a_broken_file_is_named_in_a_line_and_the_others_are_read(form: str, tmp_path: Path) -> None:
    broken = sorted(written(tmp_path, form).iterdir())[3]
    rank = int("".join(filter(str.isdigit, broken.name)))
    broken.write_bytes(b"\x00\x01{" + broken.read_bytes()[:100])
    log = read_log(tmp_path)
    check(log, [each for each in range(RANKS) if each != rank])
    (line,) = (remark for remark in log.remarks if remark.startswith("left out: "))
    assert str(broken) in line
    assert "\n" not in line


@pytest.mark.parametrize("form", ["csv", "lines", "trace"])
def test_if_half_are_broken_the_log_is_refused_with_the_first_reason(form: str, tmp_path: Path) -> None:
    for path in sorted(written(tmp_path, form).iterdir())[: RANKS // 2]:
        path.write_text("{")
    with pytest.raises(LogError, match=r"rank_?0"):
        read_log(tmp_path)


def test_three_broken_files_have_a_line_each_and_the_others_are_counted() -> None:
    assert left_out([LogError(name) for name in "abcde"]) == [
        *(f"left out: {n}" for n in "abc"),
        "left out: 2 more files",
    ]


def test_what_launchers_store_in_a_folder_per_rank_is_read_whatever_lies_beside_it(tmp_path: Path) -> None:
    """As torchrun does (``--log-dir``); its stderr comes first by name, and has no steps."""
    for rank in range(RANKS):
        (tmp_path / str(rank)).mkdir()
        (tmp_path / str(rank) / "stderr.log").write_text("a warning\n")
    check(read_log(written(tmp_path, "lines", "{}/stdout.log")), list(range(RANKS)))


@pytest.mark.parametrize("form", FORMS)
def test_files_are_counted_while_they_are_read(form: str, tmp_path: Path) -> None:
    seen = list[str]()
    read_log(written(tmp_path, form), Reading(counted=lambda paths: (seen.append(path.name) or path for path in paths)))
    assert sorted(seen) == sorted(path.name for path in tmp_path.iterdir())


def test_the_part_of_a_file_that_is_read_grows_to_all_of_it(tmp_path: Path) -> None:
    path, told = tmp_path / "long.log", list[float]()
    path.write_bytes(bytes(5 << 20))
    token = READ.set(lambda _, part: told.append(part))
    try:
        with open_unpacked(path, 1 << 30) as file:
            assert len(file.read()) == 5 << 20
    finally:
        READ.reset(token)
    assert told == sorted(told)
    assert told[0] < 0.5
    assert told[-1] == 1.0
