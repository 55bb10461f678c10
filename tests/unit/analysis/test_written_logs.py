"""Whatever a launcher, a file or a restart has changed of a log, its reader finds ranks, steps, times, who is slow."""

from __future__ import annotations

import random
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import StepLog, rounds_s
from tests.support.long_tests import long_after
from tests.support.written_logs import PROGRAMS, RANKS, ROUND, TOKENS, Truth, printed, table, traces, wide

INPUTS = long_after(list(range(40)), always=3)
PRECISE = {"nanotron": 6e-3, "resiliency": 1e-4, "torchtitan": 4e-3, "modded-nanogpt": 4e-3}
"""How far times may be from the truth, as a part of it: by as many digits as are printed."""


def is_true(log: StepLog, job: Truth, precise: float) -> None:
    """Ranks, steps and times of every rank."""
    steps, own_s = job.last()
    assert list(log.steps) == steps
    assert log.num_ranks == RANKS
    np.testing.assert_allclose(log.own_s, own_s, rtol=precise)
    assert int(np.argmax(np.nanmedian(log.own_s, axis=0))) == job.slow


def is_true_as_a_whole(log: StepLog, job: Truth, precise: float) -> None:
    """Steps of all ranks together."""
    steps, own_s = job.last()
    assert list(log.steps) == steps
    assert not log.per_rank
    np.testing.assert_allclose(rounds_s(log), ROUND * own_s.max(axis=1), rtol=precise)


@pytest.mark.parametrize("seed", INPUTS)
@pytest.mark.parametrize("program", PROGRAMS)
def test_what_programs_print(program: str, seed: int, tmp_path: Path) -> None:
    job, data, changes = printed(random.Random(f"{program}{seed}"), program)
    (tmp_path / "a.log").write_bytes(data)
    log = read_log(tmp_path / "a.log", Reading(tokens=TOKENS))
    check = is_true
    if program in ("MLPerf", "modded-nanogpt"):
        first = 1 if program == "modded-nanogpt" else 0
        job = replace(job, steps=tuple(range(first, first + len(job.steps))))
    if program == "resiliency":
        relative = job.own_s / job.own_s.min(axis=1, keepdims=True)
        job = Truth(tuple(range(len(job.steps))), relative, job.counts, job.slow)
    elif program not in ("torchtitan", "Megatron-LM", "StragglAR"):
        check = is_true_as_a_whole
    check(log, job, PRECISE.get(program, 1e-3))
    said = " ".join(log.remarks)
    assert ("more than once" in said) == ("resumed" in changes)
    which = "last" if program in ("nanotron", "DeepSpeed", "nanoGPT") else "mean"
    assert (f"every line is the {which} of" in said) == ("interval" in changes)


@pytest.mark.parametrize("seed", INPUTS)
@pytest.mark.parametrize("name", ["a.csv", "a.tsv.gz"])
def test_tables(name: str, seed: int, tmp_path: Path) -> None:
    job, data, reading, changes = table(random.Random(f"{name}{seed}"))
    (tmp_path / name).write_bytes(data)
    log = read_log(tmp_path / name, reading)
    is_true(log, job, 1e-5)
    if {"compute", "comm"} & set(changes):
        _, own_s = job.last()
        np.testing.assert_allclose(rounds_s(log), ROUND * np.nanmax(own_s, axis=1), rtol=1e-5)


@pytest.mark.parametrize("seed", INPUTS)
def test_tables_with_a_column_per_rank(seed: int, tmp_path: Path) -> None:
    job, data, reading, _ = wide(random.Random(f"wide{seed}"))
    (tmp_path / "a.csv").write_bytes(data)
    log = read_log(tmp_path / "a.csv", reading)
    is_true(log, job, 1e-5)
    assert any(f"{RANKS} columns such as" in remark for remark in log.remarks)


@pytest.mark.parametrize("seed", INPUTS)
def test_traces(seed: int, tmp_path: Path) -> None:
    job, files, _ = traces(random.Random(f"traces{seed}"))
    for name, data in files.items():
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_bytes(data)
    log = read_log(tmp_path)
    is_true(log, job, 1e-6)
    np.testing.assert_allclose(rounds_s(log), ROUND * job.own_s.max(axis=1), rtol=1e-6)
