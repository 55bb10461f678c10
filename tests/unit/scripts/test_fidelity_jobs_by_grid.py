"""Which runs a comparison of live and virtual runs consists of, and with what settings. No run is live here."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import yaml

from analysis.experiments.spec import ALL
from stragglab.commands import fidelity as script
from stragglab.grids import fidelity_runs
from stragglab.grids.fidelity import GRIDS
from tests.support.long_tests import long_after
from tests.unit.scripts.test_fidelity_script import GRID, Bench, ComparedRunner, bench, whole

__all__ = ["bench", "whole"]


def said(bench: Bench, name: str) -> list[str]:
    """The settings of a record."""
    return list(yaml.safe_load((bench.records / name / ".hydra" / "overrides.yaml").read_text()))


def test_a_strategy_and_a_pattern_have_settings_of_their_own(bench: Bench) -> None:
    """They hold over those of all jobs, and the user's over them."""
    words = ("-o", str(bench.out), "--seeds", "0", "--repeats", "1")
    runner = ComparedRunner()
    bench.run(*words, "--strategies", "ssp", "--stragglers", "transient", "straggler.period_s=9", runner=runner)
    name = "ssp_transient_seed0"
    assert runner.ran == [f"{name}_{side}" for side in ("virtual", "slowed", "live", "again")]
    own = GRIDS["local"].of_straggler["transient"]
    assert own[0].startswith("straggler.period_s=")
    assert {"straggler.period_s=9", *own[1:]} <= set(said(bench, f"{name}_live"))
    assert own[0] not in said(bench, f"{name}_live")
    assert said(bench, f"{name}_again") == said(bench, f"{name}_live")
    slower = GRIDS["local"].slower
    assert set(said(bench, f"{name}_slowed")) - set(said(bench, f"{name}_virtual")) == set(slower)
    assert {word.partition("=")[0] for word in slower} <= {
        word.partition("=")[0] for word in said(bench, f"{name}_live")
    }


def test_who_chooses_the_devices_gets_none_that_are_slower(bench: Bench) -> None:
    runner = ComparedRunner()
    bench.grid("--repeats", "2", "cluster.device.base_s=0.05", runner=runner)
    assert {name.rpartition("_")[2] for name in runner.ran} == {"virtual", "live"}


def test_virtual_runs_follow_on_processors_as_fast_as_live(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """An iteration takes twice the processor time live: they are half as fast. With other costs they are made again."""
    monkeypatch.setitem(GRIDS, "local", GRIDS["local"]._replace(speed="workload.optimizer.lr"))
    runner, again, other = ComparedRunner(), ComparedRunner(), ComparedRunner()
    made = bench.grid(runner=runner)
    assert (made.code, made.out.splitlines()[0].partition(" of ")[0]) == (0, f"{3 * 4} runs")
    names = [f"{name}_none_seed{seed}" for seed in (0, 1) for name in ("bsp", "asp")]
    assert runner.ran == [f"{name}_{side}" for side in ("virtual", "live", "paced") for name in names]
    (usual,) = [word for word in said(bench, "bsp_none_seed0_virtual") if word.startswith("workload.optimizer.lr=")]
    (paced,) = [word for word in said(bench, "bsp_none_seed0_paced") if word.startswith("workload.optimizer.lr=")]
    assert float(paced.partition("=")[2]) == 0.5 * float(usual.partition("=")[2])
    assert bench.grid(runner=again).code == 0
    assert again.ran == []
    assert bench.grid("--costs", "ideal", runner=other).code == 0
    assert other.ran == [f"{name}_{side}" for side in ("virtual", "paced") for name in names]


def test_who_chooses_the_speed_of_processors_gets_none_that_are_paced(bench: Bench) -> None:
    assert not script.parse(["--grid", "hosts", "cluster.hosts.real_cores_per_core=0.1"]).pacing
    assert script.parse(["--grid", "hosts"]).pacing


def test_seeds_are_whole_when_it_is_interrupted(bench: Bench) -> None:
    """The live runs of a seed, second ones included, come before those of the next; then --seeds reports on it."""
    stopped = ComparedRunner()
    stopped.interrupted_at = "ssp_none_seed1_live"
    words = ("-o", str(bench.out), "--strategies", "ssp,bsp", "--stragglers", "none", "--repeats", "2")
    assert bench.run(*words, "--seeds", "0,1,2", runner=stopped).code == 130
    live = [name for name in stopped.ran if not name.endswith(("virtual", "slowed"))]
    assert live == ["ssp_none_seed0_live", "bsp_none_seed0_live", "ssp_none_seed0_again", "ssp_none_seed1_live"]
    rest = ComparedRunner()
    assert bench.run(*words, "--seeds", "0", runner=rest).code == 0
    assert rest.ran == []


def test_the_virtual_runs_can_be_made_alone(bench: Bench) -> None:
    """On a machine that is busy; no report, and what is there is not made again."""
    runner = ComparedRunner()
    result = bench.grid("--only", "virtual", runner=runner)
    assert (result.code, len(runner.ran)) == (0, 4)
    assert "4 virtual records in " in result.out
    assert not (bench.out / "fidelity.csv").exists()
    rest = ComparedRunner()
    assert bench.grid(runner=rest).code == 0
    assert all(name.endswith("_live") for name in rest.ran)


@pytest.mark.long(like="test_the_virtual_runs_can_be_made_alone")
def test_virtual_runs_are_made_in_forks_and_live_ones_here(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    forked, here = ComparedRunner(), ComparedRunner()
    monkeypatch.setattr(fidelity_runs, "run_here", forked)
    monkeypatch.setattr(fidelity_runs, "run_child", here)
    assert script.main(["-o", str(bench.out), *GRID, "--jobs", "2"]) == 0
    assert forked.ran == [], "other processes ran them"
    assert here.ran == [f"{case}_none_seed{seed}_live" for seed in (0, 1) for case in ("bsp", "asp")]
    assert len(list(bench.records.iterdir())) == 8


@pytest.mark.long(like="test_the_virtual_runs_can_be_made_alone")
def test_the_report_does_not_say_which_fork_was_first(bench: Bench) -> None:
    """Two that are started together may write the time of their start in either order."""
    words = ("-o", str(bench.out), *GRID[:4], "--stragglers", "none,transient", "--repeats", "0")
    bench.run(*words)
    page = (bench.out / "fidelity.md").read_text()
    for number, path in enumerate(sorted(bench.records.glob("*_virtual"), reverse=True)):
        meta = json.loads((path / "meta.json").read_bytes())
        meta["started_at"] = f"2024-11-21T08:00:00.{number}"
        (path / "meta.json").write_text(json.dumps(meta))
    bench.run("--from", str(bench.out))
    caption = [line for line in page.splitlines() if line.startswith("from: ")]
    assert caption
    assert caption == [
        line for line in (bench.out / "fidelity.md").read_text().splitlines() if line.startswith("from: ")
    ]


def test_every_strategy_is_compared() -> None:
    """On local processes under one pattern at least; on hosts those that the page promises; over replicas too."""
    asked = {name: script.parse(["--grid", name]) for name in GRIDS}
    assert {strategy for _, strategy, _ in asked["local"].cases} == {*ALL}
    assert {"bsp", "lb_bsp", "lb_bsp_gpu", "lb_bsp_star", "antdt_dd"} <= {case[1] for case in asked["allreduce"].cases}
    hosts = {"bsp", "asp_even", "ssp", "backup_workers", "lb_bsp", "antdt_nd", "dynamic_x", "sync_switch"}
    assert hosts | {"coding_heter_aware", "zeno_pp"} <= {case[1] for case in asked["hosts"].cases}
    for one in asked.values():
        assert len(one.seeds) == 5
        assert len({case[:2] for case in one.cases}) == len(one.cases)
        assert any(twice for _, _, twice in one.cases)


@pytest.mark.long(like="test_the_virtual_runs_can_be_made_alone")
@pytest.mark.parametrize("grid", long_after(sorted(GRIDS, key="hosts".__ne__), always=1))
@pytest.mark.parametrize("part", long_after(["a third", "all of their own", "all"], always=1))
def test_the_settings_of_a_grid_can_be_composed(grid: str, part: str, tmp_path: Path) -> None:
    """A strategy that renames a field would else be refused in the middle of the measurement.

    For every commit a third of all: each pattern once, and each strategy that has settings of its own once.
    """
    asked = script.parse(["--grid", grid, "-o", str(tmp_path), "--seeds", "0", "workload.epochs=1"])
    first_of = {straggler: case for case in reversed(asked.cases) for straggler in case[:1]}
    own = {case[1]: case for case in reversed(asked.cases) if case[1] in asked.grid.of_strategy}
    assert {*asked.grid.of_straggler, *asked.grid.of_strategy} & {*first_of, *own}, "nothing of its own would be tried"
    if part != "all":
        some = [*first_of.values(), *own.values()][:: 3 if part == "a third" else 1]
        asked.cases = [case for case in asked.cases if case in some]
    fidelity_runs.check_grid(asked)
