"""Which runs a comparison of live and virtual runs consists of, and with what settings. No run is live here."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from analysis.about import ABOUT
from analysis.experiments.spec import ALL, Spec, cells, load_spec, settings_of
from analysis.measures.agreement import FOLLOWING, SIDES
from stragglab.commands import fidelity as script
from stragglab.grids import experiments
from stragglab.grids import fidelity as grid
from tests.support.long_tests import long_after
from tests.unit.scripts.test_fidelity_script import GRID, Bench, ComparedRunner, bench, both, named, whole

__all__ = ["bench", "whole"]


def said(bench: Bench, name: str) -> list[str]:
    """The settings of a record."""
    return list(yaml.safe_load((bench.records / name / ".hydra" / "overrides.yaml").read_text()))


GRIDS = ("local", "allreduce", "hosts")


def spec_of(name: str) -> Spec:
    return load_spec(experiments.SPECS / f"fidelity{'' if name == 'local' else f'-{name}'}.yaml")


def test_a_strategy_and_a_pattern_have_settings_of_their_own(bench: Bench) -> None:
    """They hold over those of all jobs, and the user's over them."""
    runner, name = ComparedRunner(), ("ssp", "live", 0, "transient")
    words = ("-o", str(bench.out), "--seeds", "0", "--strategies", "ssp", "--stragglers", "transient")
    bench.run(*words, "straggler.period_s=9", runner=runner)
    sides = ("virtual", "slowed", "live", "again")
    assert runner.ran == [named("ssp", side, 0, "transient") for side in sides]
    axes = spec_of("local").axes
    _, usual, *own = axes["straggler"]["transient"]
    assert usual.startswith("straggler.period_s=")
    assert {"straggler.period_s=9", *own} <= set(said(bench, named(*name)))
    assert usual not in said(bench, named(*name))
    live, again, virtual, slowed = (
        said(bench, named("ssp", side, 0, "transient")) for side in (*sides[2:], *sides[:2])
    )
    assert again == live
    assert set(slowed) - set(virtual) == {*axes["side"]["slowed"]} - {*axes["side"]["virtual"]}
    assert {word.partition("=")[0] for word in slowed} - {"cluster.costs"} == {word.partition("=")[0] for word in live}


def test_who_chooses_the_devices_gets_none_that_are_slower(bench: Bench) -> None:
    runner = ComparedRunner()
    words = ("--seeds", "0", *GRID[2:], "cluster.device.base_s=0.05")
    bench.run("-o", str(bench.out), *words, runner=runner)
    assert {name.split("_")[2] for name in runner.ran} == {"virtual", "live", "again"}
    assert "paced" in script.parse(["--grid", "hosts"]).spec.axes["side"]
    assert "paced" not in script.parse(["--grid", "hosts", "cluster.hosts.real_cores_per_core=0.1"]).spec.axes["side"]


@pytest.mark.long(like="test_the_virtual_runs_can_be_made_alone")
def test_virtual_runs_follow_on_processors_as_fast_as_live(bench: Bench) -> None:
    """An iteration takes twice the processor time live: they are half as fast. With other costs they are made again.

    So they are in every second of the other virtual run, since the memory is as fast in all of them.
    """
    runner, again, other = ComparedRunner(), ComparedRunner(), ComparedRunner()
    runner.live_factor, runner.copies_s = 10.0, (2e-4,) * 8
    words = ("-o", str(bench.out), "--grid", "hosts", *GRID[:4], "--stragglers", "cpu_throttle")
    sides = [f"{side}_seed{seed}" for side in ("virtual", "live") for seed in (2, 3)]
    made = bench.run(*words, runner=runner)
    assert (made.code, made.out.splitlines()[0].rpartition(", ")[2]) == (0, f"{4 * 4} runs")
    first = [f"cpu_throttle_{name}_{side}" for side in sides for name in ("bsp", "asp")]
    last = [named(name, side, seed, "cpu_throttle") for seed in (2, 3) for name in ("bsp", "asp") for side in FOLLOWING]
    assert runner.ran == [*first, *last]
    cores = "cluster.hosts.real_cores_per_core="
    usual, slow = (
        next(word for word in said(bench, named("bsp", side, 2, "cpu_throttle")) if word.startswith(cores))
        for side in ("virtual", "paced")
    )
    assert float(slow.partition("=")[2]) == pytest.approx(0.5 * float(usual.partition("=")[2]), rel=1e-4)
    assert "+runtime.speeds=[0.5,0.5,0.5,0.5]" in said(bench, named("bsp", "probed", 2, "cpu_throttle"))
    assert bench.run(*words, runner=again).code == 0
    assert again.ran == []
    assert bench.run(*words, "--costs", "ideal", runner=other).code == 0
    assert other.ran == [name for name in runner.ran if "live" not in name]


def test_seeds_are_whole_when_it_is_interrupted(bench: Bench) -> None:
    """The live runs of a seed, second ones included, come before those of the next; then --seeds reports on it."""
    stopped = ComparedRunner()
    stopped.interrupted_at = named("ssp", "live", 1)
    words = ("-o", str(bench.out), "--strategies", "ssp,bsp", "--stragglers", "none")
    assert bench.run(*words, "--seeds", "0,1,2", runner=stopped).code == 130
    live = [name for name in stopped.ran if "live" in name or "again" in name]
    first = [named(strategy, side, 0) for strategy in ("ssp", "bsp") for side in ("live", "again")]
    assert live == [*first, named("ssp", "live", 1)]
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
    assert rest.ran == both("live", 2, 3)


def test_every_strategy_is_compared() -> None:
    """On local processes under one pattern at least; on hosts those that the page promises; over replicas too."""
    there = {name: list(cells(spec_of(name))) for name in GRIDS}
    strategies = {name: {cell.levels["strategy"] for cell in some} for name, some in there.items()}
    assert strategies["local"] == {*ALL}
    assert {"bsp", "lb_bsp", "lb_bsp_gpu", "lb_bsp_star", "antdt_dd"} <= strategies["allreduce"]
    hosts = {"bsp", "asp_even", "ssp", "backup_workers", "lb_bsp", "antdt_nd", "dynamic_x", "sync_switch"}
    assert hosts | {"coding_heter_aware", "zeno_pp"} <= strategies["hosts"]
    watching = {name for name, one in ABOUT.items() if one.monitors}
    assert {cell.levels["strategy"] for cell in there["local"] if cell.levels["side"] == "again"} >= watching
    for some in there.values():
        by_side = {
            side: {(*grid.cases_of([cell]), cell.seed) for cell in some if cell.levels["side"] == side}
            for side in SIDES
        }
        assert by_side["live"] == by_side["virtual"]
        assert by_side["again"] < by_side["live"]
        assert {seed for *_, seed in by_side["live"]} == {*range(5)}


@pytest.mark.long(like="test_the_virtual_runs_can_be_made_alone")
@pytest.mark.parametrize("name", long_after(sorted(GRIDS, key="hosts".__ne__), always=1))
@pytest.mark.parametrize("part", long_after(["a third", "all"], always=1))
def test_the_settings_of_a_grid_can_be_composed(name: str, part: str, tmp_path: Path) -> None:
    """A strategy that renames a field would else be refused in the middle of the measurement."""
    spec = spec_of(name)
    some = [cell for cell in cells(spec) if cell.seed == 0 and cell.levels["side"] in ("live", "virtual")]
    own = {tuple(sorted(settings_of(spec, cell))): cell for cell in some}
    experiments.check(spec, list(own.values())[:: 1 if part == "all" else 7], tmp_path)
