"""A disk that fills up ends a job with its reason in the record, one line and code 74; what was written reads back.

``ulimit -f`` (the kernel's EFBIG) stands for a disk without room, since it needs no disk: for the last file alone, a
part of the line fits and the next write fails, just as on a full one.
"""

from __future__ import annotations

import errno
import os
import resource
import sys
from collections import deque
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from analysis.records.integrity import integrity
from analysis.records.load import load_run
from runtime.errors import NO_SPACE, is_full, print_error
from runtime.live.control.tasks import death
from runtime.live.tasks.task_end import tell_end
from runtime.record.checkpoint import publish_array
from runtime.record.columns import GROUP_ROWS, INTEGERS, IterationWriter
from runtime.record.recorder import Recorder, RecordWriteError
from tests.support.cli import Finished, run_cli
from tests.support.runs import read_lines
from tests.unit.live.test_supervisor import started

NO_ROOM = OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
RUN = ("runtime=virtual", "workload=ledger", "backend=numpy", "workload.epochs=4", "straggler=none", "view=none")


def limited(program: Callable[[], None], limit_bytes: int) -> int:
    """Run it in a child whose files may grow to so much; returns its exit code."""
    pid = os.fork()
    if pid == 0:
        try:
            resource.setrlimit(resource.RLIMIT_FSIZE, (limit_bytes, limit_bytes))
            program()
            os._exit(0)
        except BaseException as error:  # noqa: BLE001 (the child ends here)
            os.write(2, f"{type(error).__name__}: {error}\n".encode())
            os._exit(1)
    return os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1])


def run_py(limit_kib: int, *words: str) -> Finished:
    """``run.py`` where files may grow to so much: a child inherits the limit, as after ``ulimit -f``."""
    ours = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit_kib * 1024, ours[1]))
    try:
        return run_cli(*words)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, ours)


@pytest.mark.parametrize("limit_bytes", [4_000, 10_240, 200_000])
def test_the_line_that_does_not_fit_is_an_error_and_last_words_still_do(tmp_path: Path, limit_bytes: int) -> None:
    def fill() -> None:
        recorder = Recorder(tmp_path)
        with pytest.raises(RecordWriteError) as caught:
            deque(recorder.note(0.0, "Checkpointed", id=number, text="x" * 70) for number in range(100_000))
        assert caught.value.errno == errno.EFBIG
        assert is_full(caught.value)
        recorder.note(1.0, "Finished", status="disk_full")
        recorder.close()

    assert limited(fill, limit_bytes) == 0
    lines = read_lines(tmp_path)
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    assert lines[-1]["note"] == {"type": "Finished", "status": "disk_full"}
    assert (tmp_path / "events.jsonl").read_bytes().endswith(b"}\n")
    assert limit_bytes / 2 < (tmp_path / "events.jsonl").stat().st_size <= limit_bytes


@pytest.mark.parametrize("fails", [lambda fd, data: os.pwrite(fd, data[:10], 0) and 10, None])
def test_half_a_line_is_cut_off_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, fails: Any) -> None:
    """The kernel calls it a success when a part fits; the next write is refused."""
    recorder = Recorder(tmp_path)
    recorder.note(0.0, "Checkpointed", id=0)

    def refuse(fd: int, data: bytes) -> int:
        raise NO_ROOM

    monkeypatch.setattr(os, "write", fails or refuse)
    with pytest.raises(RecordWriteError, match=os.strerror(errno.ENOSPC)):
        recorder.note(0.0, "Checkpointed", id=1)
    recorder.note(0.0, "Checkpointed", id=2)  # no room yet: left out in silence
    monkeypatch.undo()
    recorder.note(1.0, "Finished", status="disk_full")
    recorder.close()
    assert [line["note"].get("id", "end") for line in read_lines(tmp_path)] == [0, "end"]


def block(rows: int) -> dict[str, Any]:
    from runtime.record.columns import FLOATS

    noise = np.random.default_rng(0)  # 6 or 7 bytes each: the others are next to nothing
    columns = {name: np.arange(rows) for name in INTEGERS} | {name: noise.random(rows) for name in FLOATS}
    return {**columns, "t": np.arange(rows) / 2}


def test_rows_are_given_up_group_by_group(tmp_path: Path) -> None:
    """What is there has an end, so it can be read."""
    import pandas as pd

    told_of: list[int] = []

    def fill() -> None:
        writer = IterationWriter(tmp_path, lambda: told_of.append(1))
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)) as caught:
            deque(writer.block(block(GROUP_ROWS)) for _ in range(5))
        assert is_full(caught.value)
        assert told_of == [1]
        writer.close()

    before, after = 18 * 8, 70  # bytes of a compressed row, which must find room uncompressed
    assert limited(fill, int(GROUP_ROWS * (before + 1.5 * after))) == 0
    rows = pd.read_parquet(tmp_path / "iterations.parquet")
    assert len(rows) == 2 * GROUP_ROWS
    assert rows["t"].tolist()[:3] == [0.0, 0.5, 1.0]


def test_an_array_is_stored_as_numpy_stores_it_or_not_at_all(tmp_path: Path) -> None:
    array = np.arange(5000, dtype=np.float32)
    publish_array(tmp_path / "ours.npy", array)
    np.save(tmp_path / "theirs.npy", array)
    assert (tmp_path / "ours.npy").read_bytes() == (tmp_path / "theirs.npy").read_bytes()

    def fill() -> None:
        with pytest.raises(OSError, match=os.strerror(errno.EFBIG)) as caught:
            publish_array(tmp_path / "full.npy", array)
        assert is_full(caught.value)

    assert limited(fill, 10_000) == 0
    assert sorted(path.name for path in tmp_path.iterdir()) == ["ours.npy", "theirs.npy"]


@pytest.mark.parametrize("number", [errno.ENOSPC, errno.EDQUOT, errno.EFBIG])
def test_every_program_says_it_alike(number: int, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error("p.py", OSError(number, os.strerror(number)), where="out") == NO_SPACE == 74
    assert capsys.readouterr().err == f"p.py: out: {os.strerror(number).lower()}; make room and start again\n"


def test_a_task_tells_by_its_exit_code_what_its_log_may_have_no_room_for(
    capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    assert tell_end(NO_ROOM) == 74
    assert capsys.readouterr().err == "a file: no space left on device; make room and start again\n"
    assert tell_end(ValueError("no data")) == 1
    assert capsys.readouterr().err.splitlines()[-1] == "ValueError: no data"
    assert tell_end(RuntimeError("CUDA out of memory. Tried to allocate 2 MiB")) == 75, "nor a GPU"
    with open("/dev/full", "w") as log:
        monkeypatch.setattr(sys, "stderr", log)
        assert tell_end(NO_ROOM) == 74
        monkeypatch.undo()
        with pytest.raises(OSError, match="No space"):
            log.close()


def test_a_task_without_room_ends_the_run_as_a_full_disk() -> None:
    how = death(74, 0, "")
    assert (how.retryable, how.full) == (False, True)
    assert "free some space" in how.reason
    assert not death(1, 0, "OSError").full
    world = started()
    world.die(("server", 1), number=0, code=74, words="x.ckpt: no space left on device")
    assert world.heard[-1] == ("out_of_space", "server 1 crashed: x.ckpt: no space left on device")


@pytest.mark.parametrize("draw", [pytest.param("false", marks=pytest.mark.long), "true"])
def test_a_run_ends_with_its_reason_in_the_record(tmp_path: Path, draw: str) -> None:
    ended = run_py(16, *RUN, f"draw={draw}", f"hydra.run.dir={tmp_path / 'run'}")
    line, where = ended.err.strip().splitlines()
    assert (ended.exit_code, where) == (74, f"record: {tmp_path / 'run'}"), ended.err
    assert line.endswith(f"{tmp_path / 'run' / 'events.jsonl'}: file too large; make room and start again")
    run = load_run(tmp_path / "run")
    assert (run.status, run.torn) == ("disk_full", False)
    assert run.finished.reason in line
    assert len(run.tables.iterations) > 0
    assert integrity(run).problems == ()
