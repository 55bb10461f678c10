"""The script that runs jobs live and virtually: what it runs, says and refuses. No run is live here."""

from __future__ import annotations

import json
import re
import shutil
from pathlib import Path

import pandas as pd
import pytest
import yaml

from runtime.virtual.costs import load_costs
from stragglab.commands import experiment
from stragglab.commands import fidelity as script
from stragglab.grids import experiments
from stragglab.grids import fidelity as grid
from tests.support.fake_runners import FakeRunner, Result, ScriptBench, uncomposed
from tests.unit.analysis.test_fidelity import story, with_copies

GRID = ("--seeds", "2,3", "--strategies", "bsp,asp", "--stragglers", "none")
"""Without the first seeds, which have more runs."""
FIVE = ("--seeds", "0,1,2,3,4", *GRID[2:])


class ComparedRunner(FakeRunner):
    """``factors`` stretch the clock of virtual runs by strategy; these take half of the processor time of live ones."""

    def __init__(self, **factors: float) -> None:
        super().__init__()
        self.factors = factors
        self.live_factor, self.copies_s = 1.0, tuple[float, ...]()
        """Of live runs: what stretches their clock, and readings of the memory's speed."""

    def leave(self, said: dict[str, str], new: Path) -> None:
        strategy, virtual = said["strategy"], said["runtime"] == "virtual"
        received = story(
            strategy,
            seed=int(said["seed"]),
            runtime="virtual" if virtual else "live",
            factor=self.factors.get(strategy, 1.0) if virtual else self.live_factor,
            cpu_s=0.01 if virtual else 0.02,
            straggler=said["straggler"],
            epochs=int(said.get("workload.epochs", 2)),
        )
        if virtual:
            model = load_costs(said["cluster.costs"])
            received.meta["calibration"] = f"{model.name} {model.sha256[:8]}, extrapolated"
        elif self.copies_s:
            with_copies(received, *self.copies_s)
        received.meta["started_at"] = self.started_at()
        received.write(new)


class Bench(ScriptBench):
    """An output directory, and the script with a runner that is none."""

    name = "fidelity"

    @property
    def records(self) -> Path:
        return self.out / "records"

    def run(self, *words: str, runner: FakeRunner | None = None) -> Result:
        return self.said(script.main(words, runner or ComparedRunner()))

    def grid(self, *words: str, runner: FakeRunner | None = None) -> Result:
        return self.run("-o", str(self.out), *GRID, *words, runner=runner)

    def five(self, *words: str, runner: FakeRunner | None = None) -> Result:
        """As many seeds as a verdict needs."""
        return self.run("-o", str(self.out), *FIVE, *words, runner=runner)

    def refused(self, *words: str, runner: FakeRunner | None = None) -> str:
        return self.one_line(self.run(*words, runner=runner))


@pytest.fixture
def whole(idle: None, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> Bench:
    """Everything but the runs."""
    return Bench(tmp_path, capsys)


@pytest.fixture
def bench(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Without what takes long: figures, and composing every configuration beforehand."""
    monkeypatch.setattr(grid, "draw", lambda *_: None)
    uncomposed(monkeypatch)
    return whole


def named(strategy: str, side: str, seed: int, straggler: str = "none") -> str:
    """The name of a record."""
    return f"{straggler}_{strategy}_{side}_seed{seed}"


def both(side: str, *seeds: int) -> list[str]:
    """The names of the records of two strategies."""
    return [named(strategy, side, seed) for seed in seeds for strategy in ("bsp", "asp")]


def test_half_a_run_is_made_again(bench: Bench) -> None:
    stopped = ComparedRunner()
    stopped.interrupted_at = named("asp", "live", 2)
    result = bench.grid(runner=stopped)
    assert (result.code, result.err.count("\n")) == (130, 1)
    story("asp").write(bench.out / "unfinished" / named("asp", "live", 2), keep=10)
    assert len(list(bench.records.iterdir())) == 5
    rest = ComparedRunner()
    assert bench.grid(runner=rest).code == 0
    assert rest.ran == [named("asp", "live", 2), *both("live", 3)]


TABLES = ("job_completion_time", "time_to_the_target", "work", "ranking", "losses_of_bsp")
OTHERS = {f"fidelity_{name}.csv" for name in TABLES}
"""The whole tables; the page shows a part of the first."""


@pytest.mark.long(like="test_the_same_records_give_the_same_report")
def test_the_page_says_how_it_was_made_and_has_whole_tables(whole: Bench, tmp_path: Path) -> None:
    page = tmp_path / "docs" / "fidelity.md"
    whole.grid("--report", str(page))
    text = page.read_text()
    for part in (
        f"--report {page}",
        "Test CPU",
        "Stragglab 0.1.0",
        "local_tcp ",
        "seeds 2\N{EN DASH}3",
        "Not compared: ",
    ):
        assert part in text
    assert "![job completion times](images/fidelity.png)" in text
    pictures = {path.name for path in (page.parent / "images").iterdir()}
    assert pictures == {"fidelity.png", "fidelity.csv", "fidelity.txt", *OTHERS}
    (table,) = [block.splitlines() for block in text.split("\n\n") if block.startswith("| ")]
    assert (len(table) - 2, len({line.count("|") for line in table})) == (2, 1)
    times = pd.read_csv(page.parent / "images" / "fidelity_job_completion_time.csv", dtype=str)
    assert {"live twice", "1 % slower"} < set(times.columns)
    heads = [name for name in times.columns if name not in ("live twice", "1 % slower")]
    assert table[0] == f"| {' | '.join(heads)} |"
    assert table[2] == f"| {' | '.join(times[heads].iloc[0])} |"
    assert all(f"[{name.replace('_', ' ')}](images/fidelity_{name}.csv)" in text for name in TABLES)
    assert {len(pd.read_csv(page.parent / "images" / name)) for name in OTHERS} == {2}


@pytest.mark.long(like="test_the_same_records_give_the_same_report")
def test_what_a_page_lacks_is_added_as_a_group(bench: Bench, tmp_path: Path) -> None:
    """Only the missing strategy runs; what was there stays as it is, and the next time nothing is missing."""
    page = tmp_path / "page.md"
    bench.grid("--report", str(page))
    before, runner = page.read_text(), ComparedRunner()
    grid = (word.replace("bsp,asp", "bsp,asp,ssp") for word in GRID)
    words = ("-o", str(tmp_path / "more"), *grid, "--add", str(page))
    bench.run(*words, runner=runner)
    assert {name.split("_")[1] for name in runner.ran} == {"ssp"}
    text = page.read_text()
    assert text.startswith(before.rstrip("\n"))
    group = text.removeprefix(before.rstrip("\n"))
    assert re.search(r"\n## Added on \d{4}-\d\d-\d\d: ssp\n\nRun at another time .*Stragglab 0.1.0", group, re.DOTALL)
    assert group.count("| none | ssp |") == group.count("```\npython run.py fidelity ") == 1
    files = re.findall(r"\]\((images/.*?_ssp\.csv)\)", group)
    assert len(files) == 4
    assert all("none,ssp," in (page.parent / name).read_text() for name in files[:3])
    assert "| none | bsp |" not in group
    assert "losses of BSP" not in group, "BSP is not in it"
    again = ComparedRunner()
    assert "has all cases of this grid" in bench.run(*words, runner=again).out
    assert (again.ran, page.read_text()) == ([], text)


def test_the_same_records_give_the_same_report(bench: Bench) -> None:
    """Without a run; it does not say which of two forks was first."""
    before = bench.grid().out.partition("\n4/4  none_asp_live_seed3")[2].partition("\n")[2]
    numbers = (bench.out / "fidelity.csv").read_bytes()
    caption = re.findall("^from: .*", (bench.out / "fidelity.md").read_text(), re.MULTILINE)
    for number, path in enumerate(sorted(bench.records.glob("*_virtual_*"), reverse=True)):
        meta = json.loads((path / "meta.json").read_bytes())
        meta["started_at"] = f"2024-11-21T08:00:00.{number}"
        (path / "meta.json").write_text(json.dumps(meta))
    runner = ComparedRunner()
    assert bench.grid("--redraw", runner=runner).out == before
    assert runner.ran == []
    assert (bench.out / "fidelity.csv").read_bytes() == numbers
    assert re.findall("^from: .*", (bench.out / "fidelity.md").read_text(), re.MULTILINE) == caption


def test_an_experiment_of_a_project_is_compared_alike(
    bench: Bench, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It may be run by either of two commands."""
    mine = tmp_path / "conf" / "experiment" / "fidelity-mine.yaml"
    mine.parent.mkdir(parents=True)
    axes = {"straggler": {"none": ["straggler=none"]}, "strategy": {"bsp": ["strategy=bsp"]}}
    sides = {"live": ["runtime=live"], "virtual": ["runtime=virtual", "cluster.costs=ideal"]}
    figure = {"kind": "agreement", "by": "strategy"}
    spec = {"title": "Mine", "where": "here", "axes": {**axes, "side": sides}, "figure": figure}
    mine.write_text(yaml.safe_dump(spec))
    monkeypatch.setattr(experiments.project, "conf", lambda: tmp_path / "conf")
    assert bench.run("-o", str(bench.out), "--grid", "mine").code == 0
    page = (bench.out / "fidelity.md").read_text()
    assert page.startswith("# Mine\n")
    words = ["fidelity-mine", "-o", str(tmp_path / "out")]
    for _ in ("anew", "from what is there"):
        assert experiment.main(words, ComparedRunner()) == 0
    assert "| none | bsp |" in (tmp_path / "out" / "fidelity-mine" / "fidelity-mine.md").read_text()


@pytest.mark.few(8)
@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", ""], "--seeds '': names none; give some"),
        (["--seeds", "0,-1"], "--seeds -1: must be a whole number, 0 or more"),
        (["--strategies", "bsp,bps"], "--strategies bps: unknown; there are "),
        (["--costs", "free"], "cluster.costs=free: cannot be read"),
        (["seed=3"], "seed=3: is chosen by this program"),
        (["workload.epoch=3"], "did you mean workload.epochs?"),
        (["runtime.heartbeat_s=3"], "runtime.heartbeat_s=3: no such setting of runtime=virtual"),
        (["--report", "{here}"], "is a directory; name a file"),
        (["--only", "live"], "--only"),
        (["--jobs", "0"], "--jobs 0: must be a whole number, 1 or more"),
        (["--redraw"], "run it without --redraw first"),
        (["--grid", "mine"], "--grid"),
        (["--add", "{here}"], "no such page"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], said: str, whole: Bench, tmp_path: Path) -> None:
    runner = ComparedRunner()
    assert said in whole.refused(*(word.format(here=tmp_path) for word in words), runner=runner)
    assert runner.ran == []


def test_records_that_do_not_match_are_refused(bench: Bench) -> None:
    bench.grid()
    shutil.rmtree(bench.records / named("asp", "live", 3))
    again = ("-o", str(bench.out), *GRID)
    assert "no live record of asp under none, seed 3" in bench.refused(*again, "--redraw")
    (bench.records / named("bsp", "live", 2) / "plan.json").write_text("{")
    assert "The file is damaged" in bench.refused(*again)
