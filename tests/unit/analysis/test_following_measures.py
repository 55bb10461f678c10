"""What an experiment reads off a run with replicas of the server, from notes that were made by hand."""

from __future__ import annotations

from collections.abc import Sequence
from math import isnan
from pathlib import Path

import pytest

from analysis.experiments.measures import MEASURES
from analysis.records.load import Run, load_run
from tests.support.records import Story

BOUND = {"divergence_max": 4.0}


def followed(folder: Path, notes: Sequence[tuple[int, float]], fields: dict[str, float] = BOUND) -> Run:
    """A run with these (behind, distance), a version later each."""
    made = Story("mlfabric", runtime="virtual", fields=fields)
    made.started()
    for version, (behind, distance) in enumerate(notes):
        made.note(1.0 + version, "Diverged", server=1, version=version, behind=behind, distance=distance)
    made.finished(9.0)
    return load_run(made.write(folder))


def measured(run: Run) -> list[float]:
    return [MEASURES[name](run) for name in ("distance_frac", "distance_level", "behind_mean")]


def test_distance_is_relative_to_the_bound_and_level_only_without_a_lack(tmp_path: Path) -> None:
    """Furthest apart while it lacks 3 updates; level twice, and once first in an update that both make (live)."""
    run = followed(tmp_path, [(0, 0.0), (3, 3.0), (1, 1.0), (0, 0.25), (-1, 0.5)])
    assert measured(run) == pytest.approx([0.75, 0.25, 0.6])
    frac, level, behind = measured(followed(tmp_path / "never level", [(1, 2.0), (2, 6.0)]))
    assert (frac, behind) == (1.5, 1.5), "beyond the bound is more than 1"
    assert isnan(level)
    assert isnan(MEASURES["distance_frac"](followed(tmp_path / "no replicas", [])))
    assert isnan(MEASURES["distance_frac"](followed(tmp_path / "no bound", [(0, 0.0)], {})))
