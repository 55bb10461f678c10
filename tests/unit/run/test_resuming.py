"""The same command again: finished jobs of an interrupted sweep are kept, the others run."""

from __future__ import annotations

import json
import os
import shutil
import signal
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pytest

from runtime.api import Outcome
from runtime.run.launch import failures, progress
from runtime.run.resuming import _are_apart
from runtime.run.sweep_note import FILE, Ended, begin, content_of, read
from runtime.virtual.control.session import VirtualSession
from tests.support.cli import Finished, run_cli

JOBS = ("0_bsp_none_seed0", "1_bsp_none_seed1", "2_asp_none_seed0", "3_asp_none_seed1")
SWEEP = (
    *("runtime=virtual", "workload=ledger", "backend=numpy", "workload.epochs=1", "straggler=none", "view=none"),
    *("draw=false", "-m", "strategy=bsp,asp", "seed=0,1"),
)


def sweep(cwd: Path, *more: str) -> Finished:
    return run_cli(*SWEEP, *more, cwd=cwd)


def interrupt(directory: Path, *, after: int) -> None:
    """Leave what a sweep leaves that is killed in the job after so many: a torn line, and a part of a record."""
    lines = (directory / FILE).read_bytes().splitlines(keepends=True)
    (directory / FILE).write_bytes(b"".join(lines[: after + 1]) + lines[after + 1][:20])
    unfinished = directory / JOBS[after] / "events.jsonl"
    unfinished.write_bytes(unfinished.read_bytes()[:300])


def change(directory: Path, job: str, **fields: str) -> None:
    """Of a job in the note of a sweep."""
    lines = [json.loads(line) for line in (directory / FILE).read_bytes().split(b"\n")[:-1]]
    changed = [line | (fields if line.get("job") == job else {}) for line in lines]
    (directory / FILE).write_text("".join(json.dumps(line) + "\n" for line in changed))


def events(directory: Path) -> list[bytes]:
    return [(directory / job / "events.jsonl").read_bytes() for job in JOBS]


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A finished sweep below ``runs``."""
    cwd = tmp_path_factory.mktemp("whole")
    done = sweep(cwd)
    assert done.exit_code == 0, done.err
    assert "continues in" not in done.err
    [directory] = (cwd / "runs").iterdir()
    return directory


@pytest.fixture
def copied(whole: Path, tmp_path: Path) -> Path:
    """A copy of it that the test may change."""
    return Path(shutil.copytree(whole, tmp_path / "runs" / whole.name, copy_function=shutil.copyfile))


def test_it_goes_on_where_it_was_interrupted(whole: Path, copied: Path, tmp_path: Path) -> None:
    """In the newest of its directories. A job whose settings were others runs again."""
    interrupt(copied, after=3)
    older = tmp_path / "runs" / "0000-00-00"
    shutil.copytree(copied, older)
    change(copied, JOBS[0], content_sha256="0" * 64)
    kept = copied / JOBS[1] / "meta.json"
    kept.write_text(kept.read_text() + "\n")  # to be recognised
    done = sweep(tmp_path)
    assert done.exit_code == 0, done.err
    assert sorted((tmp_path / "runs").iterdir()) == [older, copied]
    assert (older / FILE).read_bytes().count(b"\n") == 4, "nothing was added to it"
    assert "2 of 4 jobs are there" in done.err
    assert "run 3 of 4, about" in done.err
    assert kept.read_text().endswith("\n\n")
    assert events(copied) == events(whole)
    assert sorted(read(copied).ended) == sorted(JOBS)  # type: ignore[union-attr]


@pytest.mark.long(like="test_it_goes_on_where_it_was_interrupted")
def test_a_signal_that_finds_a_job_done_ends_the_sweep_and_keeps_the_job(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    end = VirtualSession.end

    def interrupted(session: VirtualSession) -> Outcome:
        os.kill(os.getpid(), signal.SIGTERM)
        return end(session)

    with monkeypatch.context() as patch:
        patch.setattr(VirtualSession, "end", interrupted)
        stopped = sweep(tmp_path)
    assert stopped.exit_code == 128 + signal.SIGTERM
    [directory] = (tmp_path / "runs").iterdir()
    [record] = directory.glob("*/events.jsonl")
    assert json.loads(record.read_bytes().splitlines()[-1])["note"]["status"] == "done"
    kept = read(directory)
    assert {job: one.exit_code for job, one in kept.ended.items()} == {JOBS[0]: 0}
    assert "1 of 4 jobs are there" in sweep(tmp_path).err


def test_in_a_directory_of_the_user_s_choice_nothing_is_run_twice(whole: Path, copied: Path, tmp_path: Path) -> None:
    """But what was removed; and without the first line of its note records of others are left alone."""
    done = sweep(tmp_path, f"hydra.sweep.dir={copied}")
    assert done.exit_code == 0, done.err
    assert "4 of 4 jobs are there" in done.err
    assert "Launching 0 jobs" in done.out
    shutil.rmtree(copied / JOBS[1])
    done = sweep(tmp_path, f"hydra.sweep.dir={copied}")
    assert done.exit_code == 0, done.err
    assert "3 of 4 jobs are there" in done.err
    assert events(copied) == events(whole)
    lines = (copied / FILE).read_bytes().split(b"\n")
    (copied / FILE).write_bytes(b"\n".join([b"\xff", *lines[2:]]))
    done = sweep(tmp_path, f"hydra.sweep.dir={copied}")
    assert done.exit_code == 2
    assert "holds a record already; choose another directory" in done.err


@pytest.mark.long(like="test_in_a_directory_of_the_user_s_choice_nothing_is_run_twice")
@pytest.mark.few(2)
@pytest.mark.parametrize("damage", [b"\xff", b"[" * 100_000, b"", b'{"job": 3}'])
@pytest.mark.parametrize("line", [1, 0])
def test_what_cannot_be_read_of_its_note_runs_again(
    line: int, damage: bytes, whole: Path, copied: Path, tmp_path: Path
) -> None:
    """Of a job; and without the first line nobody knows the code, so nothing is kept."""
    lines = (copied / FILE).read_bytes().split(b"\n")
    lines[line] = lines[line][:10] + damage + lines[line][10:] if damage == b"\xff" else damage
    (copied / FILE).write_bytes(b"\n".join(lines))
    before = [(copied / job / "meta.json").stat().st_mtime_ns for job in JOBS]
    done = sweep(tmp_path, f"hydra.sweep.dir={copied}")
    assert done.exit_code == 0, done.err
    assert f"sweep.jsonl cannot be read in line {line + 1}, and what it said there is run again" in done.err
    again = [(copied / job / "meta.json").stat().st_mtime_ns != at for job, at in zip(JOBS, before, strict=True)]
    assert again == ([True, False, False, False] if line else [True] * 4)
    assert events(copied) == events(whole)


@pytest.mark.long(like="test_it_goes_on_where_it_was_interrupted")
@pytest.mark.parametrize("more", [("resume=never",), ("max_time_s=60",)])
def test_another_command_does_not_go_on(more: tuple[str, ...], copied: Path, tmp_path: Path) -> None:
    """Nor does who wants none of it where the same words, this one included, have left something unfinished."""
    interrupt(copied, after=2)
    before, note = events(copied), read(copied)
    if more == ("resume=never",):
        head = msgspec.structs.replace(note.head, settings=(*note.head.settings, *more))
        begin(copied, head, list(note.ended.values()))
    done = sweep(tmp_path, *more)
    assert done.exit_code == 0, done.err
    assert len(list((tmp_path / "runs").iterdir())) == 2
    refused = sweep(tmp_path, *more, f"hydra.sweep.dir={copied}")
    assert (refused.exit_code, refused.err.count("\n")) == (2, 1)
    assert "holds a record already" in refused.err
    assert events(copied) == before


@pytest.mark.long(like="test_only_jobs_with_directories_of_their_own_are_apart")
def test_records_of_other_code_are_not_mixed_in(copied: Path, tmp_path: Path) -> None:
    interrupt(copied, after=2)
    note = copied / FILE
    note.write_bytes(note.read_bytes().replace(read(copied).head.code_sha256.encode(), b"0" * 64))  # type: ignore[union-attr]
    refused = sweep(tmp_path, f"hydra.sweep.dir={copied}")
    assert (refused.exit_code, refused.err.count("\n")) == (2, 1)
    assert "other code" in refused.err
    assert sweep(tmp_path).exit_code == 0
    assert len(list((tmp_path / "runs").iterdir())) == 2


@pytest.mark.long(like="test_only_jobs_with_directories_of_their_own_are_apart")
@pytest.mark.parametrize("subdir", [".", "..", "same", "${hydra:runtime.cwd}/mine"])
def test_where_jobs_share_directories_nothing_is_removed(subdir: str, tmp_path: Path) -> None:
    """They could lie in one another, or be of another owner."""
    words = (*SWEEP, "seed=0", f"hydra.sweep.subdir={subdir}", "hydra.sweep.dir=runs/mine")
    (tmp_path / "runs" / "mine").mkdir(parents=True)
    (tmp_path / "mine").mkdir()
    for place in ("runs/mine", "runs", "mine"):
        (tmp_path / place / "precious.txt").write_text("keep")
    run_cli(*words, cwd=tmp_path)
    run_cli(*words, cwd=tmp_path)
    assert all((tmp_path / place / "precious.txt").exists() for place in ("runs/mine", "runs", "mine"))


@pytest.mark.parametrize(
    ("places", "apart"),
    [
        (("a", "b/c"), True),
        (("a", "a/b"), False),
        (("a", "./a"), False),
        (("../a", "../b"), False),
        (("/x/a", "/x/b"), False),
        (("a", "."), False),
    ],
)
def test_only_jobs_with_directories_of_their_own_are_apart(places: tuple[str, ...], apart: bool) -> None:
    parts: list[Any] = [SimpleNamespace(job=place) for place in places]
    assert _are_apart(parts) == apart


def ended(job: str, took_s: float, exit_code: int = 0) -> Ended:
    return Ended(job=job, content_sha256="", exit_code=exit_code, took_s=took_s)


def test_the_time_that_is_left_follows_from_the_mean() -> None:
    assert progress(20, []) == "run 1 of 20"
    assert progress(20, [ended("a", 10.0), ended("b", 30.0)]) == "run 3 of 20, about 6 min left"
    assert progress(3, [ended("a", 1.2), ended("b", 1.2)]) == "run 3 of 3, about 2 s left"
    assert failures([ended("a", 1.0)]) == []
    assert failures([ended("a", 1.0), ended("b", 1.0, 1)])[1:] == ["  b: exit code 1"]


def test_the_content_of_a_job_is_its_settings_its_inputs_and_its_own_code(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "mine_too.py").write_text("class Mine: pass\n")
    monkeypatch.syspath_prepend(tmp_path)
    __import__("mine_too")
    raw = {"strategy": {"_target_": "mine_too.Mine"}, "view": "none", "seed": 1}
    first = content_of(raw, ["a"])
    assert content_of(json.loads(json.dumps({**raw, "view": "plain"})), ["a"]) == first
    assert len({first, content_of({**raw, "seed": 2}, ["a"]), content_of(raw, ["b"]), content_of(raw, ["a", "b"])}) == 4
    (tmp_path / "mine_too.py").write_text("class Mine: 'Changed.'\n")
    assert content_of(raw, ["a"]) != first
