"""Which part of a step costs what, of logs with one rank or a few steps."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import StepLog
from analysis.reports.few_steps import compared_ranks
from analysis.reports.parts import part_lines
from stragglab.commands import advise
from tests.support.runs import ROOT

PUBLIC = ROOT / "tests" / "logs" / "public"
PUBLISHED = {0: 33.37, 4: 0.84}
"""Percent of the step in the data loader, by its number of processes, as the plugin's own tests expect it of these two
traces (pytorch/kineto, tb_plugin/test/result_check_file.txt, before its removal in 94979607)."""


@pytest.mark.parametrize("processes", PUBLISHED)
def test_the_part_of_loading_is_what_the_profiler_s_plugin_published(processes: int) -> None:
    log = read_log(PUBLIC / f"resnet50_num_workers_{processes}.pt.trace.json.gz")
    assert log.data_s is not None
    assert 100 * log.data_s.sum() / log.own_s.sum() == pytest.approx(PUBLISHED[processes], abs=1.0)


def test_the_data_bound_job_is_named_and_the_other_is_not(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    said = {}
    for processes in PUBLISHED:
        path = PUBLIC / f"resnet50_num_workers_{processes}.pt.trace.json.gz"
        assert advise.main([str(path), "-o", str(tmp_path / "out"), "--skip", "0"]) == 1
        said[processes] = capsys.readouterr().out
    assert "data-bound: " in said[0]
    assert "data-bound" not in said[4]


def whole(own: list[float], data: list[float] | None = None, comm: list[float] | None = None) -> StepLog:
    """A log of one rank."""

    def column(values: list[float] | None) -> np.ndarray | None:
        return None if values is None else np.array(values)[:, None]

    own_s = np.array(own)[:, None]
    steps = tuple(range(len(own)))
    return StepLog("", ("all",), steps, own_s, comm_s=column(comm), data_s=column(data), per_rank=False)


def test_slow_steps_are_long_in_the_part_that_exceeds_its_usual_time() -> None:
    own = [1.0] * 8 + [3.0, 2.0]
    assert "slow steps are longer in loading (100% of their excess)" in part_lines(
        whole(own, data=[0.02] * 8 + [2.02, 1.02])
    )
    said = part_lines(whole(own, data=[0.02] * 10, comm=[0.5] * 8 + [2.0, 1.5]))
    assert "slow steps are longer in communication (83% of their excess)" in said
    assert not any("slow steps" in line for line in part_lines(whole([1.0] * 9, data=[0.02] * 9)))
    (line,) = part_lines(whole([1.0, 2.0]))
    assert "log seconds of loading and of communication" in line


def test_a_slow_rank_of_a_few_steps_is_slow_in_a_part() -> None:
    own_s = np.array([[1.0, 1.5, 1.0], [1.0, 1.5, 1.0]])
    data_s = np.array([[0.1, 0.6, 0.1], [0.1, 0.6, 0.1]])
    log = StepLog("", tuple("012"), (0, 1), own_s, data_s=data_s)
    assert "slow: rank 1 1.50 times (in loading)" in compared_ranks(log, 0.1, "")[1]
    log = StepLog("", tuple("012"), (0, 1), own_s, data_s=np.full((2, 3), 0.1))
    assert "slow: rank 1 1.50 times (in computing)" in compared_ranks(log, 0.1, "")[1]
