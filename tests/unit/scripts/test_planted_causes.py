"""``run.py advise`` reads tables with one planted cause: it names the right unit, onset, kind, part and saving."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.measures.straggling import Straggling, straggling
from analysis.reports.cures import ALIGN, BALANCE, cures
from stragglab.commands import advise
from tests.support.planted_causes import CAUSES, Job, calm_job, planted_job
from tests.support.planted_jobs import run_planted
from tests.support.planted_software import KINDS, caused, logged, names

JOBS, PARTS = 100, 5
SMALL = range(len(CAUSES))
"""The first jobs, one of each cause, have 64 ranks."""


def diagnosed(job: Job, folder: Path) -> tuple[Straggling, tuple[int, ...]]:
    """(what is found, the numbers of the steps that are read), by way of a file."""
    path = folder / "log.parquet"
    job.table().to_parquet(path)
    asked = advise.parse([*job.words(path), "-o", str(folder / "out")])
    log = advise.read(path, asked)
    return straggling(log, barrier=True, slow_frac=0.1, ranks_per_host=asked.ranks_per_host), log.steps


def wrong(job: Job, folder: Path) -> list[str]:
    """What is wrong with the diagnosis of a job."""
    found, steps = diagnosed(job, folder)
    truth, logged_s = job.truth, float(job.seconds[1:, 0].sum())
    bad = [] if found.actual_s == pytest.approx(logged_s, rel=0.002) else ["seconds"]
    if not truth.members or not found.units:
        return bad + (["unit"] if truth.members or found.units else [])
    unit, late = found.units[0], max(3, len(steps) // 100)
    right = {
        "unit": len(found.units) == 1 and unit.group.members == truth.members,
        "onset": abs(steps[unit.course.since] - max(1, truth.since)) <= late,
        "kind": unit.course.kind == truth.kind,
        "part": unit.part == truth.part or (unit.part == "" and truth.part == "computing"),
        "saving": unit.saves_frac == pytest.approx(truth.saving_frac, rel=0.1, abs=0.005),
    }
    return bad + [name for name, holds in right.items() if not holds]


@pytest.mark.few(4)
@pytest.mark.parametrize("number", SMALL)
def test_the_planted_cause_is_named(number: int, tmp_path: Path) -> None:
    assert wrong(planted_job(number), tmp_path) == []


@pytest.mark.long(like="test_the_planted_cause_is_named")
@pytest.mark.parametrize("part", range(PARTS))
def test_of_a_hundred_planted_causes_nearly_all_are_named(part: int, tmp_path: Path) -> None:
    """No part of them has more than one that is wrong: 95 of 100 are right."""
    found = {number: wrong(planted_job(number), tmp_path) for number in range(part, JOBS, PARTS)}
    failed = {number: bad for number, bad in found.items() if bad}
    assert len(failed) <= 1, failed


@pytest.mark.parametrize("number", range(3))
def test_without_a_cause_nobody_is_named(number: int, tmp_path: Path) -> None:
    assert wrong(calm_job(number), tmp_path) == []


@pytest.mark.long(like="test_without_a_cause_nobody_is_named")
@pytest.mark.parametrize("part", range(PARTS))
def test_in_a_hundred_jobs_without_a_cause_nobody_is_named(part: int, tmp_path: Path) -> None:
    found = {number: wrong(calm_job(number), tmp_path) for number in range(part, JOBS, PARTS)}
    assert not {number: bad for number, bad in found.items() if bad}


def test_another_truth_is_noticed(tmp_path: Path) -> None:
    """The negative control: a diagnosis of one job, compared with the truth of another."""
    job, other = planted_job(0), planted_job(8)
    job = Job(**{**vars(job), "truth": other.truth})
    assert {"unit", "onset", "kind", "part", "saving"} <= set(wrong(job, tmp_path))


MANY_JOBS, FEW_PARTS = 100, 4
OFF = 0.1
"""Of a saving, the error that counts as right, or half a point of the job's time."""


def checked(number: int, folder: Path) -> tuple[bool, bool]:
    """Whether the names of a job are right, and whether the price of its cure is."""
    one = caused(number)
    log, jct_s = logged(one, folder)
    found = straggling(log, barrier=True, slow_frac=0.1)
    named = names(found) == ({one.kind} if one.kind else set())
    if one.kind == "loader":
        named = named and {rank for unit in found.units for rank in unit.group.members} == {*one.loaders}
    if not one.kind or not named:
        return named, named
    made = {cure.row.strategy: 1.0 - cure.row.ratio for cure in cures(log, found, 0.0)}
    priced = {"pauses": made.get(ALIGN), "sequences": made.get(BALANCE), "loader": max(made.values())}[one.kind]
    saved = 1.0 - run_planted(one.cured, "bsp", folder)[0] / jct_s
    return named, priced == pytest.approx(saved, rel=OFF, abs=0.005)


@pytest.mark.parametrize("number", range(len(KINDS)))
def test_the_cause_is_named_and_priced_as_the_cured_job_runs(number: int, tmp_path: Path) -> None:
    assert checked(number, tmp_path) == (True, True)


@pytest.mark.long(like="test_the_cause_is_named_and_priced_as_the_cured_job_runs")
@pytest.mark.parametrize("part", range(FEW_PARTS))
def test_in_a_hundred_jobs_causes_are_told_apart_and_priced(part: int, tmp_path: Path) -> None:
    """A quarter each: precision and recall of every kind are 1, and at most one price in ten is wrong."""
    found = {number: checked(number, tmp_path) for number in range(part, MANY_JOBS, FEW_PARTS)}
    assert all(named for named, _ in found.values()), found
    assert sum(priced for _, priced in found.values()) >= 0.9 * len(found), found


def test_pauses_are_neither_sequences_nor_a_loader(tmp_path: Path) -> None:
    """The negative control: pauses are neither sequences nor a loader."""
    log, _ = logged(caused(0), tmp_path)
    assert names(straggling(log, barrier=True, slow_frac=0.1)) == {KINDS[0]} != {KINDS[1]}
