"""Which runs measure the injectors: all levels, apart from each other, in a quarter of an hour."""

from __future__ import annotations

from pathlib import Path

import pytest

from injectors.patterns import Trace
from injectors.plan import ClusterShape
from stragglab.grids.injector_runs import START_S
from stragglab.grids.injectors import (
    ACTUATORS,
    GAP_S,
    LEVELS,
    LINK_LEVELS,
    LINKS_MBPS,
    MAX_BATCH,
    RUN_S,
    grid,
    plan_text,
    probe,
)

SAMPLE_S = 5e-4
QUICK = ["sleep_50ms_1", "cgroup_50ms_1", "duty_50ms_1", "cpulimit_200ms_1", "link_100mbps_1"]


def test_every_actuator_goes_through_all_levels_at_both_lengths() -> None:
    found: dict[tuple[str, ...], list[float]] = {}
    for cell in grid(SAMPLE_S, hosts=True, quick=False):
        by, length, _ = cell.name.split("_")
        found.setdefault((by, length), []).extend(row.magnitude for row in cell.windows)
    assert found["cpulimit", "200ms"] == found["cpulimit", "400ms"] == list(LEVELS[:-1])
    for by in set(ACTUATORS) - {"sleep", "cpulimit"}:
        assert found[by, "50ms"] == found[by, "200ms"] == list(LEVELS)
    assert found["sleep", "50ms"] == pytest.approx([0.055 * (1 / level - 1) for level in LEVELS], abs=1e-6)
    for mbps in LINKS_MBPS:
        assert found["link", f"{mbps}mbps"] == list(LINK_LEVELS)
    assert len(found) == 2 * len(ACTUATORS) + len(LINKS_MBPS)


def test_the_whole_grid_takes_well_below_a_quarter_of_an_hour() -> None:
    cells = grid(SAMPLE_S, hosts=True, quick=False)
    assert sum(cell.lasts_s + START_S for cell in cells) < 11.5 * 60
    assert all(cell.lasts_s <= RUN_S for cell in cells if len(cell.windows) > 1)
    assert len({cell.name for cell in cells}) == len(cells)


def test_windows_are_apart_and_hold_iterations() -> None:
    """No batch is larger than the data."""
    batches = {word for cell in grid(1e-6, hosts=True, quick=False) for word in cell.settings if "global_batch" in word}
    assert batches == {f"workload.global_batch_samples={count}" for count in (MAX_BATCH, 8)}
    for cell in grid(SAMPLE_S, hosts=True, quick=False):
        end_s = 0.0
        for row in cell.windows:
            assert row.time >= end_s + GAP_S - 1e-6
            end_s = row.time + row.duration
            if "_200ms_" in cell.name and row.kind == "cpu":
                assert row.duration >= 5 * 0.22 / row.magnitude - 1e-3
        assert cell.lasts_s >= end_s + GAP_S - 2e-3


def test_quick_runs_are_some_of_the_others() -> None:
    every = {cell.name: cell for cell in grid(SAMPLE_S, hosts=True, quick=False)}
    cells = grid(SAMPLE_S, hosts=True, quick=True)
    assert [cell.name for cell in cells] == QUICK
    assert all(every[cell.name] == cell for cell in cells)


def test_hogs_go_through_all_levels_on_a_device() -> None:
    cells = grid(SAMPLE_S, hosts=False, quick=False, device="fake")
    for length in ("50ms", "200ms"):
        rows = [row for cell in cells if f"_{length}_" in cell.name for row in cell.windows]
        assert [row.magnitude for row in rows] == list(LEVELS)
        assert {(row.target, row.kind) for row in rows} == {("device:0", "gpu")}
    assert all("backend.device=fake" in cell.settings for cell in (*cells, probe(hosts=False, device="fake")))
    quick = grid(SAMPLE_S, hosts=False, quick=True, device="cuda")
    assert [cell.name for cell in quick] == ["hog_50ms_1", "hog_50ms_2"]
    assert sum(cell.lasts_s + START_S for cell in quick) < 60


def test_plan_files_say_what_the_plan_should_be(tmp_path: Path) -> None:
    for cell in grid(SAMPLE_S, hosts=True, quick=False):
        path = tmp_path / "plan.csv"
        path.write_text(plan_text(cell.windows))
        shape = ClusterShape(num_workers=1, num_servers=1, num_hosts=2)
        plan = Trace(path=str(path)).plan(shape, cell.lasts_s, 0)
        for one, row in zip(plan.disturbances, cell.windows, strict=True):
            found = (one.start_s, round(one.end_s - one.start_s, 6), one.target, one.magnitude)
            assert found == (row.time, row.duration, row.target, row.magnitude)
