"""Two runs on one directory: one of them writes there, the other leaves no trace."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from runtime.errors import ConfigError
from runtime.run import claiming
from runtime.run.claiming import claim, claimed
from runtime.run.ending import JobFailed
from runtime.run.preflight import preflight
from runtime.run.standing import standing
from tests.support.cli import ROOT, refusal, run_cli

JOB = ("workload=ledger", "backend=numpy", "runtime=virtual", "workload.epochs=1", "straggler=none")
QUIET = ("view=none", "draw=false", "eval_every_s=null")
CLAIM = """
import sys, time
from pathlib import Path
from runtime.run.claiming import claim
from runtime.errors import ConfigError
try:
    claim("hydra.run.dir", Path(sys.argv[1]))
except ConfigError as error:
    print("refused", flush=True)
    raise SystemExit
print("claimed", flush=True)
sys.stdin.read()
"""


def claimer(place: Path) -> subprocess.Popen[str]:
    """A process that claims the directory, and holds it until its input ends."""
    command = [sys.executable, "-c", CLAIM, str(place)]
    return subprocess.Popen(command, cwd=ROOT, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True)


@pytest.fixture(autouse=True)
def _forget() -> None:
    claiming._held.clear()


def test_of_many_at_once_one_gets_it(tmp_path: Path) -> None:
    children = [claimer(tmp_path / "x") for _ in range(3)]
    words = sorted(child.stdout.readline() for child in children if child.stdout is not None)
    for child in children:
        child.communicate()
    assert words == ["claimed\n", "refused\n", "refused\n"]


@pytest.mark.long(like="test_a_claim_between_preflight_and_the_run_is_seen")
def test_the_refused_one_of_two_leaves_the_other_s_configuration(tmp_path: Path) -> None:
    """Hydra writes .hydra/ before the job begins, and what was refused is taken away again: not the winner's."""
    for number in range(4):
        place = tmp_path / str(number)
        command = [sys.executable, str(ROOT / "run.py"), *JOB, *QUIET, f"hydra.run.dir={place}"]
        children = [
            subprocess.Popen([*command, f"seed={seed}"], cwd=tmp_path, stderr=subprocess.PIPE, text=True)
            for seed in range(2)
        ]
        said = [child.communicate()[1] for child in children]
        codes = [child.returncode for child in children]
        assert sorted(codes) == [0, 2], said
        winner = codes.index(0)
        loser = said[1 - winner]
        assert loser.startswith(f"run.py: hydra.run.dir={place}: ")
        assert loser.endswith("choose another directory\n")
        assert loser.count("\n") == 1
        assert f"seed: {winner}\n" in (place / ".hydra" / "config.yaml").read_text()
        assert f'"seed": {winner},' in (place / "meta.json").read_text()


def test_a_claim_between_preflight_and_the_run_is_seen(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both have passed preflight; the first is writing already."""
    place = tmp_path / "x"
    holder = claimer(place)
    assert holder.stdout.readline() == "claimed\n"
    preflight([*JOB, f"hydra.run.dir={place}"])
    for words, setting in (((), "run"), (("-m", "seed=0,1"), "sweep")):
        said = refusal(*JOB, *QUIET, *words, f"hydra.{setting}.dir={place}", cwd=tmp_path)
        assert said == f"hydra.{setting}.dir={place}: another run is writing there; choose another directory"
        assert list(place.iterdir()) == []
    holder.communicate()
    done = run_cli(*JOB, *QUIET, f"hydra.run.dir={place}", cwd=tmp_path)
    assert done.exit_code == 0, "the lock ended with its process"


def test_a_record_is_seen_after_the_lock(tmp_path: Path) -> None:
    (tmp_path / "events.jsonl").touch()
    with pytest.raises(ConfigError, match="holds a record already"):
        claim("hydra.run.dir", tmp_path)
    assert not claimed(tmp_path)


def test_a_directory_that_is_taken_away_is_made_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever was refused removes its directory; a lock on that one would keep nobody off the next."""
    place, lock, taken = tmp_path / "x", claiming._lock, []

    def lock_late(descriptor: int) -> None:
        if not taken:
            os.rmdir(place)
            taken.append(True)
        lock(descriptor)

    monkeypatch.setattr(claiming, "_lock", lock_late)
    claim("hydra.run.dir", place)
    assert claimed(place)
    assert os.path.samestat(os.stat(place), os.fstat(claiming._held[place.resolve()].descriptor))


def tree_of(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


@pytest.mark.few(2)
@pytest.mark.parametrize(
    ("words", "setting"),
    [
        pytest.param(("hydra.run.dir=mine",), "hydra.run.dir", id="run"),
        pytest.param(("-m", "seed=0,1", "hydra.sweep.dir=mine"), "hydra.sweep.dir", id="sweep"),
        pytest.param(
            ("-m", "seed=0,1", "hydra.sweep.dir=new", "hydra.sweep.subdir=../mine"), "hydra.sweep.subdir", id="subdir"
        ),
        pytest.param(
            ("jobs=list", "cluster=star_servers", "backend=none", "hydra.run.dir=mine"), "hydra.run.dir", id="set"
        ),
    ],
)
def test_what_a_user_keeps_in_a_directory_stays_as_it_is(words: tuple[str, ...], setting: str, tmp_path: Path) -> None:
    mine = tmp_path / "mine"
    for name in ("checkpoints/epoch=3.ckpt", "logs/of_mine.log", "summary.json", "report.html"):
        (mine / name).parent.mkdir(parents=True, exist_ok=True)
        (mine / name).write_text("" if name.endswith(".log") else "precious")
    before = tree_of(tmp_path)
    said = refusal(*JOB, *QUIET, *words, cwd=tmp_path)
    assert said.startswith(f"{setting}=")
    assert said.endswith("is not empty (checkpoints, logs, report.html, ...); choose a new or an empty directory")
    assert tree_of(tmp_path) == before
    assert [path.name for path in tmp_path.iterdir()] == ["mine"]


@pytest.mark.long(like="test_a_claim_between_preflight_and_the_run_is_seen")
def test_a_refused_run_leaves_the_directories_that_it_found(tmp_path: Path) -> None:
    """Those above it that were missing go with it; an empty one of the user stays."""
    words = ("workload=resnet20_cifar10", "runtime=virtual", "cluster.device={base_s:0.1}")
    (tmp_path / "empty").mkdir()
    for place in ((), ("hydra.run.dir=a/b/c",), ("hydra.run.dir=empty/a/b",), ("hydra.run.dir=empty",)):
        refusal(*words, *place, cwd=tmp_path)
        assert [str(path.relative_to(tmp_path)) for path in tmp_path.rglob("*")] == ["empty"]
    (tmp_path / "link").symlink_to("empty")
    assert run_cli(*JOB, *QUIET, "hydra.run.dir=link", cwd=tmp_path).exit_code == 0, "an empty one, through a link"
    assert (tmp_path / "empty" / "events.jsonl").exists()


ENDLESS = ("workload=ledger", "backend=numpy", "runtime=virtual", "workload.epochs=null", "straggler=none", "view=none")


def replace(path: Path) -> None:
    path.rename(path.with_name("moved"))
    path.mkdir()


@pytest.mark.parametrize("go", [shutil.rmtree, replace])
def test_a_look_notices_that_it_is_gone(go: Callable[[Path], None], tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()

    def run() -> None:
        with standing(place) as watching:
            tick = watching(seen.append)
            tick(1.0)
            go(place)
            tick(2.0)

    seen: list[float] = []
    with pytest.raises(JobFailed, match=f"{place}: was removed or renamed"):
        run()
    assert seen == [1.0]


def test_whatever_fails_for_want_of_it_is_the_same_line_and_other_errors_are_themselves(tmp_path: Path) -> None:
    place = tmp_path / "run"
    place.mkdir()
    with pytest.raises(ZeroDivisionError), standing(tmp_path):
        raise ZeroDivisionError

    def run() -> None:
        with standing(place):
            place.rmdir()
            (place / "a").write_text("")

    with pytest.raises(JobFailed, match="was removed or renamed"):
        run()


def test_a_run_on_the_clock_ends_in_one_line(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    place = tmp_path / "run"
    monkeypatch.setattr("runtime.run.job.make_view", lambda *_: Taking(place))
    done = run_cli(*ENDLESS, "max_time_s=600000", "eval_every_s=null", f"hydra.run.dir={place}")
    assert (done.exit_code, done.err.count("\n")) == (1, 1), done.err
    assert f"{place}: was removed or renamed" in done.err
    assert list(tmp_path.iterdir()) == []


class Taking:
    """A view that takes the record away at its first tick."""

    def __init__(self, place: Path) -> None:
        self.place = place

    def tick(self, t: float) -> None:
        shutil.rmtree(self.place, ignore_errors=True)

    def close(self, t: float) -> None: ...


@pytest.mark.parametrize("lacks", ["memory", "permission"])
def test_a_report_that_cannot_be_made_is_one_line_and_the_record_is_whole(
    lacks: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As below ``ulimit -v``, where Matplotlib cannot be loaded."""

    def finish(run_dir: Path, *, explain: bool) -> None:
        raise MemoryError if lacks == "memory" else PermissionError(13, "Permission denied", str(run_dir / "a"))

    monkeypatch.setattr("analysis.reports.finish.finish", finish)
    place = tmp_path / "run"
    done = run_cli(*ENDLESS, "max_time_s=1", "eval_every_s=null", f"hydra.run.dir={place}")
    assert (done.exit_code, done.err.count("\n")) == (1, 1), done.err
    assert done.err.startswith("run.py: not enough memory" if lacks == "memory" else f"run.py: {place}/a: permission")
    assert (place / "SHA256SUMS").exists()
