"""Levels of whole steps: found where they are planted, and nowhere else."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from analysis.logs.reading import read_log
from analysis.logs.step_log import StepLog
from analysis.measures.levels import levels, warm_up
from analysis.reports.few_steps import compared_ranks
from analysis.reports.parts import part_lines
from analysis.reports.whole_steps import whole_steps
from stragglab.commands import advise
from tests.support.runs import ROOT

SLOW = 0.1


def said(seconds: list[float], **more: object) -> list[str]:
    """What is said of a log of whole steps, whose numbers begin at 1."""
    steps = tuple(range(1, 1 + len(seconds)))
    own_s = np.array(seconds)[:, None]
    return whole_steps(StepLog(source="", ranks=("all",), steps=steps, own_s=own_s, per_rank=False, **more))  # type: ignore[arg-type]


@pytest.mark.parametrize("size", [1, 10, 300])
def test_a_level_is_found_at_its_step_in_short_and_long_logs(size: int) -> None:
    noise = np.exp(0.02 * np.random.default_rng(0).standard_normal(14 * size))
    noise[5 * size :] *= 1.3
    (_, change), (start, end) = levels(noise, SLOW)
    assert change == start
    assert abs(change - 5 * size) <= len(noise) // 200
    assert end == len(noise)


@pytest.mark.parametrize(
    ("seconds", "expected"),
    [
        ([1.0, 1.01] * 10 + [2.0, 2.02] * 10 + [1.01, 1.0] * 10, [(0, 20), (20, 40), (40, 60)]),
        (([1.0] * 9 + [4.0]) * 6, [(0, 60)]),
        ([1.0] * 20 + [1.09] * 20, [(0, 40)]),
        ([1.0] * 20 + [1.11] * 20, [(0, 20), (20, 40)]),
    ],
    ids=["a phase", "single long steps", "a small difference", "a large difference"],
)
def test_levels_begin_where_steps_change_for_long(seconds: list[float], expected: list[tuple[int, int]]) -> None:
    assert levels(np.array(seconds), SLOW) == expected


@pytest.mark.parametrize("spread", [0.05, 0.3])
def test_chance_makes_a_level_in_few_of_many_logs(spread: float) -> None:
    rng = np.random.default_rng(1)
    logs = [np.exp(spread * rng.standard_normal(rng.integers(6, 60))) for _ in range(50)]
    assert sum(len(levels(one, SLOW)) > 1 for one in logs) <= 2


@pytest.mark.parametrize(("seconds", "count"), [([9.0, 3.0, 1.2, 1, 1, 1], 3), ([1.0, 1, 9, 1, 1, 1], 0), ([9.0], 0)])
def test_a_warm_up_ends_with_the_first_usual_step(seconds: list[float], count: int) -> None:
    assert warm_up(np.array(seconds), SLOW) == count


def test_the_tail_and_a_period_of_slow_steps_are_said() -> None:
    seconds = [1.0] * 90 + [2.0] * 9 + [5.0]
    np.random.default_rng(0).shuffle(seconds)
    assert any("95% up to 2.000, 99% up to 2.030 times" in line and "longest 5.00" in line for line in said(seconds))
    assert "slow steps come every 8 steps (5 times)" in said([1.0, 1, 1, 1, 1, 1, 1, 2] * 5)
    assert not any("come every" in line for line in said([1.0, 1, 2, 1, 1, 1, 1, 1, 1, 2] + [1.0] * 9 + [2.0, 1.0]))


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
