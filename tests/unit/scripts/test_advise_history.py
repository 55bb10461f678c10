"""``run.py advise`` repeats the whole log, or a part that stands for all of it: the same costs, the same ranking."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from pathlib import Path

import numpy as np
import pytest
from rich.console import Console

from analysis.logs.step_log import StepLog
from analysis.reports.advice import Advice
from stragglab.commands import advise
from stragglab.grids import advising

TRIED = "bsp,lb_bsp,backup_workers,lgc"
SMALL = (12, 160)


def halves(ranks: int, steps: int, later: bool) -> StepLog:
    """A quarter of the ranks is slow in the first or in the second half of the log; else the same steps."""
    own_s = np.exp(0.02 * np.random.default_rng(5).standard_normal((steps, ranks)))
    half = slice(steps // 2, None) if later else slice(None, steps // 2)
    own_s[half, : ranks // 4] *= 2.0
    names = tuple(map(str, range(ranks)))
    return StepLog(source="x", ranks=names, steps=tuple(range(steps)), own_s=own_s, round_s=own_s.max(axis=1) + 0.05)


def advised(log: StepLog, out: Path, *words: str) -> Advice:
    asked = advise.parse(["x.csv", "-o", str(out), "--jobs", "1", "--topology", "ps", "--strategies", TRIED, *words])
    return advising.advise(advising.diagnose(log, [], asked), asked, Console(file=StringIO()))


def ratios(advice: Advice) -> dict[str, float]:
    return {one.strategy: one.ratio for one in advice.ranking if one.strategy in TRIED.split(",")}


@pytest.mark.parametrize("size", [SMALL, pytest.param((64, 800), marks=pytest.mark.long)])
def test_the_half_in_which_a_job_was_slow_does_not_matter(size: tuple[int, int], tmp_path: Path) -> None:
    first, second = (advised(halves(*size, later=later), tmp_path) for later in (False, True))
    assert first.found.actual_s == pytest.approx(second.found.actual_s, rel=0.01)
    assert first.baseline_error == pytest.approx(0.0, abs=0.02)
    assert second.baseline_error == pytest.approx(0.0, abs=0.02)
    assert ratios(first) == pytest.approx(ratios(second), rel=0.06)
    assert ratios(first)["lb_bsp"] < 0.85


@pytest.mark.parametrize("later", [False, pytest.param(True, marks=pytest.mark.long)])
def test_a_part_of_a_log_ranks_as_all_of_it(later: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    log = halves(8, 640, later)
    whole = advised(log, tmp_path)
    assert not whole.remarks
    monkeypatch.setattr(advising, "RANK_STEPS", 4 * 8 * 160)
    part = advised(log, tmp_path)
    assert "of the 640 steps: of every 4 one" in part.remarks[0]
    assert part.baseline_error == pytest.approx(whole.baseline_error, abs=0.02)
    assert ratios(part) == pytest.approx(ratios(whole), rel=0.05)
    assert [one.jct_s for one in part.ranking if one.strategy == "bsp"] == [pytest.approx(whole.found.actual_s)]


def test_on_all_reduce_cures_are_ranked_with_what_works_there(tmp_path: Path) -> None:
    log = halves(32, 240, later=True)
    assert log.round_s is not None
    round_s, clean = log.round_s.copy(), log.own_s.copy()
    round_s[39::40] += 5.0
    clean[120:, :8] /= 2.0
    saving = (log.own_s.max(axis=1) - clean.max(axis=1)).sum() / round_s.sum()
    words = ("--topology", "allreduce", "--restart-s", "2", "--ranks-per-host", "8")
    advice = advised(replace(log, round_s=round_s), tmp_path, *words)
    names = [row.strategy for row in advice.ranking]
    assert {"bsp", "lb_bsp", "lgc", "write checkpoints in the background"} <= set(names)
    assert "backup_workers" not in names
    (cure,) = [row for row in advice.ranking if row.strategy.startswith("replace host")]
    assert cure.ratio == pytest.approx(1 - saving + 2 / advice.found.actual_s, abs=0.01)
