"""Who is drawn where there are more workers than lanes."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.figures.single import draw_run
from analysis.measures import lanes
from analysis.measures.lanes import MOST, caption_of, drawn
from analysis.records.load import load_run
from tests.support.records import bsp_story


def iterations(means: dict[int, float]) -> pd.DataFrame:
    """Two iterations of every worker with this mean."""
    rows = [(worker, mean_s + off_s, 1) for worker, mean_s in means.items() for off_s in (-0.5, 0.5)]
    return pd.DataFrame(rows, columns=["worker", "iter_s", "samples"])


def test_of_many_the_slowest_and_others_evenly_spaced() -> None:
    slow = set(range(100, 100 + 7 * (MOST // 2), 7))
    found = drawn(range(1000), iterations({worker: 3.0 if worker in slow else 1.0 for worker in range(999)}))
    assert slow < found.keys()
    assert list(found.values()) == [float(place) for place in range(MOST)]
    assert list(found) == sorted(found)
    others = pd.Series(sorted(found.keys() - slow))
    assert others.diff().dropna().between(60, 75).all(), "1,000 / 16, with slow ones between"
    assert caption_of(len(found), 1000).startswith(f"{MOST} of 1000 workers: the {MOST // 2} with")
    workers = [0, 1, 5, *range(7, MOST + 4)]  # few keep their numbers as heights
    assert drawn(workers, iterations(dict.fromkeys(workers, 1.0))) == {worker: float(worker) for worker in workers}
    assert caption_of(len(workers), len(workers)) == ""


def test_the_figures_draw_no_more_lanes_than_that(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    run = load_run(bsp_story().write(tmp_path / "run"))
    monkeypatch.setattr(lanes, "MOST", 2)
    slowest = int(run.tables.iterations.groupby("worker")["iter_s"].mean().idxmax())
    draw_run(run, tmp_path / "few")
    for name in ("timeline", "bpt"):
        shown = set(pd.read_csv(tmp_path / "few" / f"{name}.csv")["worker"])
        assert len(shown) == 2
        assert slowest in shown
