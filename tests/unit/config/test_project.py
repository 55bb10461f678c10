"""A user's own project: one setting is search path and allow-list together, and nothing of it is silently ignored."""

from __future__ import annotations

import subprocess
import sys
import zlib
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from runtime.config import project
from runtime.config.instantiate import instantiate, is_allowed
from runtime.config.project import VARIABLE, adopt
from runtime.errors import ConfigError
from runtime.run.preflight import preflight
from runtime.training.optimizers import make_optimizer
from stragglab.commands.new import main as new_project

ROOT = Path(__file__).resolve().parents[3]
JOB = ("runtime=virtual", "strategy=my_strategy", "workload=my_workload", "straggler=my_straggler")


@pytest.fixture
def lab(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest) -> Iterator[Path]:
    """A fresh project with a package name of its own, which no other test has imported."""
    name = f"lab_{zlib.crc32(request.node.name.encode()):x}"
    monkeypatch.setenv(VARIABLE, "")
    monkeypatch.setattr(sys, "path", list(sys.path))
    project.fingerprint.cache_clear()
    assert new_project([str(tmp_path / name)]) == 0
    yield tmp_path / name
    project.fingerprint.cache_clear()
    for module in [one for one in sys.modules if one.partition(".")[0] == name]:
        del sys.modules[module]


def test_the_setting_leaves_the_command_line_and_holds_for_children(lab: Path) -> None:
    assert adopt(["strategy=bsp", f"project={lab}", "seed=1"]) == ["strategy=bsp", "seed=1"]
    program = [sys.executable, "-c", "from runtime.config import project; print(project.packages())"]
    said = subprocess.run(program, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    assert said.strip() == f"('{lab.name}',)"
    assert adopt([]) == []
    assert project.folder() == lab


def test_a_job_of_ones_own_can_run(lab: Path) -> None:
    adopt([f"project={lab}"])
    ready = preflight(JOB)
    _, job = ready.jobs.pending[0]
    kinds = {type(one).__module__.partition(".")[0] for one in (job.strategy.gate, job.task)}  # type: ignore[union-attr]
    assert kinds == {lab.name}
    assert {one.kind for one in job.plan.disturbances} == {"slowdown"}  # type: ignore[union-attr]


def test_without_it_the_code_is_refused_and_the_setting_named(lab: Path) -> None:
    assert not is_allowed(f"{lab.name}.strategy.MostGate")
    with pytest.raises(ConfigError, match="name the project that it is in with project=DIR"):
        instantiate({"_target_": f"{lab.name}.strategy.MostGate"})
    with pytest.raises(
        ConfigError, match=r"straggler=my_straggler: no such straggler .*; project=DIR adds those of your own project"
    ):
        preflight(JOB)


def test_what_is_no_project_is_refused(tmp_path: Path, lab: Path) -> None:
    (tmp_path / "empty").mkdir()
    (tmp_path / "bare" / "conf").mkdir(parents=True)
    for text, why in (
        ("nowhere", "no such directory"),
        (str(tmp_path / "empty"), "has no directory conf"),
        (str(tmp_path / "bare"), "holds no package"),
        ("", "no such directory"),
    ):
        with pytest.raises(ConfigError, match=f"project={text}: {why}"):
            adopt([f"project={text}"])
    with pytest.raises(ConfigError, match="one project at a time"):
        adopt([f"project={lab}", "project=other"])


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("name: own\nbackends: [[numpy]\n", "own.yaml, line 3: is no YAML (expected ',' or ']'"),
        ("name: own\n\tepochs: 1\n", "own.yaml, line 2: is no YAML (found character"),
        ("name: own\nname: again\n", "own.yaml, line 2: is no YAML (found duplicate key name)"),
        ("name: \x07\n", "configuration: one of its files is no YAML (unacceptable character"),
        ("", "eval_every_s: refers to workload.eval_every_s, which is not set"),
    ],
)
def test_a_file_that_is_no_yaml_is_named_with_the_line(text: str, said: str, lab: Path) -> None:
    (lab / "conf" / "workload" / "own.yaml").write_text(text)
    adopt([f"project={lab}"])
    with pytest.raises(ConfigError) as caught:
        preflight(["runtime=virtual", "workload=own"])
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("x = 1\ndef f(:\n", "workload.py, line 2: SyntaxError: invalid syntax"),
        ("x = 1\n\n1 / 0\n", "workload.py, line 3: ZeroDivisionError: division by zero"),
        ("from stragglab import Nonsense\n", "workload.py, line 1: ImportError: cannot import name 'Nonsense'"),
    ],
)
def test_a_module_that_cannot_be_imported_is_named_with_the_line(text: str, said: str, lab: Path) -> None:
    (lab / lab.name / "workload.py").write_text(text)
    adopt([f"project={lab}"])
    with pytest.raises(ConfigError) as caught:
        preflight(["runtime=virtual", "workload=my_workload"])
    assert f"_target_={lab.name}.workload.Rings: {lab.name}.workload cannot be imported (" in str(caught.value)
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_package_whose_name_python_has_already_is_refused(lab: Path) -> None:
    (lab / lab.name).rename(lab / "json")
    with pytest.raises(ConfigError, match=r"json: Python takes .*json/__init__\.py for that name"):
        adopt([f"project={lab}"])


def test_a_package_named_like_ours_is_not_meant(lab: Path) -> None:
    (lab / "analysis").mkdir()
    (lab / "analysis" / "__init__.py").touch()
    adopt([f"project={lab}"])
    assert project.packages() == (lab.name,)


def test_a_record_says_which_code_made_it(lab: Path) -> None:
    adopt([f"project={lab}"])
    before = project.fingerprint()
    assert before.startswith(f"{lab.name} ")
    project.fingerprint.cache_clear()
    assert project.fingerprint() == before
    (lab / "conf" / "strategy" / "my_strategy.yaml").write_text("_target_: x.Y\n")
    project.fingerprint.cache_clear()
    assert project.fingerprint() != before


def test_an_optimizer_is_named_by_its_path(lab: Path) -> None:
    adopt([f"project={lab}"])
    optimizer = make_optimizer(f"{lab.name}.optimizer.Signum", 3, beta=0.5)
    params, grad = np.zeros(3, np.float32), np.array([2, -3, 0], np.float32)
    optimizer.step(params, [grad], [1.0], lr=0.1, samples=1)
    assert params.tolist() == [np.float32(-0.1), np.float32(0.1), 0]
    assert optimizer.state()["mean"].tolist() == [1, -1.5, 0]  # type: ignore[union-attr]


def test_an_optimizer_that_is_none_is_refused(lab: Path) -> None:
    adopt([f"project={lab}"])
    with pytest.raises(ValueError, match="must be a dataclass derived from Rule"):
        make_optimizer(f"{lab.name}.workload.Rings", 3)
    with pytest.raises(ConfigError, match=r"name=os\.path: not below"):
        make_optimizer("os.path", 3)
    with pytest.raises(ValueError, match="gamma: is no field of"):
        make_optimizer(f"{lab.name}.optimizer.Signum", 3, gamma=1)
    with pytest.raises(ConfigError, match=r"Signum: steps along gradients that are scaled"):
        preflight(["runtime=virtual", "workload=my_workload", "strategy=star_h", "strategy.phi=null"])
