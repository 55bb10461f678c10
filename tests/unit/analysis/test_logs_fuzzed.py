"""Damaged logs: whatever is in them, a reader returns times that can be used, or refuses in one line."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import Reading, read_log
from analysis.logs.step_log import LogError, StepLog
from analysis.reports.few_steps import compared_ranks
from analysis.reports.whole_steps import whole_steps
from stragglab.commands import advise
from stragglab.grids import advising
from tests.support.log_samples import FILES, RECORD, TRACES, write_sample
from tests.support.mutating import mutated

SAMPLES = (*FILES, TRACES, RECORD)
FEW, MANY = 2, 200
LONGEST = 2_000
"""Characters of a message, beyond the path."""


def is_used_or_refused(path: Path, reading: Reading, name: str = "") -> bool:
    """Whether the log was read; anything but a log or one line fails."""
    try:
        log = read_log(path, reading)
    except LogError as error:
        text = str(error)
        assert "\n" not in text, name
        assert text.isprintable() or "\N{REPLACEMENT CHARACTER}" in text, name
        assert len(text) < LONGEST + 2 * len(str(path)), name
        return False
    _check(log)
    return True


def _check(log: StepLog) -> None:
    """It has the shapes that it promises, and what is done with logs can be done with it."""
    assert log.own_s.shape == (len(log.steps), log.num_ranks)
    assert log.num_ranks == len(set(log.ranks)) > 0
    assert np.all((log.own_s > 0) | np.isnan(log.own_s))
    assert not np.isnan(log.own_s).all(axis=1).any(), "a step without any time"
    assert np.isfinite(log.own_s[~np.isnan(log.own_s)]).all()
    if not log.per_rank:
        assert len(whole_steps(log)) >= 3
    elif len(log.steps) < advise.FEWEST_STEPS:
        assert len(compared_ranks(log, 0.1, "")) >= 3
    else:
        job = advising.diagnose(log, [], advise.parse(["x.log"]))
        assert math.isfinite(job.model.length_s)


def damaged(folder: Path, sample: str, seed: int) -> tuple[Path, Reading]:
    """A sample with one of its files mutated."""
    path, files, reading = write_sample(folder, sample)
    file = files[seed % len(files)]
    file.write_bytes(mutated(file.read_bytes(), seed))
    return path, reading


@pytest.mark.few(12)
@pytest.mark.parametrize("sample", SAMPLES)
def test_a_damaged_log_is_used_or_refused(sample: str, tmp_path: Path) -> None:
    path, _, reading = write_sample(tmp_path, sample)
    assert is_used_or_refused(path, reading)
    for seed in range(FEW):
        is_used_or_refused(*damaged(tmp_path, sample, seed), f"{sample}, seed {seed}")


def test_most_mutations_change_a_file() -> None:
    data = FILES["log.csv"][0]()
    changed = [mutated(data, seed) for seed in range(40)]
    assert changed == [mutated(data, seed) for seed in range(40)]
    assert len({data, *changed}) > 30


def once_failed() -> dict[str, bytes]:
    """Found by the long test below: rows with more cells than names, with fewer, or with a part of a number."""
    head, *rows = FILES["wide.csv"][0]().splitlines(keepends=True)
    titles, *cells = FILES["semicolons.csv"][0]().splitlines(keepends=True)
    more, fewer = b"0,0.1,0.1545,0.1011,0.102,0.15,0.103\n", b"11,0.102\n"
    return {
        "wide_more_cells.csv": b"".join([head, more, *rows[2:11], fewer, *rows * 13]),
        "wide_slow_or_unknown.csv": b"".join([head, *rows[:14], b"0400000000000001,0.153,0.1\n", *rows[8:]]),
        "semicolons_more_cells.csv": b"".join([titles, cells[0][:-1] + b"[" * 5_000, *cells[1:]]),
    }


def test_what_once_failed_is_used_or_refused(tmp_path: Path) -> None:
    for name, data in once_failed().items():
        (tmp_path / name).write_bytes(data)
        is_used_or_refused(tmp_path / name, Reading(), name)


@pytest.mark.timeout(600)
@pytest.mark.long(like="test_a_damaged_log_is_used_or_refused")
@pytest.mark.parametrize("sample", SAMPLES)
def test_many_damaged_logs_are_used_or_refused(sample: str, tmp_path: Path) -> None:
    for seed in range(FEW, MANY):
        is_used_or_refused(*damaged(tmp_path, sample, seed), f"{sample}, seed {seed}")
