"""How long the scheduler lets nodes wait, and what it says beforehand."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from runtime.core.scheduling import MAX_PENDING_S, ConstantPending, LognormalPending, TracePending


def test_lognormal_draws_belong_to_seed_and_number() -> None:
    busy = LognormalPending(median_s=10.0, sigma=0.5)
    drawn = [busy.draw_s(0.0, 0, number) for number in range(2000)]
    assert drawn[:5] == [busy.draw_s(99.0, 0, number) for number in range(5)]
    assert drawn[:5] != [busy.draw_s(0.0, 1, number) for number in range(5)]
    assert np.median(drawn) == pytest.approx(10.0, rel=0.05)
    assert np.mean(drawn) == pytest.approx(busy.expected_s(0.0), rel=0.05)
    assert busy.expected_s(0.0) == pytest.approx(10.0 * math.exp(0.125))


def test_a_trace_holds_from_row_to_row(tmp_path: Path) -> None:
    path = tmp_path / "pending.csv"
    path.write_text("t_s,pending_s\n0,0\n60,600\n90,30\n")
    busy = TracePending(path=str(path))
    assert [busy.draw_s(t, 0, 0) for t in (0.0, 59.9, 60.0, 89.0, 1e6)] == [0.0, 0.0, 600.0, 600.0, 30.0]
    assert [busy.next_change_s(t) for t in (0.0, 60.0, 90.0)] == [60.0, 90.0, math.inf]


@pytest.mark.parametrize(
    "text",
    [
        "",
        "t_s,pending_s\n",
        "t_s,pending_s\n1,2\n",
        "t_s,pending_s\n0,1\n0,2\n",
        "a,b\n0,1\n",
        "t_s,pending_s\n0,x\n",
        "t_s,pending_s\n0,-1\n",
        "t_s,pending_s\n0\n",
        "t_s,pending_s\n0,1\nnan,2\n5,3\n",
        't_s,pending_s\n0,"1\n',
    ],
)
def test_traces_that_are_none(tmp_path: Path, text: str) -> None:
    path = tmp_path / "pending.csv"
    path.write_text(text)
    wanted = r"path=.*: (must be CSV|t_s must begin|line 2 has 1 cells|cannot be read \(line 2)|pending_s="
    with pytest.raises(ValueError, match=wanted):
        TracePending(path=str(path))


def test_a_trace_that_is_not_there() -> None:
    with pytest.raises(ValueError, match=r"path=nowhere\.csv: cannot be read \(no such file"):
        TracePending(path="nowhere.csv")


@pytest.mark.parametrize("pending_s", [-1.0, math.inf, math.nan, 1e9])
def test_waits_that_are_none(pending_s: float) -> None:
    with pytest.raises(ValueError, match="pending_s="):
        ConstantPending(pending_s=pending_s)
    with pytest.raises(ValueError, match="median_s="):
        LognormalPending(median_s=pending_s)
    with pytest.raises(ValueError, match="sigma="):
        LognormalPending(sigma=-0.1)


def test_nobody_waits_for_longer_than_a_week() -> None:
    busy = LognormalPending(median_s=MAX_PENDING_S, sigma=3.0)
    drawn = [busy.draw_s(0.0, 0, number) for number in range(50)]
    assert max(drawn) == MAX_PENDING_S
    assert min(drawn) < MAX_PENDING_S


def test_a_trace_that_a_spreadsheet_saved_begins_with_a_mark(tmp_path: Path) -> None:
    path = tmp_path / "pending.csv"
    path.write_text("t_s,pending_s\n0,5\n", encoding="utf-8-sig")
    assert TracePending(path=str(path)).draw_s(0.0, 0, 0) == 5.0
