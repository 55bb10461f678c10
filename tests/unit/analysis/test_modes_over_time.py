"""Modes over time, of a small record made by hand."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from analysis.figures.modes import draw_modes, rank
from analysis.measures.modes import decided_s, modes_over_time
from analysis.records.load import Run, load_run
from analysis.reports.report import finish_run
from tests.support.records import Story, apply, bsp_story, disturbance


def story() -> Story:
    """Two workers; worker 1 takes 1 s, in the window from 4 to 8 s 3 s; the mode changes at 7 and 8.5 s."""
    made = Story("star_h", runtime="virtual", num_workers=2, plan=[disturbance(4.0, 8.0, "worker:1", 2.0, "slowdown")])
    made.started()
    _state(made, "ssgd", 0)
    ends = {0: [1.0, 2.0, 3.0, 4.0, 7.0, 8.5, 9.5], 1: [1.0, 2.0, 3.0, 4.0, 7.0, 8.5, 9.5]}
    states = {4: ("ssgd", 1), 5: ("asgd", 1)}
    for number, t in enumerate(ends[0]):
        for worker in (0, 1):
            slow = worker == 1 and number == 4
            made.arrived(t, worker, 2 * number + worker, [apply(2 * number + worker)], compute_s=3.0 if slow else 1.0)
        if number in states:
            _state(made, *states[number])
    made.finished(10.0)
    return made


def _state(made: Story, mode: str, decisions: int) -> None:
    made.lines[-1]["state"] = {"mode": mode, "decisions": decisions}


@pytest.fixture(scope="module")
def run(tmp_path_factory: pytest.TempPathFactory) -> Run:
    return load_run(story().write(tmp_path_factory.mktemp("modes") / "run"))


def test_stretches_of_a_mode_last_to_the_next_and_the_last_to_the_end(run: Run) -> None:
    assert modes_over_time(run).to_numpy().tolist() == [[0.0, 8.5, "ssgd"], [8.5, 10.0, "asgd"]]
    assert decided_s(run) == [7.0]


def test_a_run_without_modes_has_none(tmp_path: Path) -> None:
    still = load_run(bsp_story().write(tmp_path / "run"))
    assert modes_over_time(still).empty
    assert decided_s(still) == []
    modes = ["asgd", "dynamic 2 2", "static 2", "dynamic 3 1", "static 10", "ssgd"]
    assert sorted(modes, key=rank) == ["ssgd", "static 10", "static 2", "dynamic 3 1", "dynamic 2 2", "asgd"]
    finish_run(tmp_path / "run")
    assert not (tmp_path / "run" / "figures" / "modes.png").exists()


@pytest.mark.painted
def test_a_figure_of_modes_above_the_windows(run: Run, tmp_path: Path) -> None:
    path = draw_modes(tmp_path / "modes.png", run, "caption")
    assert path.stat().st_size > 5_000
    shown = pd.read_csv(path.with_suffix(".csv"))
    assert shown["what"].tolist() == ["ssgd", "asgd", "worker:1"]
    assert shown["is_mode"].tolist() == [True, True, False]
