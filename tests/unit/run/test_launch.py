"""Jobs started by this program, compared with jobs started by Hydra's own ``main`` and by a launcher."""

from __future__ import annotations

import json
import signal
import subprocess
from collections.abc import Callable
from functools import partial
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
import yaml
from hydra.core import hydra_config
from hydra.types import RunMode

from runtime.config import compose
from runtime.config.instantiate import ALLOW_VARIABLE
from runtime.run import checking
from runtime.run.launch import Result
from stragglab.commands import run
from tests.support.cli import ROOT, Finished, in_a_fork, refusal, run_cli
from tests.support.prepared import Prepared

JOB = ("runtime=virtual", "workload=ledger", "backend=numpy", "workload.epochs=1", "straggler=none")
JOB = (*JOB, "view=none", "draw=false")
LAUNCHER = """
from hydra._internal.core_plugins.basic_launcher import BasicLauncher

class CrowdLauncher(BasicLauncher):
    '''As Hydra's own, but not it: so Hydra's own main composes and starts the jobs.'''
"""
SWEEPER = """
from hydra._internal.core_plugins.basic_sweeper import BasicSweeper

class OtherSweeper(BasicSweeper):
    pass
"""
COUNTED = """
import os
from dataclasses import dataclass
from hydra.experimental.callback import Callback
from injectors.patterns import NoStragglers
from runtime.backends.numpy import NumpyBackend
from runtime.core.scheduling import ConstantPending
from runtime.virtual.runtime import VirtualRuntime
from strategies.basic.bsp import BSP
from workloads.ledger import SampleLedger

def note(word):
    with open(os.environ["COUNTED"], "a") as file:
        print(word, file=file)

def counted(parent):
    class Counted(parent):
        def __init__(self, *positional, **fields):
            note(parent.__name__)
            super().__init__(*positional, **fields)
    Counted.__module__, Counted.__signature__ = __name__, __import__("inspect").signature(parent)
    return Counted

Strategy, Backend, Task = counted(BSP), counted(NumpyBackend), counted(SampleLedger)
Pattern, Pending, Runtime = counted(NoStragglers), counted(ConstantPending), counted(VirtualRuntime)

class Notified(Callback):
    def __getattribute__(self, name):
        if name.startswith("on_"):
            note(name)
        return super().__getattribute__(name)
"""
PARTS = {
    "strategy": ("counted.Strategy", "bsp", "strategies.basic.bsp.BSP"),
    "backend": ("counted.Backend", "numpy", "runtime.backends.numpy.NumpyBackend"),
    "straggler": ("counted.Pattern", "none", "injectors.patterns.NoStragglers"),
    "scheduler": ("counted.Pending", "constant", "runtime.core.scheduling.ConstantPending"),
    "runtime": ("counted.Runtime", "virtual", "runtime.virtual.VirtualRuntime"),
    "workload": ("counted.Task", "ledger", "workloads.ledger.SampleLedger"),
}
BUILT = ("BSP", "NumpyBackend", "NoStragglers", "ConstantPending", "VirtualRuntime", "SampleLedger")


def ok(*words: str, cwd: Path) -> Finished:
    done = run_cli(*words, cwd=cwd)
    assert done.exit_code == 0, done.err
    return done


Anew = Callable[..., subprocess.CompletedProcess[str]]
"""Runs ``run.py`` where nothing of Hydra is imported yet: it looks for plugins once."""


@pytest.fixture
def anew(prepared: Prepared) -> Anew:
    return partial(prepared.run, str(ROOT / "run.py"))


@pytest.fixture
def plugins(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words that register another launcher and another sweeper, which are chosen by name."""
    (tmp_path / "lib" / "hydra_plugins").mkdir(parents=True)
    for kind, name, text in (("launcher", "crowd", LAUNCHER), ("sweeper", "other", SWEEPER)):
        (tmp_path / "lib" / "hydra_plugins" / f"{name}.py").write_text(text)
        (tmp_path / "conf" / "hydra" / kind).mkdir(parents=True)
        target = f"_target_: hydra_plugins.{name}.{name.capitalize()}{kind.capitalize()}\n"
        more = "max_batch_size: null\nparams: null\n" if kind == "sweeper" else ""
        (tmp_path / "conf" / "hydra" / kind / f"{name}.yaml").write_text(target + more)
    monkeypatch.setenv("PYTHONPATH", str(tmp_path / "lib"))
    return ["--config-dir", str(tmp_path / "conf")]


def stored(folder: Path) -> dict[str, Any]:
    """Hydra's part of a record, without what must differ: the launcher, its folder, the callback."""
    found = {path.stem: yaml.safe_load(path.read_text()) for path in (folder / ".hydra").iterdir()}
    hydra = found["hydra"]["hydra"]
    for name in ("launcher", "sweeper", "sweep", "run"):
        del hydra[name]
    del hydra["runtime"]["output_dir"]
    hydra["runtime"]["choices"] = {
        group: choice for group, choice in hydra["runtime"]["choices"].items() if "/" not in group
    }
    hydra["overrides"]["hydra"] = [
        line for line in hydra["overrides"]["hydra"] if not line.startswith(("hydra/", "hydra.sweep.dir="))
    ]
    return found


@pytest.mark.long(like="test_every_part_of_every_job_of_a_sweep_is_built_once_before_the_first_starts")
@pytest.mark.timeout(400)  # two sweeps with their reports
def test_a_sweep_leaves_what_hydra_s_own_main_leaves(plugins: list[str], anew: Anew, tmp_path: Path) -> None:
    words = [*plugins, *JOB, "-m", "strategy=bsp,ssp", "seed=1", "max_time_s=60", "+hydra.job.env_set.MINE=a"]
    ours = anew(*words, "hydra.sweep.dir=ours", cwd=tmp_path)
    theirs = anew(*words, "hydra/launcher=crowd", "hydra.sweep.dir=theirs", cwd=tmp_path)
    assert (ours.returncode, theirs.returncode) == (0, 0), (ours.stderr, theirs.stderr)
    names = sorted(path.name for path in (tmp_path / "ours").iterdir())
    assert sorted(path.name for path in (tmp_path / "theirs").iterdir()) == [n for n in names if n != "sweep.jsonl"]
    assert {"comparison", "multirun.yaml"} < {*names}
    jobs = [name for name in names if name[0].isdigit()]
    assert jobs == ["0_bsp_none_seed1", "1_ssp_none_seed1"]
    for job in jobs:
        assert stored(tmp_path / "ours" / job) == stored(tmp_path / "theirs" / job)
        assert (tmp_path / "ours" / job / "events.jsonl").read_bytes() == (
            tmp_path / "theirs" / job / "events.jsonl"
        ).read_bytes()
    said = [line for line in ours.stdout.splitlines() if not line.startswith("/") and "ours" not in line]
    assert [line for line in theirs.stdout.splitlines() if not line.startswith("/") and "theirs" not in line] == said
    assert "Launching 2 jobs locally" in said
    assert all((tmp_path / folder / "comparison" / "report.html").exists() for folder in ("ours", "theirs"))


JOBLIB = ("hydra/launcher=joblib", "hydra.launcher.n_jobs=2")


@pytest.mark.long(like="test_every_part_of_every_job_of_a_sweep_is_built_once_before_the_first_starts")
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    "by", [("hydra/launcher=crowd",), JOBLIB, ("hydra/sweeper=other", *JOBLIB, "metric=jct")], ids=lambda by: by[0]
)
def test_a_job_that_fails_by_another_launcher_shows_in_the_exit_code(
    by: tuple[str, ...], plugins: list[str], anew: Anew, tmp_path: Path
) -> None:
    """The other one runs, and Hydra's own sweeper has its report; to one that wants a number it is not-a-number."""
    if JOBLIB[0] in by:
        pytest.importorskip("hydra_plugins.hydra_joblib_launcher")
    words = [*plugins, *JOB[:1], *JOB[3:], "workload=digits,resnet20_cifar10", "cluster.device={base_s:0.1}"]
    done = anew(*words, "backend=torch", "-m", *by, "hydra.sweep.dir=out", cwd=tmp_path)
    assert done.returncode == 2, done.stderr
    assert (tmp_path / "out" / "0_bsp_none_seed0" / "events.jsonl").exists()
    if "metric=jct" in by:
        assert "run.py: 1 job failed: 1_bsp_none_seed0 (exit code 2)\n" in done.stderr
        assert "Traceback" not in done.stderr
    else:
        assert "cifar10" in done.stderr
        assert (tmp_path / "out" / "comparison" / "report.html").exists()


def signalled(exit_code: int, number: int, folder: Path) -> None:
    """What Hydra's own main calls for a job of a sweep, where the job ends so."""
    about = SimpleNamespace(runtime=SimpleNamespace(cwd=".", output_dir=str(folder / "out")), mode=RunMode.MULTIRUN)
    vars(hydra_config).update(HydraConfig=SimpleNamespace(get=lambda: about))
    vars(compose).update(to_raw=lambda composed: {})
    vars(checking).update(check=lambda *given: SimpleNamespace(config=SimpleNamespace(metric=None)))
    vars(run).update(run_job=lambda job, run_dir: Result(exit_code, interrupted_by=number))
    print("returned", run.main({}))


@pytest.mark.parametrize("exit_code", [0, 1])
def test_a_signal_ends_sweeps_of_other_launchers_even_if_the_job_failed(exit_code: int, tmp_path: Path) -> None:
    assert in_a_fork(partial(signalled, exit_code, signal.SIGINT, tmp_path), ROOT).exit_code == 128 + signal.SIGINT
    done = in_a_fork(partial(signalled, exit_code, 0, tmp_path), ROOT)
    assert (done.exit_code, done.out) == (0, f"returned {exit_code}\n")


@pytest.fixture
def counted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Words that choose parts which note that they are built, and a callback that notes its calls."""
    (tmp_path / "lib").mkdir()
    (tmp_path / "lib" / "counted.py").write_text(COUNTED)
    monkeypatch.syspath_prepend(tmp_path / "lib")
    monkeypatch.setenv(ALLOW_VARIABLE, "counted")
    monkeypatch.setenv("COUNTED", str(tmp_path / "counted.txt"))
    for group, (target, like, plain) in PARTS.items():
        text = (ROOT / "conf" / group / f"{like}.yaml").read_text()
        assert plain in text
        (tmp_path / "conf" / group).mkdir(parents=True)
        (tmp_path / "conf" / group / "counted.yaml").write_text(text.replace(plain, target))
    (tmp_path / "conf" / "hydra" / "callbacks").mkdir(parents=True)
    (tmp_path / "conf" / "hydra" / "callbacks" / "notified.yaml").write_text(
        "notified:\n  _target_: counted.Notified\n"
    )
    more = ("workload.backends=[counted]", "workload.epochs=1", "view=none", "draw=false")
    return ["--config-dir", str(tmp_path / "conf"), *(f"{group}=counted" for group in PARTS), *more]


def lines(tmp_path: Path) -> list[str]:
    return (tmp_path / "counted.txt").read_text().split()


def test_every_part_of_a_job_is_built_once_and_callbacks_hear_of_it(counted: list[str], tmp_path: Path) -> None:
    ok(*counted, "hydra/callbacks=notified", "hydra.run.dir=out", cwd=tmp_path)
    assert json.loads((tmp_path / "out" / "meta.json").read_text())["job"]["strategy"] == "counted"
    found = lines(tmp_path)
    assert sorted(line for line in found if line in BUILT) == sorted(BUILT)
    notified = [line for line in found if line.startswith("on_")]
    assert notified == ["on_run_start", "on_job_start", "on_job_end", "on_run_end"]


def test_every_part_of_every_job_of_a_sweep_is_built_once_before_the_first_starts(
    counted: list[str], tmp_path: Path
) -> None:
    ok(*counted, "hydra/callbacks=notified", "-m", "seed=0,1,2", "hydra.sweep.dir=out", cwd=tmp_path)
    found = lines(tmp_path)
    begun = found.index("on_multirun_start")
    assert sorted(found[:begun]) == sorted(BUILT * 3)
    assert found[begun:] == ["on_multirun_start", *["on_job_start", "on_job_end"] * 3, "on_multirun_end"]


def test_settings_of_hydra_s_own_are_carried_out(tmp_path: Path) -> None:
    words = (*JOB, "hydra.job.chdir=true", "hydra.output_subdir=null", "hydra.run.dir=${hydra:job.name}/${seed}")
    ok(*words, cwd=tmp_path)
    assert sorted(path.name for path in tmp_path.iterdir() if path.name != "data") == ["run"]
    assert (tmp_path / "run" / "0" / "meta.json").exists()
    assert not (tmp_path / "run" / "0" / ".hydra").exists()


@pytest.mark.few(1)
@pytest.mark.parametrize("flags", [("--cfg", "job"), ("--info", "config"), ("--help",)])
def test_what_cannot_be_shown_is_one_line(flags: tuple[str, ...], tmp_path: Path) -> None:
    done = run_cli(*flags, "strategy=spp", cwd=tmp_path)  # Hydra prints a heading first
    assert done.exit_code == 2
    assert done.err.startswith("run.py: strategy=spp: no such strategy; did you mean ssp?")
    assert len(done.err.splitlines()) == 1


def test_a_command_that_is_nearly_written_is_named(tmp_path: Path) -> None:
    assert refusal("verfy", "runs", cwd=tmp_path) == "verfy: no such command; did you mean verify?"
