"""The leak oracle sees what it is for: every kind of leak, planted."""

from __future__ import annotations

import os
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from tests.support.leaks import SHARED_MEMORY, Oracle
from tests.support.runs import kill_quietly, marks

pytestmark = [pytest.mark.live, pytest.mark.alone]


@contextmanager
def child(tmp_path: Path, program: str) -> Iterator[subprocess.Popen[str]]:
    """A process that carries the mark of a run, until it is killed."""
    words = [sys.executable, "-c", f"{program}\nprint('here', flush=True)\ninput()"]
    env = {**os.environ, **marks(tmp_path / "run")}
    with subprocess.Popen(words, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        assert process.stdout.readline() == "here\n"
        yield process
        process.kill()


@contextmanager
def a_process(tmp_path: Path) -> Iterator[None]:
    with child(tmp_path, ""):
        yield


@contextmanager
def a_daemon(tmp_path: Path) -> Iterator[None]:
    """Whose parent is gone, in a session of its own."""
    lines = ("import os, time", "if os.fork() == 0:", " os.setsid()", " print(os.getpid(), flush=True)", " os.close(1)")
    program = "\n".join((*lines, " time.sleep(60)"))
    words = [sys.executable, "-c", program]
    done = subprocess.run(
        words, env={**os.environ, **marks(tmp_path / "run")}, stdout=subprocess.PIPE, check=True, timeout=20
    )
    yield
    assert kill_quietly(int(done.stdout))


@contextmanager
def a_stopped_process(tmp_path: Path) -> Iterator[None]:
    with child(tmp_path, "") as process:
        process.send_signal(19)
        yield


@contextmanager
def a_port(tmp_path: Path) -> Iterator[None]:
    program = "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()"
    with child(tmp_path, program):
        yield


@contextmanager
def a_memory_file(tmp_path: Path) -> Iterator[None]:
    with child(tmp_path, "import os\nfd = os.memfd_create('stragglab-buffers')"):
        yield


@contextmanager
def shared_memory(tmp_path: Path) -> Iterator[None]:
    path = SHARED_MEMORY / f"planted-{os.getpid()}"
    path.touch()
    yield
    path.unlink()


@contextmanager
def a_temporary_file(tmp_path: Path) -> Iterator[None]:
    path = tmp_path / "run-tmp" / "anything"
    path.parent.mkdir()
    path.touch()
    yield
    path.unlink()


@contextmanager
def a_partial_file(tmp_path: Path) -> Iterator[None]:
    path = tmp_path / "run" / "figures" / ".timeline.png.x1y2"
    path.parent.mkdir(parents=True)
    path.touch()
    yield
    path.unlink()


@contextmanager
def a_listener_of_our_own(tmp_path: Path) -> Iterator[None]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (a_process, "process"),
        (a_daemon, "process"),
        (a_stopped_process, "process"),
        (a_port, "tcp 127.0.0.1:"),
        (a_memory_file, "memfd"),
        (shared_memory, "shared memory"),
        (a_temporary_file, "anything"),
        (a_partial_file, ".timeline.png"),
        (a_listener_of_our_own, "the tests' own process"),
    ],
)
def test_a_planted_leak_is_seen_and_a_removed_one_is_not(
    tmp_path: Path, plant: Callable[[Path], Iterator[None]], words: str
) -> None:
    oracle = Oracle(tmp_path)
    assert oracle.settle() == []
    with plant(tmp_path):  # type: ignore[attr-defined]
        (leak,) = oracle.settle(grace_s=0.0)
        assert words in leak
    assert oracle.settle() == []
