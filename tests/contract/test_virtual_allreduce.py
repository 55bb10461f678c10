"""What every strategy that may be run without servers owes on the virtual clock, in worlds of replicas and rings."""

from __future__ import annotations

from functools import cache
from itertools import pairwise
from pathlib import Path

import pytest

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from tests.contract.catalogue import NAMES, NUM_WORKERS, fits, marked, sample
from tests.contract.test_virtual import Case, cases_of, dead, different, unconserved, unlawful
from tests.support.invariants import replay
from tests.support.virtual_runs import VirtualRun, draw_replica_world

CASES = [
    case
    for name in NAMES
    for num_workers in NUM_WORKERS
    if "allreduce" in sample(name).topologies and fits(name, num_workers)
    for case in cases_of(name, num_workers)
]
every_case = pytest.mark.parametrize("case", marked(CASES), scope="module")


@cache
def run_of(case: Case, seed: int) -> VirtualRun:
    return VirtualRun(draw_replica_world(case.num_workers, seed), case.make())


def runs(case: Case) -> list[VirtualRun]:
    return [run_of(case, seed) for seed in case.seeds]


@every_case
def test_it_is_lawful_and_reaches_the_end_and_uses_every_sample_once_an_epoch(case: Case) -> None:
    """No more than the update under way is taken back: replicas have the newest version, or a loss within its ring has
    left them without."""
    for run in runs(case):
        assert unlawful(run) + dead(run) + unconserved(run) + replay(run.lines, case.make()) == []
        versions = [line["version"] for line in run.lines if line["kind"] == "event"]
        assert all(after >= before - 1 for before, after in pairwise(versions))


@every_case
def test_the_analysis_reads_the_record_and_has_no_complaint(case: Case, tmp_path: Path) -> None:
    for number, run in enumerate(runs(case)):
        loaded = load_run(run.write(tmp_path / f"run{number}"))
        assert (loaded.status, loaded.torn) == ("done", False)
        assert integrity(loaded).problems == ()


@pytest.mark.few(4)
@every_case
def test_it_does_the_same_again_to_the_byte(case: Case) -> None:
    for run in runs(case):
        assert different(run, VirtualRun(run.world, case.make())) == []
