"""Whatever is changed in a record is noticed, or the file is named as one that nobody can check.

For every file that a run leaves: a byte is flipped, or a digit is changed, and the sums are made again after that or
not. With the old sums it is they that notice; with new ones what follows from the log does.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from analysis.records.sums import SUMS
from analysis.reports.vouching import Check, files_of
from stragglab.commands.verify import main
from stragglab.vouching.record import verify
from tests.support.cli import run_cli
from tests.support.long_tests import rows_long_after
from tests.support.tampering import change_a_number, flip_a_byte, sum_again

RUN = (
    "runtime=virtual strategy=antdt_nd workload=ledger backend=numpy workload.epochs=1 straggler=transient view=none "
    "save_parameters=true cluster.num_workers=3"
)
SET = "runtime=virtual cluster=star_servers jobs=list replay.max_iterations=5 view=none"
SWEEP = "-m runtime=virtual backend=none workload.target=null strategy=bsp,asp workload.epochs=1 view=none"
JOBS = ("jobs/first/events.jsonl", "jobs/first/meta.json", "jobs/second/plan.json")
KINDS = {"run": (RUN, "hydra.run.dir"), "set": (SET, "hydra.run.dir"), "sweep": (SWEEP, "hydra.sweep.dir")}
BINARY = (".arrow", ".npy", ".parquet", ".png")


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


def owner(record: Path, name: str) -> tuple[Path, str]:
    """The directory whose sums have the file, and its name there."""
    folder = next(place for place in (record / name).parents if (place / SUMS).exists())
    return folder, (record / name).relative_to(folder).as_posix()


def noticed(checks: list[Check], name: str) -> bool:
    """Whether something fails, or says of this file that nobody can check it."""
    named = [check for check in checks if check.verdict == "unchecked" and name in check.found]
    return any(check.verdict == "failed" for check in checks) or bool(named)


def changes(record: Path, first: int = 0, every: int = 1) -> Iterator[tuple[Path, str]]:
    """Change one file of so many of a record, by a byte or a number, and put it back: its folder and name there."""
    names = [*files_of(record), *(name for name in JOBS if (record / name).exists())]
    ways = [(name, how) for name in names for how in (flip_a_byte, change_a_number)]
    for name, change in [way for way in ways if way[1] is flip_a_byte or not way[0].endswith(BINARY)][first::every]:
        folder, own = owner(record, name)
        before = {path: path.read_bytes() for path in (folder / own, folder / SUMS)}
        change(folder / own)
        yield folder, own
        for path, content in before.items():
            path.write_bytes(content)


def test_a_run_leaves_files_of_every_kind(originals: Callable[[str], Path]) -> None:
    names = {*files_of(originals("run"))}
    assert {"columns/index.json", "events.jsonl", "meta.json", "parameters.npy", "plan.json", "report.html"} <= names
    assert {"summary.json", "tables/notes.parquet", "timeline.json", "figures/bpt.png", ".hydra/config.yaml"} <= names
    assert len(names) > 40
    assert {"hosts.parquet", "cluster.jsonl", "figures/gpu_use.csv"} <= {*files_of(originals("set"))}


@pytest.mark.few(1)
@pytest.mark.parametrize("kind", KINDS)
def test_nothing_fails_where_nothing_was_changed_and_the_sums_notice_what_was(
    kind: str, originals: Callable[[str], Path]
) -> None:
    record = originals(kind)
    assert main([str(record)]) == 0
    for folder, own in changes(record):
        first = next(check for check in verify(folder) if check.verdict == "failed")
        assert own in first.found, "the file is named"


@pytest.mark.few(1)
@pytest.mark.parametrize(("first", "every"), rows_long_after([(0, 15), *((first, 6) for first in range(6))], always=1))
@pytest.mark.parametrize("kind", KINDS)
def test_with_sums_made_again_it_is_noticed_or_named(
    kind: str, first: int, every: int, originals: Callable[[str], Path]
) -> None:
    for folder, own in changes(originals(kind), first, every):
        sum_again(folder)
        checks = list(verify(folder))
        assert noticed(checks, own), (own, checks)
        assert [check.verdict for check in checks if check.question == "files"] in ([], ["ok"])
