"""``new`` makes a project that passes every check, and ``check`` finds what is planted in it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

from runtime.config import project
from runtime.errors import ConfigError
from runtime.house import run_py
from stragglab.commands.new import main as new_project
from stragglab.grids.experiments import known_specs
from tests.support.cli import Finished, run_cli

ROOT = Path(__file__).resolve().parents[3]


@pytest.fixture(autouse=True)
def _no_project(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("STRAGGLAB_PROJECT", "")
    monkeypatch.chdir(tmp_path)


def plant(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert text.count(old) == 1
    path.write_text(text.replace(old, new))


def run(*words: str) -> Finished:
    return run_cli(*words, cwd=Path.cwd())


def test_a_project_has_its_own_name_everywhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And its next command can be typed where one is."""
    assert new_project(["deep/hers"]) == 0
    paths = [path for path in (tmp_path / "deep" / "hers").rglob("*") if path.is_file()]
    assert tmp_path / "deep" / "hers" / "hers" / "strategy.py" in paths
    assert len(paths) == 12
    assert not [path for path in paths if "my_lab" in path.read_text() or "my_lab" in str(path)]
    line = next(line for line in capsys.readouterr().out.splitlines() if line.startswith("next:"))
    program = Path(line.split()[2])
    assert program.is_absolute()
    assert program.samefile(ROOT / "run.py")


@pytest.mark.parametrize(
    ("name", "why"),
    [
        ("my-lab", "cannot be the name of a package"),
        ("class", "cannot be the name of a package"),
        (".", "cannot be the name of a package"),
        ("analysis", "is the name of a part of Stragglab"),
        ("there", "exists already"),
        ("json", "there is a module json already"),
    ],
)
def test_a_name_that_cannot_be_used_is_refused(name: str, why: str, capsys: pytest.CaptureFixture[str]) -> None:
    Path("there").mkdir()
    assert new_project([name]) == 2
    said = capsys.readouterr().err
    assert why in said
    assert said.count("\n") == 1


def test_files_that_cannot_be_used_are_named() -> None:
    for words in (("check", "nowhere"), ("check",)):
        done = run(*words)
        assert (done.exit_code, done.err.count("\n")) == (2, 1)
    assert new_project(["lab_of_files"]) == 0
    conf = Path("lab_of_files", "conf")
    plant(conf / "strategy" / "my_strategy.yaml", "spare: 1 ", "spare: 9 ")
    plant(conf / "workload" / "my_workload.yaml", "epochs: 6", "epoch: 6")
    plant(conf / "experiment" / "my_experiment.yaml", "kind: bars, panels: stragglers", "kind: bars, panels: nothing")
    (conf / "strategies").mkdir()
    (conf / "strategies" / "lost.yaml").touch()
    done = run("check", "lab_of_files")
    assert done.exit_code == 1
    lines = done.out.splitlines()
    assert lines[0].startswith("failed  conf/experiment/my_experiment.yaml: ")
    assert "figure: nothing is not one of the axes" in lines[0]
    assert lines[1] == "ok      conf/straggler/my_straggler.yaml"
    assert lines[2].startswith("failed  conf/strategies/lost.yaml: strategies is no group; there are backend, cluster")
    assert lines[3].endswith("my_strategy.yaml: strategy.gate.spare=9: must be less than the number of workers (4)")
    assert lines[4].endswith("my_workload.yaml: workload.epoch: no such setting; did you mean workload.epochs?")
    assert lines[5].startswith("4 failed")


PARTS = """    num_parameters = 6

    def initial_parameters(self, seed):
        return np.arange(6, dtype=np.float32)

    def initial_part(self, seed, lo, out):
        out[:] = range(lo, lo + len(out))

"""


def test_parts_of_initial_parameters_that_differ_from_the_whole_are_named() -> None:
    assert new_project(["lab_of_parts"]) == 0
    lab = Path("lab_of_parts")
    for group in ("experiment", "straggler", "strategy"):
        shutil.rmtree(lab / "conf" / group)
    file, method = lab / "lab_of_parts" / "workload.py", "    def torch_module("
    plant(file, method, PARTS + method)
    assert "ok      conf/workload/my_workload.yaml" in run("check", "lab_of_parts").out.splitlines()
    plant(file, "range(lo, lo + len(out))", "range(len(out))")
    [said, _] = run("check", "lab_of_parts").out.splitlines()
    assert said == (
        "failed  conf/workload/my_workload.yaml: initial_part: of [2, 6) has other values than initial_parameters; "
        "make them equal to the bit"
    )
    plant(file, "out[:] = range(len(out))", "raise ValueError('no parts today')")
    [said, _] = run("check", "lab_of_parts").out.splitlines()
    assert said.endswith("my_workload.yaml: initial parameters: ValueError: no parts today")


POLICY = """
from dataclasses import dataclass
from stragglab import Policy

@dataclass(kw_only=True)
class Never(Policy):
    depth: int = 1

    def __post_init__(self) -> None:
        if self.depth < 1:
            raise ValueError(f"depth={self.depth}: must be 1 or more")

    def begin(self, machines): ...
    def changed(self, old, new): ...
    def decide(self, t, room, placement):
        return ()
"""


@pytest.mark.long(like="test_parts_of_initial_parameters_that_differ_from_the_whole_are_named")
def test_policies_and_workloads_in_numpy_are_checked_where_they_can_be_used() -> None:
    """A policy needs jobs that share hosts, and PyTorch does not train what is written in numpy."""
    assert new_project(["lab_of_sets"]) == 0
    lab = Path("lab_of_sets")
    shutil.rmtree(lab / "conf")
    (lab / "lab_of_sets" / "policy.py").write_text(POLICY)
    for group, text in {
        "policy": "_target_: lab_of_sets.policy.Never\ndepth: 1\n",
        "placement": "_target_: strategies.cluster.placements.pack.Pack\nmax_machines: 2\nservers_on: any\n",
        "prevention": (ROOT / "conf" / "prevention" / "star.yaml").read_text(),
        "jobs": (ROOT / "conf" / "jobs" / "list.yaml").read_text(),
        "workload": (ROOT / "conf" / "workload" / "ledger.yaml").read_text(),
    }.items():
        (lab / "conf" / group).mkdir(parents=True)
        (lab / "conf" / group / "own.yaml").write_text(text)
    done = run("check", "lab_of_sets")
    assert done.out.count("ok      conf/") == 5, done.out
    plant(lab / "conf" / "policy" / "own.yaml", "depth: 1", "depth: 0")
    plant(lab / "conf" / "workload" / "own.yaml", "backends: [", "backends: [[")
    lines = run("check", "lab_of_sets").out.splitlines()
    assert "failed  conf/policy/own.yaml: policy.depth=0: must be 1 or more" in lines
    assert any(line.startswith("failed  conf/workload/own.yaml: ") for line in lines)


IMPORT = "from stragglab.strategies.parts.gates import QuorumGate\n"
DEAF = """from stragglab.strategies.parts.gates import QuorumGate as Sound
from stragglab.strategies.parts.gates import Verdict


class QuorumGate(Sound):
    def lost(self, worker: int, restarting: bool) -> Verdict:
        return Verdict()
"""
"""A gate that waits for workers that have left."""


@pytest.mark.long(like="test_files_that_cannot_be_used_are_named")
@pytest.mark.parametrize(
    ("old", "new", "found"),
    [
        ("", "", ""),
        (IMPORT, DEAF, "reaches_the_end"),
        (
            "return (self.version",
            "from random import random\n\n        return random() < 0.5 and (self.version",
            "same_again",
        ),
        ('        check_whole("spare", self.spare)\n', "", "out_of_range"),
    ],
)
def test_the_contract_suite_finds_what_is_planted(old: str, new: str, found: str) -> None:
    assert new_project(["lab_of_faults"]) == 0
    if old:
        plant(Path("lab_of_faults", "lab_of_faults", "strategy.py"), old, new)
    Path("without").mkdir()
    Path("without", "hypothesis.py").write_text("raise ImportError\n")  # users need pytest, not what our own tests need
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join((str(Path("without").absolute()), str(ROOT)))}
    environment["PYTEST_DISABLE_PLUGIN_AUTOLOAD"] = "1"
    checked = "import sys; from stragglab.commands.check import main; sys.exit(main(sys.argv[1:]))"
    command = [sys.executable, "-c", checked, "lab_of_faults"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == (1 if old else 0), done.stdout
    assert found in done.stdout
    assert ("nothing failed" in done.stdout) is not bool(old)


@pytest.mark.long(like="test_files_that_cannot_be_used_are_named")
def test_an_experiment_without_a_paper_is_run_compared_and_continued() -> None:
    assert new_project(["lab_of_runs"]) == 0
    conf = Path("lab_of_runs", "conf", "experiment", "my_experiment.yaml")
    plant(conf, "workload=my_workload]", "workload=my_workload, backend=none, workload.target=null]")
    plant(conf, "measures: [jct_s, final_metric]", "measures: [jct_s]")
    words = ("experiment", "my_experiment", "project=lab_of_runs", "--seeds", "0")
    words += ("--only", "stragglers=in_turns", "--only", "system=bsp,my_strategy")
    done = run(*words)
    assert done.exit_code == 0, done.err + done.out
    out = Path("out", "experiments", "my_experiment")
    table = (out / "table.tex").read_text()
    assert "My strategy & 1 &" in table, "the name that the figure has, too"
    assert "my_strategy,1," in (out / "table.csv").read_text()
    for name in ("table.md", "table.csv", "runs.csv", "my_experiment.png", "comparison/report.html"):
        assert (out / name).is_file(), name
    assert str(Path("table.tex")) in done.out, "people see where it is"
    assert not Path("out", "experiments", "paper").exists()
    again = run(*words, "--paper", "column")
    assert "2 of 2 records exist already" in again.out
    assert {one.suffix for one in (out / "paper").iterdir()} == {".pdf", ".svg", ".png", ".csv", ".txt"}
    assert (out / "table.tex").read_text() == table


def test_experiments_of_ours_and_of_the_project_have_different_names() -> None:
    assert new_project(["lab_of_lists"]) == 0
    project.adopt(["project=lab_of_lists"])
    assert {"my_experiment", "antdt_fig1"} <= known_specs().keys()
    conf = Path("lab_of_lists", "conf", "experiment")
    (conf / "my_experiment.yaml").rename(conf / "antdt_fig1.yaml")
    with pytest.raises(ConfigError, match="antdt_fig1 is one of ours"):
        known_specs()


SAID = """
import sys
from analysis.figures.names import shown_name
from analysis.figures.style import looks
from analysis.reports.remedies import REMEDIES
look = looks(["my_strategy"])["my_strategy"]
print(shown_name("my_strategy x=1"), look.colour, look.marker, look.hatch, REMEDIES["my_strategy"].needs, sep="|")
from pathlib import Path
from scripts.docs.docs_site import method_cards, method_tables, with_methods
cards = method_cards(Path("lab_about"), Path("lab_about"))
print(*method_tables(cards))
print(with_methods([{"Methods": []}], cards))
from tests.contract.catalogue import NAMES
print(*NAMES)
"""


@pytest.mark.long(like="test_what_cannot_be_said_of_a_strategy_is_refused")
def test_a_folder_and_a_yaml_are_found_in_help_figures_advice_docs_and_contract(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    assert new_project(["lab_about"]) == 0
    monkeypatch.setenv("STRAGGLAB_PROJECT", str(Path("lab_about").absolute()))
    monkeypatch.setenv("STRAGGLAB_CONTRACT_STRATEGIES", str(Path("lab_about", "conf", "strategy").absolute()))
    about = Path("lab_about", "lab_about", "about.toml")
    about.write_text(
        f'{about.read_text()}colour = "#123456"\nmarker = "D"\nfamily = "balanced"\ndoes = "as it likes"\n'
    )
    Path("lab_about", "my_strategy.md").write_text("# Mine: a method\n")
    done = subprocess.run(
        [sys.executable, "-c", SAID], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    seen, listed, navigation, contract = [*done.stdout.splitlines(), "", "", "", ""][:4]
    assert seen == "My strategy (x=1)|#123456|D|xxxx|parameter servers", done.stderr
    assert "| `my_strategy` | as it likes |" in listed
    assert "| [Mine](my_strategy.md) |" in listed
    assert navigation == "[{'Methods': [{'Mine': 'methods/my_strategy.md'}]}]"
    assert contract == "my_strategy"
    assert "my_strategy" in run("--help").out
    log = Path("steps.csv")
    log.write_text(
        "step,rank,seconds,work\n" + "".join(f"{n},{w},8,{1 + w * (n % 3)}\n" for n in range(60) for w in range(4))
    )
    words = ["--compute", "work", "--topology", "ps", "--strategies", "my_strategy,ssp"]
    advice = subprocess.run(run_py("advise", str(log), *words), capture_output=True, text=True, check=False)
    assert "\n my_strategy " in advice.stdout, advice.stderr
    assert "My strategy" in Path("out", "advice", "steps", "advice.html").read_text()


@pytest.mark.parametrize(
    ("text", "why"),
    [
        ('[my_strategy]\nname = "Mine"\n', "write changes and needs, or why it is not_advised"),
        ('[my_strategy]\nname = "Mine"\nnot_advised = "no"\ncolor = "#123456"\n', "unknown field `color`"),
        ("[my_strategy]\nname = 7\n", "Expected `str`, got `int`"),
        ("[my_strategy\n", "about.toml: "),
        ('[my_strategy]\nname = "Mine"\nnot_advised = "no"\ncolour = "blue"\n', "colour"),
    ],
)
def test_what_cannot_be_said_of_a_strategy_is_refused(text: str, why: str, monkeypatch: pytest.MonkeyPatch) -> None:
    assert new_project(["lab_said"]) == 0
    Path("lab_said", "lab_said", "about.toml").write_text(text)
    with pytest.raises(ConfigError) as refused:
        project.adopt(["project=lab_said"])
    assert why in str(refused.value)
    assert "lab_said/about.toml: " in str(refused.value)
    assert "\n" not in str(refused.value)
