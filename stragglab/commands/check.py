"""Check a project of your own: can every file of its conf/ be used, and do its strategies keep the contract?

python run.py check my_lab           # each strategy with 1 to 4 workers, crashes, joins and lost servers
python run.py check my_lab --long    # all cases: more seeds, and 64 workers

Each file of a group is composed and built as in a run, with the defaults for everything else (runtime=virtual);
each experiment is read, and the runs of its first seed are checked. Parts of a task's initial parameters
(initial_part) must equal the same parts of all parameters. Then the contract suite tests that every strategy sends
only valid commands, is deterministic, never deadlocks, uses every sample once, can be pickled and replayed, and refuses
settings out of range by their names. The suite needs pytest (pip install 'stragglab[check]'). The exit code is 0 if
nothing failed, 1 if something failed, 2 for a folder that is not a project.
"""

from __future__ import annotations

import argparse
import importlib.util
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING

from reading import Unreadable
from reading.plain import load_yaml
from runtime.config import project
from runtime.errors import FAILED, ConfigError, print_error, refuse
from runtime.house import NAME, ROOT, module_name, surroundings

if TYPE_CHECKING:
    from runtime.run.checking import Checked

KEPT = "the project is as it was; the same command starts again"
"""Printed after a signal."""

DEFAULT_BACKEND = "torch"
SHARED = ["jobs=poisson", "jobs.num_jobs=20", "cluster=star_servers"]
SURROUNDINGS = {
    "jobs": ["cluster=star_servers"],
    "placement": SHARED,
    "policy": SHARED,
    "prevention": [*SHARED, "strategy=star_h", "strategy.prevent=true"],
}
"""Settings that a choice of a group needs: jobs that share hosts, and for ``prevention`` jobs that ask for more."""
SUITE = ("test_strategies.py", "test_virtual.py", "test_virtual_allreduce.py")
PLUGINS = ("tests.support.long_tests", "tests.support.users_suite")
FOLDER = "STRAGGLAB_CONTRACT_STRATEGIES"
"""Environment variable: where the contract suite finds the strategies."""


def main(argv: Sequence[str] | None = None) -> int:
    """Check what is named; returns the exit code (see the module)."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} check", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folder", metavar="DIR", type=Path, nargs="?", help="default: the project named by project=DIR")
    parser.add_argument("--long", action="store_true", help="all cases of the contract suite")
    parser.error = refuse  # type: ignore[method-assign]
    try:
        asked = parser.parse_args(argv)
        if asked.folder is not None:
            project.adopt([f"{project.SETTING}={asked.folder}"])
        conf = project.conf()
        if conf is None:
            raise ConfigError("names no project: give its directory, or project=DIR")
        if importlib.util.find_spec("pytest") is None:
            raise ConfigError("needs pytest for the contract suite; pip install 'stragglab[check]'")
    except ConfigError as error:
        return print_error("check", error)
    wrong = 0
    for path, problem in check_files(conf):
        print(f"{'failed' if problem else 'ok':8}{path.relative_to(conf.parent)}{': ' if problem else ''}{problem}")
        wrong += bool(problem)
    strategies = sorted((conf / "strategy").glob("*.yaml"))
    if wrong:
        print(f"{wrong} failed; the contract suite comes when every file can be used")
        return FAILED
    if strategies and contract(conf / "strategy", long=asked.long):
        return FAILED
    print("nothing failed")
    return 0


def check_files(conf: Path) -> Iterator[tuple[Path, str]]:
    """Every file of the project's groups, with what is wrong with it, or nothing."""
    from analysis.experiments.spec import SpecError

    for path in sorted(conf.rglob("*.yaml")):
        try:
            yield path, problem_of(path, conf)
        except (ConfigError, SpecError) as error:
            yield path, str(error)


def problem_of(path: Path, conf: Path) -> str:
    """Why a file cannot be used; raises :class:`ConfigError` or :class:`SpecError` for what is wrong in it."""
    from analysis.experiments.spec import cells, load_spec, settings_of
    from runtime.run.preflight import EXPERIMENT, preflight

    group, name = path.parent.relative_to(conf).as_posix(), path.stem
    groups = sorted(
        folder.name for folder in (ROOT / project.CONF).iterdir() if folder.is_dir() and folder.name != "hydra"
    )
    if group not in groups:
        return f"{group} is no group; there are {', '.join(groups)}"
    if group == EXPERIMENT:
        spec = load_spec(path)
        for cell in cells(spec):
            if cell.seed == spec.seeds[0]:
                preflight(settings_of(spec, cell))
        return ""
    virtual = [] if group in ("runtime", "launcher") else ["runtime=virtual"]
    ready = preflight([*virtual, *surroundings_of(group, path), f"{group}={name}"])
    return problem_of_parameters(ready.jobs.pending[0][1]) if group == "workload" and ready.jobs else ""


def problem_of_parameters(job: Checked) -> str:
    """Why a task's initial parameters cannot be drawn in parts; empty if they can, or are not."""
    from runtime.backends.initial import wrong_part
    from runtime.run.checks.job import CheckedJob

    try:
        return wrong_part(job.task, job.config.seed) if isinstance(job, CheckedJob) else ""
    except Exception as error:  # noqa: BLE001 (whatever somebody's own code raises)
        return f"initial parameters: {type(error).__name__}: {error}"


def surroundings_of(group: str, path: Path) -> list[str]:
    """Other choices that a file of this group needs for a job that can run."""
    if group == "workload":
        with suppress(Unreadable):  # which composing it finds as well, and says
            read = load_yaml(path)
            backends = read.get("backends") if isinstance(read, dict) else None
            if isinstance(backends, list) and backends and DEFAULT_BACKEND not in backends:
                return [f"backend={backends[0]}"]
    return SURROUNDINGS.get(group, [])


def contract(folder: Path, *, long: bool) -> int:
    """Run the contract suite for the strategies of a folder, in a process of its own; returns pytest's exit code."""
    print("contract suite, some 10 to 35 s of processor time for each strategy:")
    suite = ROOT / "tests" / "contract"
    plugins = [word for name in PLUGINS for word in ("-p", module_name(name))]
    # without the conftest.py of a clone, which imports what only our own tests need
    places = ["-c", "/dev/null", "--rootdir", str(suite), "--confcutdir", str(suite)]
    words = ["-q", "--no-header", *places, "-p", "no:cacheprovider", *plugins]
    tests = [str(suite / name) for name in SUITE]
    command = [sys.executable, "-P", "-m", "pytest", *words, *(["--long"] if long else []), *tests]
    sys.stdout.flush()
    return subprocess.run(command, env={**surroundings(), FOLDER: str(folder)}, check=False).returncode
