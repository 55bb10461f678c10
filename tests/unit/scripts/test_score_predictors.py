"""The script that scores predictors: its table, its files, and the one line with which it refuses."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path
from typing import ClassVar

import pandas as pd
import pytest

from analysis.records.load import Run, load_run
from predictors.registry import OF_RESOURCES, STRAGGLER_PREDICTORS
from predictors.stragglers import Observation
from runtime.config.project import SETTING, VARIABLE
from stragglab.commands import predictors
from stragglab.commands.predictors import main
from tests.support.records import Story, asp_story, bsp_story, disturbance

PLAN = [disturbance(0.1, 0.3, "worker:1", 0.1), disturbance(0.4, 0.7, "worker:2", 0.1)]
BY_TIME = [name for name in STRAGGLER_PREDICTORS if name not in OF_RESOURCES]
"""What can be asked about a record without processor times."""
LONG = {"epochs": 6, "plan": PLAN}


@pytest.fixture
def sweep(tmp_path: Path) -> Path:
    """Two seeds of one strategy and one of another."""
    folder = tmp_path / "sweep"
    bsp_story(seed=0, **LONG).write(folder / "bsp_0")
    bsp_story(seed=1, **LONG).write(folder / "bsp_1")
    asp_story(seed=0, **LONG).write(folder / "asp_0")
    return folder


@pytest.mark.long(like="test_the_oracle_is_right_and_the_last_value_late")
@pytest.mark.painted
def test_a_sweep_is_scored_into_a_table_a_figure_and_csv_files(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(sweep)]) == 0
    shown = capsys.readouterr().out
    assert "bsp: 2 jobs, 192 iterations, " in shown
    assert "asp: 1 job, 96 iterations, " in shown
    assert all(shown.count(f" {name} ") == 2 for name in BY_TIME)
    out = sweep / "prediction"
    assert (out / "predictors.png").stat().st_size > 10_000
    jobs, everything = (pd.read_csv(out / name) for name in ("predictors.csv", "predictors_all.csv"))
    assert len(jobs) == 3 * len(BY_TIME)
    assert len(everything) == 3 * len(BY_TIME) * (4 + 2)
    assert set(pd.read_csv(out / "lead_times.csv")["predictor"]) == set(BY_TIME)


class Looking:
    """A predictor that looks for the record, which has the seed, whenever it is asked."""

    found: ClassVar[list[Path]] = []
    place: ClassVar[Path]

    def update(self, observation: Observation) -> None: ...

    def forget(self, worker: int) -> None: ...

    def tags(self, t: float) -> frozenset[int]:
        self.found.extend(self.place.rglob("*"))
        return frozenset()


def test_a_hidden_seed_is_written_when_the_predictors_have_answered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Two jobs with different seeds, which no earlier folder has; the temporary records are gone afterwards."""
    made: list[tuple[int, Path]] = []

    def job(*settings: str, into: Path) -> Run:
        (seed,) = (int(word.partition("=")[2]) for word in settings if word.startswith("seed="))
        made.append((seed, into))
        return load_run(bsp_story(seed=seed, **LONG).write(into))

    monkeypatch.setenv("STRAGGLAB_ALLOW_TARGETS", __name__)
    monkeypatch.setattr(predictors, "run_job", job)
    Looking.found, Looking.place = [], tmp_path / "out"
    words = ["--predictors", f"{__name__}.Looking", "--out", str(tmp_path / "out")]
    assert main(["--hidden", "2", "strategy=bsp", *words]) == 0
    assert not Looking.found
    records = sorted((tmp_path / "out" / "records").iterdir())
    assert {load_run(path).meta["seed"] for path in records} == {seed for seed, _ in made}
    assert len(records) == len({seed for seed, _ in made}) == 2
    assert not any(path.exists() for _, path in made)
    capsys.readouterr()
    assert main(["--hidden", "1", "strategy=bsp", "seed=3", *words]) == 2
    assert "--hidden: seed=3: must be a setting of a job, and not its seed" in capsys.readouterr().err


@pytest.mark.parametrize("name", OF_RESOURCES)
def test_what_needs_resources_needs_a_record_of_them(
    name: str, sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = str(tmp_path / "out")
    assert main([str(sweep), "--predictors", f"last_value,{name}", "--out", out]) == 2
    assert f"--predictors: {name} needs the processor time of iterations" in capsys.readouterr().err
    story = bsp_story(seed=0, **LONG)
    for line in story.lines:
        if line.get("event", {}).get("type") == "Arrived":
            line["event"]["timings"]["cpu_s"] = 0.03
        elif line.get("event", {}).get("type") == "Started":
            line["event"]["model_bytes"] = 4_000
    story.write(tmp_path / "known" / "bsp_0")
    assert main([str(tmp_path / "known"), "--predictors", f"last_value,{name}", "--out", out]) == 0
    assert set(pd.read_csv(tmp_path / "out" / "predictors.csv")["predictor"]) == {"last_value", name}


@pytest.mark.few(1)
@pytest.mark.parametrize("labels", ["plan", "realised"])
def test_the_oracle_is_right_and_the_last_value_late(
    labels: str, sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Delays are slept, twice as long as an iteration: the plan is what comes true, and it is exact."""
    words = [str(sweep), "--labels", labels, "--predictors", "oracle,last_value", "--out", str(tmp_path / "out")]
    assert main(words) == 0
    jobs = pd.read_csv(tmp_path / "out" / "predictors.csv").groupby("predictor")
    assert (jobs[["precision", "recall"]].min().loc["oracle"] == 1.0).all()
    assert (jobs[["precision", "recall"]].max().loc["last_value"] < 1.0).all()
    leads = pd.read_csv(tmp_path / "out" / "lead_times.csv").groupby("predictor")["lead_s"]
    assert leads.max()["last_value"] < 0.0 == leads.min()["oracle"] == leads.max()["oracle"]
    assert f"straggled ({labels})" in capsys.readouterr().out


@pytest.mark.long(like="test_the_oracle_is_right_and_the_last_value_late")
def test_settings_and_tolerance_make_a_difference(
    sweep: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    def tagged(*words: str) -> dict[str, int]:
        assert main([str(sweep), "--out", str(tmp_path / "out"), *words]) == 0
        jobs = pd.read_csv(tmp_path / "out" / "predictors.csv").groupby("predictor")
        counts = jobs[["true_positives", "false_positives"]].sum().sum(axis="columns")
        return {str(name): int(count) for name, count in counts.items()}

    found = tagged("--predictors", "nvrx,nvrx:window_iters=1:scores=relative,last_value")
    assert set(found) == {"nvrx", "nvrx:window_iters=1:scores=relative", "last_value"}
    assert found["nvrx"] != found["nvrx:window_iters=1:scores=relative"]
    assert tagged("--predictors", "last_value", "--tolerance-frac", "9") == {"last_value": 0}
    assert "undefined" in capsys.readouterr().out
    assert tagged("--predictors", "last_value:tolerance_frac=0.2", "--tolerance-frac", "9") == {
        "last_value:tolerance_frac=0.2": found["last_value"]
    }


def test_runs_of_the_same_name_stay_apart_and_without_a_plan_there_is_no_oracle(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    paths = [str(bsp_story(plan=[]).write(tmp_path / place / "calm")) for place in ("one", "other")]
    assert main([*paths, "--out", str(tmp_path / "out")]) == 0
    assert set(pd.read_csv(tmp_path / "out" / "predictors.csv")["run"]) == set(paths)
    shown = capsys.readouterr().out
    assert "oracle" not in shown
    assert "0.0 % straggled" in shown
    assert "\N{EN DASH}: undefined" in shown


def empty() -> Story:
    story = Story(plan=PLAN)
    story.started()
    story.finished(1.0)
    return story


STORIES = {
    "good": lambda: bsp_story(plan=PLAN),
    "calm": lambda: bsp_story(plan=[]),
    "unplanned": lambda: bsp_story(),
    "alone": lambda: bsp_story(plan=[], num_workers=1),
    "empty": empty,
}
REFUSED = [
    ("good", ["--labels", "true"], "argument --labels: "),
    ("", [], "{path}: no run here (a directory with meta.json and events.jsonl)"),
    ("empty", [], "{path}: holds no iteration of a worker on a whole batch. Score a run that trained"),
    ("alone", [], "{path}: has one worker and none to compare it with; score a run with two or more"),
    ("calm", ["--labels", "plan"], "{path}: its plan disturbs no worker, so there is nothing for --labels plan"),
    ("unplanned", ["--labels", "plan"], "{path}/plan.json: missing"),
    ("calm", ["--predictors", "ema,oracle"], "{path}: its plan disturbs no worker, so there is nothing for oracle; "),
    ("good", ["--predictors", "oracel"], "--predictors: oracel: no such predictor; there are last_value, "),
    ("good", ["--predictors", "ema,"], "--predictors: : no such predictor; there are last_value, "),
    ("good", ["--predictors", "nvrx:0.8"], "--predictors: nvrx:0.8: 0.8 must be written setting=value"),
    ("good", ["--predictors", "nvrx:treshold=0.8"], "--predictors: nvrx:treshold=0.8: no such setting of nvrx; it has"),
    ("good", ["--predictors", "nvrx:threshold=8"], "--predictors: nvrx:threshold=8: must be above 0 and at most 1"),
    ("good", ["--predictors", "ema:alpha=x"], "--predictors: ema:alpha=x: must be a number, above 0 and at most 1"),
    ("good", ["--tolerance-frac", "nan"], "--tolerance-frac=nan: must be a finite number, 0 or more"),
    ("good", ["--out", "/dev/null/x"], "--out /dev/null/x: cannot be written (not a directory)"),
]


@pytest.mark.parametrize(("story", "words", "said"), REFUSED)
def test_bad_input_is_refused_in_one_line(
    story: str, words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "run"
    if story:
        STORIES[story]().write(path)
    if story == "unplanned":
        (path / "plan.json").unlink()
    assert main([str(path), *words]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"predictors: {said.format(path=path)}")
    assert error.count("\n") == 1


OWN = """
from __future__ import annotations
from dataclasses import dataclass, field

@dataclass
class Slowest:
    factor: float = 1.5
    last_s: dict = field(default_factory=dict, init=False)

    def __post_init__(self) -> None:
        if not self.factor > 1:
            raise ValueError(f"factor={self.factor}: must be more than 1")

    def update(self, observation) -> None:
        self.last_s[observation.worker] = observation.iter_s

    def forget(self, worker: int) -> None:
        self.last_s.pop(worker, None)

    def tags(self, t: float) -> frozenset[int]:
        fastest_s = min(self.last_s.values(), default=0.0)
        return frozenset(worker for worker, each_s in self.last_s.items() if each_s > self.factor * fastest_s)

class Nothing:
    pass
"""


@pytest.fixture
def own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """A project with a predictor, as a word of the command line."""
    lab = tmp_path / "scored_lab"
    (lab / "conf").mkdir(parents=True)
    (lab / "scored_lab").mkdir()
    (lab / "scored_lab" / "__init__.py").write_text('"""Own."""')
    (lab / "scored_lab" / "predictor.py").write_text(OWN)
    monkeypatch.setenv(VARIABLE, "")  # what the command line names is forgotten afterwards
    monkeypatch.setattr(sys, "path", [*sys.path])
    yield f"{SETTING}={lab}"
    for name in [one for one in sys.modules if one.partition(".")[0] == lab.name]:
        del sys.modules[name]


def test_a_predictor_of_a_users_project_is_scored_like_ours(own: str, sweep: Path, tmp_path: Path) -> None:
    """With the tolerance of ``last_value`` it tags the same workers."""
    out = tmp_path / "out"
    names = ["last_value", "scored_lab.predictor.Slowest:factor=1.2", "scored_lab.predictor.Slowest"]
    assert main([str(sweep), own, "--predictors", ",".join(names), "--out", str(out)]) == 0
    jobs = pd.read_csv(out / "predictors.csv").groupby("predictor")["true_positives"].sum()
    assert jobs["last_value"] == jobs[names[1]] > 0
    assert set(jobs.index) == set(names)


@pytest.mark.parametrize(
    ("word", "said"),
    [
        ("scored_lab.predictor.Slowset", "has no class Slowset; did you mean Slowest?"),
        ("scored_lab.predictor.Nothing", "is no predictor; it needs the methods update, forget and tags"),
        ("scored_lab.predictor.Slowest:factor=1", "scored_lab.predictor.Slowest.factor=1.0: must be more than 1"),
        ("scored_lab.predictor.Slowest:fator=2", "scored_lab.predictor.Slowest.fator: no such setting; did you mean"),
        ("elsewhere.Mine", "elsewhere.Mine: not below"),
    ],
)
def test_one_that_cannot_be_built_is_refused_in_one_line(
    word: str, said: str, own: str, sweep: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([str(sweep), own, "--predictors", word]) == 2
    line = capsys.readouterr().err
    assert line.startswith("predictors: --predictors: ")
    assert line.count("\n") == 1
    assert said in line
