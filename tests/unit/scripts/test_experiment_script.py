"""The script that runs experiments: what it runs, draws, says and refuses. No run is live here."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import nullcontext
from functools import cache
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
import yaml

from analysis.claims import ledger
from analysis.claims.pages import Page
from analysis.experiments import page as paper_page
from analysis.experiments.results import Results
from analysis.experiments.spec import load_spec
from runtime.run.preflight import preflight
from runtime.virtual.costs import load_costs
from stragglab.commands import experiment as script
from stragglab.grids import experiment_pages, experiments
from strategies.star.learned import ModeLearner
from tests.support.fake_runners import FakeRunner, ScriptBench
from tests.unit.analysis.test_cluster_experiments import SETS, told
from tests.unit.analysis.test_fidelity import PNG, story

SPEC = {
    "title": "two systems",
    "where": "Table I",
    "settings": ["runtime=virtual", "cluster.costs=ideal"],
    "axes": {
        "epochs": {"2": ["workload.epochs=2"], "3": ["workload.epochs=3"]},
        "system": {"bsp": ["strategy=bsp"], "asp": ["strategy=asp"]},
    },
    "seeds": [0, 1],
    "measures": ["jct_s", "wait_frac"],
    "figure": {"kind": "lines", "along": "epochs"},
    "notes": "Made up.",
}
LEDGER = """
toy.order: {where: Table I, check: shape, unit: "%", accept: [0, null], experiment: toy_table, how: longer,
  subject: {epochs: "3", system: bsp}, against: {epochs: "2"}}
toy.number: {where: Table I, check: number, unit: s, value: 9.0, experiment: toy_table,
  subject: {epochs: "2", system: bsp}}
"""


class ComposedRunner(FakeRunner):
    """With the configuration that Hydra would have stored."""

    commit = "1a2b3c4"
    fitted: tuple[str, ...] = ()
    complaint = "run.py: it broke\n"

    def leave(self, said: dict[str, str], new: Path) -> None:
        epochs = int(said["workload.epochs"])
        received = story(said["strategy"], seed=int(said["seed"]), runtime="virtual", epochs=epochs)
        received.meta["calibration"] = f"ideal {load_costs('ideal').sha256[:8]}, extrapolated"
        received.meta["versions"]["commit"] = self.commit
        received.meta["fitted"] = list(self.fitted)
        received.write(new)

    def configured(self, words: list[str], hydra: Path) -> None:
        hydra.mkdir()
        (hydra / "config.yaml").write_text(yaml.safe_dump(composed_once(tuple(words))))


@cache
def composed_once(words: tuple[str, ...]) -> dict[str, Any]:
    """The configuration of a run: those of the toy are always the same, and to compose one takes 0.1 s."""
    with COMPOSED_WORDS() as composed:
        found: dict[str, Any] = composed(list(words))
    return found


COMPOSED_WORDS = experiments.composed_words


class Bench(ScriptBench):
    """The script, its descriptions and its directories."""

    name = "experiment"

    def __init__(self, folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
        super().__init__(folder, capsys)
        self.records = folder / "out" / "toy_table" / "records"
        self.page = folder / "pages" / "toy.md"

    def run(self, *words: str, runner: FakeRunner | None = None, name: str = "toy_table") -> tuple[int, str, str]:
        places = ("-o", str(self.folder / "out"), "--pages", str(self.folder / "pages"))
        code = script.main([name, *words, *places], runner or ComposedRunner())
        return (code, *self.capsys.readouterr())

    def describe(self, **changes: Any) -> None:
        (self.folder / "conf" / "toy_table.yaml").write_text(yaml.safe_dump({**SPEC, **changes}, sort_keys=False))


@pytest.fixture
def whole(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Bench:
    """The script as it is, figures included."""
    for name in ("conf", "claims"):
        (tmp_path / name).mkdir()
    (tmp_path / "claims" / "toy.yaml").write_text(LEDGER)
    monkeypatch.setattr(experiments, "SPECS", tmp_path / "conf")
    for module in (paper_page, experiments):
        monkeypatch.setattr(module, "load_ledger", lambda paper: ledger.load_ledger(paper, tmp_path / "claims"))
        monkeypatch.setattr(module, "load_pages", lambda: {"toy": Page("toy", "Toy", "About it.")})
    monkeypatch.setattr(experiments, "preflight", lambda _: None)  # it takes longer than everything else together
    monkeypatch.setattr(experiments, "describe_versions", lambda: {"commit": "1a2b3c4"})
    monkeypatch.setattr(experiments, "composed_words", lambda: nullcontext(lambda words: composed_once(tuple(words))))
    found = Bench(tmp_path, capsys)
    found.describe()
    return found


@pytest.fixture
def bench(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> Bench:
    """Without figures, which take longer than the rest; there is a file where one would be."""

    def draw(results: Results, path: Path) -> Path:
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        return path

    monkeypatch.setattr(experiment_pages, "draw", draw)
    return whole


def test_an_experiment_becomes_records_a_figure_and_a_page(whole: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    """Composed by Hydra itself, too: its own records are taken for what they are."""
    bench = whole
    monkeypatch.setattr(experiments, "composed_words", COMPOSED_WORDS)
    runner = ComposedRunner()
    code, out, err = bench.run(runner=runner)
    assert (code, err) == (0, "")
    assert runner.ran[:4] == ["2_bsp_seed0", "2_asp_seed0", "3_bsp_seed0", "3_asp_seed0"]
    assert sorted(path.name for path in bench.records.iterdir()) == sorted(runner.ran)
    images = bench.page.parent / "images"
    assert (images / "toy_table.png").read_bytes().startswith(PNG)
    assert set(pd.read_csv(images / "toy_table.csv")["system"]) == {"bsp", "asp"}
    verdicts = pd.read_csv(images / "toy_table_claims.csv").set_index("id")
    assert verdicts["side"].dropna().to_dict() == {"toy.order": "met"}
    assert verdicts["size"].dropna().to_dict() == {"toy.number": "missed"}
    for part in (
        "## Table I: two systems",
        "images/toy_table.png",
        "Made up.",
        "| `number` | 9 s | 0.656 s [0.554, 0.758] | \N{EN DASH} | missed |",
    ):
        assert part in bench.page.read_text()
    assert "side met: `order`" in out
    assert "| [Toy](toy.md): side | 1 | 1 | 0 | 0 |" in (bench.page.parent / "README.md").read_text()
    before = bench.page.read_text()
    assert bench.run("--redraw")[0] == 0
    assert bench.page.read_text() == before


def test_what_is_there_is_not_run_again(bench: Bench) -> None:
    bench.run()
    runner = ComposedRunner()
    _, out, _ = bench.run(runner=runner)
    assert runner.ran == []
    assert "8 of 8 records exist already" in out
    bench.run("--again", "--seeds", "1", runner=runner)
    assert len(runner.ran) == 4


@pytest.mark.long(like="test_what_is_there_is_not_run_again")
def test_other_settings_costs_or_fitted_files_make_the_runs_again(bench: Bench, tmp_path: Path) -> None:
    model = tmp_path / "mine.yaml"
    model.write_text("schema: 1\nvalues: {latency_s: 0.001}\n")
    axes = {**SPEC["axes"], "epochs": {"2": ["workload.epochs=2"], "3": ["workload.epochs=4"]}}  # type: ignore[dict-item]
    bench.run()
    for changes, count in (
        ({"axes": axes}, 4),
        ({"axes": axes, "settings": ["runtime=virtual", f"cluster.costs={model}"]}, 8),
    ):
        bench.describe(**changes)
        runner = ComposedRunner()
        bench.run(runner=runner)
        assert len(runner.ran) == count
    runner, again = ComposedRunner(), ComposedRunner()
    runner.fitted, again.fitted = ("modes 00000000",), ModeLearner(use_ml_from_start=True).fitted
    for one in (runner, again):
        bench.describe()
        bench.run(runner=one)
        assert len(one.ran) == 8


@pytest.mark.long(like="test_an_experiment_becomes_records_a_figure_and_a_page")
def test_what_another_commit_has_left_is_made_again_and_what_this_one_has_is_not(bench: Bench) -> None:
    (bench.folder / "claims" / "toy.yaml").write_text("toy.x: {where: Table II, check: context, value: 1}")
    older, runner = ComposedRunner(), ComposedRunner()
    older.commit = "0000000"
    bench.run("--seeds", "0", runner=older)
    claims = bench.page.parent / "images" / "toy_table_claims.csv"
    claims.parent.mkdir(parents=True)
    claims.write_text("of claims that were removed")
    bench.run("--fresh", runner=runner)
    assert len(older.ran) == 4
    assert len(runner.ran) == 8
    assert bench.run("--fresh", runner=runner)[0] == 0
    assert len(runner.ran) == 8, "so it continues where it was interrupted"
    assert "Made up." in bench.page.read_text(), "an experiment without claims has a page, too"
    assert not claims.exists()


@pytest.mark.parametrize(("commit", "why"), [("1a2b3c4-dirty", "there are uncommitted"), ("unknown", "this is no git")])
def test_records_of_no_commit_are_refused_when_they_are_to_be_fresh(
    commit: str, why: str, bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(experiments, "describe_versions", lambda: {"commit": commit})
    runner = ComposedRunner()
    code, _, err = bench.run("--fresh", runner=runner)
    assert (code, runner.ran) == (2, [])
    assert err.startswith(f"experiment: --fresh: {why}")


def test_uncommitted_changes_are_said_before_and_on_the_page(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(experiments, "describe_versions", lambda: {"commit": "1a2b3c4-dirty"})
    runner = ComposedRunner()
    runner.commit = "1a2b3c4-dirty"
    _, out, _ = bench.run(runner=runner)
    assert "there are uncommitted changes" in out.replace("\n", " ")
    assert "to be repeated: toy_table." in bench.page.read_text()


@pytest.mark.long(like="test_a_failed_run_stops_the_report_and_nothing_else")
def test_all_records_are_made_before_the_first_page_and_one_that_fails_leaves_the_others_theirs(bench: Bench) -> None:
    """A page is an uncommitted change: what ran afterwards would say so."""
    (bench.folder / "conf" / "toy_other.yaml").write_text(yaml.safe_dump({**SPEC, "seeds": [7]}, sort_keys=False))
    seen: list[bool] = []
    runner = ComposedRunner()
    runner.failing = {"2_asp_seed7": 1}

    def watching(words: Sequence[str], log: Path) -> int:
        seen.append(bench.page.exists())
        return runner(words, log)

    places = ("-o", str(bench.folder / "out"), "--pages", str(bench.folder / "pages"))
    assert script.main(["toy_*", *places], watching) == 1
    assert seen == [False] * 12
    assert bench.capsys.readouterr().err.startswith("experiment: toy_other: 1 of 4")
    assert "<!-- experiment: toy_table -->" in bench.page.read_text()
    assert "toy_other" not in bench.page.read_text()
    runner.failing = {}
    assert script.main(["toy_*", *places], runner) == 0
    assert "<!-- experiment: toy_other -->" in bench.page.read_text()


def test_a_hidden_seed_is_drawn_once_for_each_output_and_the_same_command_continues(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    drawn, runner, again = iter([5, 9]), ComposedRunner(), ComposedRunner()
    monkeypatch.setattr(script, "randbelow", lambda most: next(drawn))
    assert bench.run("--seeds", "hidden", runner=runner)[0] == 0
    assert bench.run("--seeds", "hidden", runner=again)[0] == 0
    assert runner.ran == ["2_bsp_seed5", "2_asp_seed5", "3_bsp_seed5", "3_asp_seed5"]
    assert again.ran == []
    other = bench.folder / "other"
    assert script.main(["toy_table", "--seeds", "hidden", "-o", str(other), "--pages", str(bench.folder)], again) == 0
    assert {name.rpartition("_")[2] for name in again.ran} == {"seed9"}
    assert not bench.page.exists()


def test_a_part_changes_no_page_and_live_and_virtual_ones_are_told_apart(bench: Bench) -> None:
    runner = ComposedRunner()
    code, out, _ = bench.run("--seeds", "0", "--only", "system=bsp", "--virtual", runner=runner)
    assert code == 0
    assert runner.ran == ["2_bsp_seed0", "3_bsp_seed0"]
    assert not bench.page.exists()
    assert "out/toy_table/toy_table.png" in out.replace("\n", "")
    code, out, _ = bench.run("--redraw", runner=ComposedRunner())
    assert (code, bench.page.exists()) == (0, False)
    assert "toy_table: 6 of 8 records are missing, so no page is changed\n" in out
    code, _, err = bench.run("--live")
    assert (code, err) == (2, "experiment: --live: none of toy_table is\n")


def test_a_part_of_which_the_figure_hides_everything_has_none(whole: Bench) -> None:
    """It ended with a traceback, after the run."""
    whole.describe(figure={**SPEC["figure"], "hide": ["asp"]})
    code, out, err = whole.run("--seeds", "0", "--only", "system=asp", "--paper", "column")
    assert (code, err) == (0, "")
    assert "no figure: toy_table hides asp, and this part has no other" in out.replace("\n", "")
    assert not list((whole.folder / "out").rglob("*.png"))


def test_a_failed_run_stops_the_report_and_nothing_else(bench: Bench) -> None:
    runner = ComposedRunner()
    runner.failing = {"2_asp_seed0": 1}
    code, out, err = bench.run(runner=runner)
    assert code == 1
    assert len(runner.ran) == 8
    assert "2_asp_seed0  failed: it broke" in out
    assert err == "experiment: toy_table: 1 of 8 runs failed, 2_asp_seed0 first; the same command repeats them\n"
    assert not bench.page.exists()


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--seeds", "0,x"], "--seeds x: must be a whole number"),
        (["--only", "system"], "--only system: must be an axis"),
        (["--only", "system=ssp"], "--only system=ssp: no such level"),
        (["--only", "size=1"], "--only size: toy_table has no such axis"),
        (["--jobs", "0"], "--jobs 0: must be"),
        (["--redraw"], "no record of toy_table here"),
        (["--quick"], "--quick"),
    ],
)
def test_bad_input_is_refused_in_one_line(words: list[str], said: str, bench: Bench) -> None:
    code, _, err = bench.run(*words)
    assert code == 2
    assert err.startswith("experiment: ")
    assert err.count("\n") == 1
    assert said in err


def test_an_unknown_experiment_or_setting_is_refused(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, said in (
        ("antdt", "antdt: no such experiment; there are toy_table"),
        ("draw=false", "draw=false: an experiment has its settings in conf/experiment/NAME.yaml"),
        ("toy_tabel", "did you mean toy_table?"),
    ):
        code, _, err = bench.run(name=name)
        assert (code, err.count("\n"), said in err) == (2, 1, True), err
    monkeypatch.setattr(experiments, "preflight", preflight)
    bench.describe(settings=["runtime=virtual", "workload.epoch=3"])
    code, _, err = bench.run()
    assert (code, "did you mean workload.epochs?" in err) == (2, True)
    assert script.main(["--list"]) == 0
    assert "toy_table" in bench.capsys.readouterr().out


def test_run_py_says_where_experiments_are_run() -> None:
    for word in ("experiment=antdt_table3", "+experiment=antdt_table3"):
        with pytest.raises(Exception, match="make figures EXPERIMENT=antdt_table3"):
            preflight([word])


class ClusterRunner(ComposedRunner):
    """Leaves the records of sets of jobs."""

    def leave(self, said: dict[str, str], new: Path) -> None:
        told({"bsp": 10.0, "asp": 5.0}[said["strategy"]], seed=int(said["seed"])).write(new)


@pytest.mark.long(like="test_an_experiment_becomes_records_a_figure_and_a_page")
def test_runs_may_be_sets_of_jobs_and_are_kept_judged_and_drawn_alike(
    whole: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    (whole.folder / "claims" / "sets.yaml").write_text(
        'sets.less: {where: Table I, check: ratio, unit: "%", accept: [0, null], experiment: sets_table,\n'
        "  of: jct_mean_s, how: lower, subject: {system: asp}, against: {system: bsp}}\n"
    )
    for module in (paper_page, experiments):
        monkeypatch.setattr(module, "load_pages", lambda: {"sets": Page("sets", "Sets", "About them.")})
    text = yaml.safe_dump({**SPEC, **SETS, "seeds": [0, 1, 2]}, sort_keys=False)
    (whole.folder / "conf" / "sets_table.yaml").write_text(text)
    runner = ClusterRunner()
    runner.interrupted_at = "asp_seed1"
    assert whole.run(name="sets_table", runner=runner)[0] == 130
    runner.interrupted_at = None
    runner.ran.clear()
    code, out, _ = whole.run(name="sets_table", runner=runner)
    assert code == 0
    assert "3 of 6 records exist already" in out
    assert "all jobs 12.0 s" in out
    assert runner.ran == ["asp_seed1", "bsp_seed2", "asp_seed2"]
    page = (whole.folder / "pages" / "sets.md").read_text()
    assert "| `less` |" in page
    assert "| met |" in page  # 8.5 s instead of 11 s with every seed
    assert "2 jobs on 2 hosts with 4 GPUs" in page
    assert (whole.folder / "pages" / "images" / "sets_table.png").read_bytes().startswith(PNG)
    runner.ran.clear()
    whole.run("--redraw", name="sets_table", runner=runner)
    assert runner.ran == []
    assert page == (whole.folder / "pages" / "sets.md").read_text()


def test_a_level_that_is_one_choice_lends_its_name_to_it(tmp_path: Path) -> None:
    """Records know ``straggler=random_workers``, not that the level was called ``random``."""
    axes = {
        "pattern": {
            "random": ["straggler=random_workers"],
            "both": ["straggler=none", "max_time_s=50"],
            "none": ["straggler=none"],
        },
        "system": {"bsp": ["strategy=bsp"], "mine": ["strategy=asp"]},
        "size": {"small": ["cluster.num_workers=4"], "large": ["cluster.num_workers=8"]},
    }
    names = {"random": "random workers", "both": "Both", "mine": "Mine", "small": "four workers"}
    path = tmp_path / "own.yaml"
    figure = {"kind": "bars", "by": "system", "names": names}
    path.write_text(yaml.safe_dump(SPEC | {"axes": axes, "figure": figure}))
    found = experiments.names_in_records(load_spec(path))
    assert found == names | {"random_workers": "random workers", "asp": "Mine", "cluster.num_workers=4": "four workers"}


def test_a_claim_that_has_moved_has_the_verdict_of_its_present_experiment(bench: Bench) -> None:
    """Its former one keeps a file until it is made again, and may come later by its name."""
    images = bench.page.parent / "images"
    images.mkdir(parents=True)
    for name, verdict in (("toy_table", "missed"), ("toy_then", "met")):
        rows = pd.DataFrame({"id": ["toy.number"], "size": [verdict], "experiment": [name]})
        rows.to_csv(images / f"{name}_claims.csv", index=False)
    assert paper_page.verdicts_of(bench.page, "toy")["size"].tolist() == ["missed"]
    (images / "toy_table_claims.csv").unlink()
    assert paper_page.verdicts_of(bench.page, "toy").empty
