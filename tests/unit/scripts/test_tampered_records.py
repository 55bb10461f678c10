"""Whatever is changed in a record is noticed, or the file is named as one that nobody can check.

For every file that a run leaves: a byte is flipped, or a digit is changed, and the sums are made again after that or
not. With the old sums it is they that notice; with new ones what follows from the log does.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from analysis.records.settings import NOTE
from analysis.records.sums import SUMS
from analysis.reports.vouching import Check, files_of
from stragglab.commands.verify import main
from stragglab.vouching.record import verify
from tests.support.cli import run_cli
from tests.support.tampering import change_a_number, flip_a_byte, sum_again

RUN = (
    "runtime=virtual strategy=antdt_nd workload=ledger backend=numpy workload.epochs=1 straggler=transient view=none "
    "save_parameters=true cluster.num_workers=3"
)
SET = "runtime=virtual cluster=star_servers jobs=list replay.max_iterations=5 view=none"
SWEEP = "-m runtime=virtual backend=none workload.target=null strategy=bsp,asp workload.epochs=1 view=none"
TABLES = (
    "iterations",
    "updates",
    "evaluations",
    "server_busy",
    "restarts",
    "injections",
    "nodes",
    "notes",
    "decisions",
)
SETTINGS = (".hydra/config.yaml", ".hydra/hydra.yaml", ".hydra/overrides.yaml")
FIGURES = ("bpt", "convergence", "staleness", "timeline")
OF_RUN = (
    *SETTINGS,
    *(f"columns/{name}.arrow" for name in (*TABLES, "held", "places")),
    "columns/index.json",
    "columns/summary.json",
    "events.jsonl",
    *(f"figures/{name}.{kind}" for name in FIGURES for kind in ("csv", "png", "txt")),
    "meta.json",
    "parameters.npy",
    "plan.json",
    "report.html",
    "summary.json",
    *(f"tables/{name}.parquet" for name in TABLES),
    "timeline.json",
)
OF_SET = (
    *SETTINGS,
    "cluster.jsonl",
    "hosts.parquet",
    "jobs.parquet",
    "meta.json",
    "report.html",
    "summary.json",
    *(f"tables/{name}.parquet" for name in ("job_times", "use", "host_use", "stragglers", "episodes", "deviations")),
    "figures/gpu_use.csv",
    "figures/gpu_use.png",
    "figures/job_times.csv",
    "jobs/first/events.jsonl",
    "jobs/first/meta.json",
    "jobs/second/plan.json",
)
OF_SWEEP = (
    NOTE,
    "multirun.yaml",
    "comparison/comparison.csv",
    "comparison/comparison.json",
    "comparison/report.html",
    "comparison/figures/times.csv",
    "comparison/figures/times.png",
)
KINDS = {"run": (RUN, "hydra.run.dir"), "set": (SET, "hydra.run.dir"), "sweep": (SWEEP, "hydra.sweep.dir")}
CASES = [(kind, name) for kind, names in (("run", OF_RUN), ("set", OF_SET), ("sweep", OF_SWEEP)) for name in names]
BINARY = (".arrow", ".npy", ".parquet", ".png")
CHANGES = [
    pytest.param(kind, name, change, id=f"{how}-{kind}-{name}")
    for kind, name in CASES
    for how, change in (("byte", flip_a_byte), ("number", change_a_number))
    if how == "byte" or not name.endswith(BINARY)
]
every_change = pytest.mark.parametrize(("kind", "name", "change"), CHANGES)


@pytest.fixture(scope="module")
def originals(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], Path]:
    """A record of each kind, made when it is asked for first."""
    made: dict[str, Path] = {}

    def original(kind: str) -> Path:
        if kind not in made:
            words, setting = KINDS[kind]
            folder = tmp_path_factory.mktemp("tampered") / kind
            done = run_cli(*words.split(), f"{setting}={folder}")
            assert done.exit_code == 0, done.err
            made[kind] = folder
        return made[kind]

    return original


@pytest.fixture
def copy(originals: Callable[[str], Path], tmp_path: Path) -> Callable[[str], Path]:
    return lambda kind: Path(shutil.copytree(originals(kind), tmp_path / kind))


def owner(record: Path, name: str) -> tuple[Path, str]:
    """The directory whose sums have the file, and its name there."""
    folder = next(place for place in (record / name).parents if (place / SUMS).exists())
    return folder, (record / name).relative_to(folder).as_posix()


def noticed(checks: list[Check], name: str) -> bool:
    """Whether something fails, or says of this file that nobody can check it."""
    named = [check for check in checks if check.verdict == "unchecked" and name in check.found]
    return any(check.verdict == "failed" for check in checks) or bool(named)


def test_the_files_are_those_that_a_run_leaves(originals: Callable[[str], Path]) -> None:
    assert sorted(OF_RUN) == files_of(originals("run"))
    assert {name for name in OF_SET if not name.startswith("jobs/")} <= set(files_of(originals("set")))


@pytest.mark.parametrize("kind", KINDS)
def test_nothing_fails_where_nothing_was_changed(kind: str, originals: Callable[[str], Path]) -> None:
    assert main([str(originals(kind))]) == 0


@every_change
def test_the_sums_notice(kind: str, name: str, change: Callable[[Path], object], copy: Callable[[str], Path]) -> None:
    folder, own = owner(copy(kind), name)
    change(folder / own)
    first = next(check for check in verify(folder) if check.verdict == "failed")
    assert own in first.found, "the file is named"


@pytest.mark.few(24)
@every_change
def test_with_sums_made_again_it_is_noticed_or_named(
    kind: str, name: str, change: Callable[[Path], object], copy: Callable[[str], Path]
) -> None:
    folder, own = owner(copy(kind), name)
    change(folder / own)
    sum_again(folder)
    checks = list(verify(folder))
    assert noticed(checks, own), checks
    assert [check.verdict for check in checks if check.question == "files"] in ([], ["ok"])
