"""What every program says of what it cannot use: one line on standard error, and an exit code."""

from __future__ import annotations

import errno
import os

import pytest

from runtime.errors import FAILED, REFUSED, ConfigError, no_memory, no_process, print_error
from runtime.live.control.tasks import death
from runtime.live.tasks.agent import Agent
from runtime.live.tasks.task_end import tell_end


@pytest.mark.parametrize(
    ("problem", "where", "line"),
    [
        (ConfigError("seed=-1: must be 0 or more"), "", "p.py: seed=-1: must be 0 or more"),
        (ValueError("two\n  lines"), "", "p.py: two lines"),
        (FileNotFoundError(2, "No such file or directory", "a/b"), "out", "p.py: a/b: no such file or directory"),
        (PermissionError(13, "Permission denied"), "out", "p.py: out: permission denied"),
        (OSError("the disc is gone"), "out", "p.py: the disc is gone"),
    ],
)
def test_it_is_one_line_that_names_the_file(
    problem: Exception, where: str, line: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert print_error("p.py", problem, where=where) == REFUSED == 2
    out, err = capsys.readouterr()
    assert (out, err) == ("", f"{line}\n")


NO_PROCESS = BlockingIOError(errno.EAGAIN, os.strerror(errno.EAGAIN))


@pytest.mark.parametrize("problem", [NO_PROCESS, RuntimeError("can't start new thread")])
def test_too_few_processes_are_told_with_their_cure(problem: Exception, capsys: pytest.CaptureFixture[str]) -> None:
    assert print_error("p.py", problem, FAILED) == 1
    why = "no new thread" if isinstance(problem, RuntimeError) else "resource temporarily unavailable"
    assert capsys.readouterr().err == (
        f"p.py: cannot start another process or thread: {why}; allow more of them (ulimit -u, pids.max), or use fewer\n"
    )
    assert tell_end(problem) == 1
    assert capsys.readouterr().err.startswith(f"cannot start another process or thread: {why}; ")
    assert not no_process(RuntimeError("something else"))


def test_an_agent_that_cannot_fork_says_so_and_lives_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """It died of the error, and nothing was reported."""

    def refuse() -> int:
        raise NO_PROCESS

    agent, said = object.__new__(Agent), []
    agent.tell = said.append  # type: ignore[method-assign,assignment]
    before = len(os.listdir("/proc/self/fd"))
    monkeypatch.setattr(os, "fork", refuse)
    agent._launch("worker", 3, 1)
    (exited,) = said
    assert (exited.role, exited.id, exited.incarnation, exited.exit_code) == ("worker", 3, 1, 1)
    assert "ulimit -u" in exited.last_line
    assert not death(exited.exit_code, exited.signal, exited.last_line).retryable
    assert len(os.listdir("/proc/self/fd")) == before


@pytest.mark.parametrize(
    ("problem", "why"),
    [
        (MemoryError(), ""),
        (MemoryError("Unable to allocate 8 GiB"), " (Unable to allocate 8 GiB)"),
        (ImportError("libx.so: failed to map segment from shared object"), None),
        (ImportError("liby.so: cannot allocate memory in static TLS block"), None),
    ],
)
def test_memory_that_is_not_there(problem: Exception, why: str | None, capsys: pytest.CaptureFixture[str]) -> None:
    why = f" ({problem})" if why is None else why
    assert print_error("p.py", problem, FAILED) == FAILED
    assert capsys.readouterr().err == (
        f"p.py: not enough memory{why}; allow more of it (ulimit -v, the limit of a container), or use less\n"
    )


def test_another_import_error_is_no_lack_of_memory() -> None:
    assert not no_memory(ImportError("No module named 'x'"))
    assert not no_memory(ValueError("failed to map segment"))
