"""Virtual jobs that pauses, sequences of unequal length or loaders slow: named, and priced as the cured job runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from analysis.measures.straggling import straggling
from analysis.reports.cures import ALIGN, BALANCE, cures
from tests.support.planted_jobs import run_planted
from tests.support.planted_software import KINDS, caused, logged, names

JOBS, PARTS = 100, 4
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
@pytest.mark.parametrize("part", range(PARTS))
def test_in_a_hundred_jobs_causes_are_told_apart_and_priced(part: int, tmp_path: Path) -> None:
    """A quarter each: precision and recall of every kind are 1, and at most one price in ten is wrong."""
    found = {number: checked(number, tmp_path) for number in range(part, JOBS, PARTS)}
    assert all(named for named, _ in found.values()), found
    assert sum(priced for _, priced in found.values()) >= 0.9 * len(found), found


def test_another_truth_is_noticed(tmp_path: Path) -> None:
    """The negative control: pauses are neither sequences nor a loader."""
    log, _ = logged(caused(0), tmp_path)
    assert names(straggling(log, barrier=True, slow_frac=0.1)) == {KINDS[0]} != {KINDS[1]}
