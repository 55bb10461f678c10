"""Planned and achieved disturbance, joined."""

from __future__ import annotations

import tracemalloc
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from analysis.measures.disturbances import achieved_effects
from analysis.measures.host_work import slowed_tasks
from analysis.measures.injections import workers_of
from analysis.records.load import load_run
from tests.support.records import Story, apply, bsp_story, compute, disturbance


def join(story: Story, path: Path) -> pd.DataFrame:
    run = load_run(story.write(path / "run"))
    tables = run.tables
    return achieved_effects(run.plan, tables.iterations, tables.updates, tables.server_busy)


def one_worker(plan: list[dict[str, object]], *rows: tuple[float, float, float]) -> Story:
    """A worker whose iterations are (arrived at, computing time, injected seconds of it), one behind the other."""
    story = Story(num_workers=1, plan=plan)
    story.started()
    story.lines[-1]["commands"] = [compute(0)]
    for number, (t, compute_s, injected_s) in enumerate(rows):
        about = {"compute_s": compute_s, "injected_s": injected_s, "iteration": number}
        story.arrived(t, 0, number, [apply(number), compute(0)], **about)
    return story


def test_the_window_is_open_at_its_start_and_closed_at_its_end(tmp_path: Path) -> None:
    story = one_worker([disturbance(1.0, 2.0, "worker:0", 0.5)], (1.0, 1.0, 0.0), (2.0, 1.5, 0.5), (3.0, 1.0, 0.0))
    story.arrived(3.5, 0, 9, [], samples=0, compute_s=0.0, injected_s=0.0, iteration=9)
    assert join(story, tmp_path).iloc[0]["hits"] == 1


def test_a_server_is_disturbed_by_update(tmp_path: Path) -> None:
    story = one_worker([disturbance(1.5, 3.5, "server:0", 0.05)], *((float(n), 1.0, 0.0) for n in range(1, 6)))
    story.note(5.1, "Updated", server=0, version=2, updates=2, busy_s=0.1, injected_s=0.05)
    story.note(5.2, "Updated", server=0, version=5, updates=3, busy_s=0.1, injected_s=0.06)
    row = join(story, tmp_path).iloc[0]
    assert (row["hits"], row["first_effect_s"]) == (2, 2.0)
    assert (row["planned_s"], row["achieved_s"]) == (pytest.approx(0.1), pytest.approx(0.11))
    story = one_worker([disturbance(0.5, 1.5, "server:0", 0.1)], (1.0, 1.0, 0.0), (2.0, 1.0, 0.0))
    story.note(2.1, "Updated", server=0, version=1, updates=1, busy_s=0.2, injected_s=0.1)
    story.note(2.2, "Updated", server=0, version=2, updates=1, busy_s=0.4, injected_s=0.3)
    found = join(story, tmp_path / "outside").iloc[0]["achieved_s"]
    assert found == pytest.approx(0.1), "what it slept in its second update is none of the window's"


def test_a_part_of_a_worker_disturbs_the_worker_by_what_all_its_parts_decide(tmp_path: Path) -> None:
    plan = [disturbance(0.5, 2.5, name, 0.5) for name in ("link:0:(1,2)", "rank:(0,2,1)", "rank:(1,2,1)")]
    story = one_worker(plan, (1.0, 1.0, 0.0), (2.0, 1.5, 0.5), (3.0, 1.5, 0.5))
    rows = join(story, tmp_path).set_index("target")
    assert rows["hits"].to_dict() == {"link:0:(1,2)": 2, "rank:(0,2,1)": 2, "rank:(1,2,1)": 0}
    assert rows[["planned_s", "achieved_s"]].isna().all(axis=None)
    run = load_run(tmp_path / "run")
    assert [*workers_of(run, rows.index).values()] == [{0}, {0}, {1}]
    assert slowed_tasks(run, "rank:(1,2,1)") == {"worker:1"}


def test_unknown_kinds_and_targets_do_not_crash(tmp_path: Path) -> None:
    plan = [disturbance(0.0, 9.0, "worker:0", 0.5, kind="quota"), disturbance(0.0, 9.0, "link:0-1", 1e6, kind="rate")]
    rows = join(one_worker(plan, (1.0, 1.0, 0.0)), tmp_path)
    assert list(rows["hits"]) == [1, 0]
    assert rows["planned_s"].isna().all()
    assert len(join(bsp_story(plan=[]), tmp_path / "no plan")) == 0


def many(num_windows: int, num_iterations: int, seed: int) -> tuple[pd.DataFrame, pd.DataFrame]:
    """Short windows of one worker that overlap here and there, and its iterations."""
    rng = np.random.default_rng(seed)
    start_s = np.sort(rng.uniform(0, 100, num_windows))
    kinds = rng.choice(["delay", "slowdown"], num_windows)
    windows = {"target": "worker:0", "kind": kinds, "start_s": start_s, "magnitude": rng.uniform(0, 1, num_windows)}
    plan = pd.DataFrame({**windows, "end_s": start_s + rng.uniform(0, 200 / num_windows, num_windows)})
    times = {"issued_s": np.sort(rng.uniform(0, 100, num_iterations)), "compute_s": 1.0}
    work = {"samples": 1, "worker": 0, "injected_s": rng.uniform(0, 1, num_iterations)}
    work["cut_samples"] = rng.integers(0, 3, num_iterations)
    return plan, pd.DataFrame({**times, **work})


NO_UPDATES = pd.DataFrame({"t": [], "version": []})
NO_NOTES = pd.DataFrame({"server": [], "version": [], "t": [], "updates": [], "injected_s": []})


@pytest.mark.parametrize("seed", range(2))
def test_windows_that_overlap_divide_what_was_measured(seed: int) -> None:
    """Iteration by iteration, window by window; one that ended early has had its part of a delay."""
    plan, iterations = many(30, 40, seed)
    planned, measured, hits = np.zeros(30), np.zeros(30), np.zeros(30)
    for one in iterations.itertuples():
        open_now = ((plan["start_s"] <= one.issued_s) & (one.issued_s < plan["end_s"])).to_numpy()
        own_s = one.compute_s - one.injected_s
        delay_s = plan["magnitude"] / (1 + one.cut_samples)
        added = np.where(plan["kind"] == "slowdown", plan["magnitude"] * own_s, delay_s) * open_now
        hits, planned = hits + open_now, planned + added
        measured += added / added.sum() * one.injected_s if added.sum() else 0.0
    found = achieved_effects(plan, iterations, NO_UPDATES, NO_NOTES)
    assert hits.max() > 1
    assert found["hits"].tolist() == hits.tolist()
    assert found["planned_s"].to_numpy() == pytest.approx(planned)
    assert found["achieved_s"].to_numpy() == pytest.approx(measured)


def test_many_windows_of_a_long_job_need_memory_for_those_that_were_met() -> None:
    """All windows by all iterations are 200 million pairs, 1.6 GB for each number about a pair."""
    plan, iterations = many(10_000, 20_000, 0)
    tracemalloc.start()
    try:
        found = achieved_effects(plan, iterations, NO_UPDATES, NO_NOTES)
        _, most = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert found["hits"].sum() > 10_000
    assert most < 50_000_000
