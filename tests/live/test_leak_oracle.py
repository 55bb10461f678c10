"""The leak oracle sees what it is for: every kind of leak, planted."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

import pytest

from tests.support.leaks import SHARED_MEMORY, Oracle
from tests.support.runs import ROOT, alive, kill_quietly, marks, until

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
def a_file(path: Path) -> Iterator[None]:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.touch()
    yield
    path.unlink()


@contextmanager
def a_listener_of_our_own(tmp_path: Path) -> Iterator[None]:
    with socket.socket() as sock:
        sock.bind(("127.0.0.1", 0))
        sock.listen()
        yield


A_PORT = "import socket\ns = socket.socket()\ns.bind(('127.0.0.1', 0))\ns.listen()"
A_MEMORY_FILE = "import os\nfd = os.memfd_create('stragglab-buffers')"


@pytest.mark.parametrize(
    ("plant", "words"),
    [
        (lambda folder: child(folder, ""), "process"),
        (a_daemon, "process"),
        (a_stopped_process, "process"),
        (lambda folder: child(folder, A_PORT), "tcp 127.0.0.1:"),
        (lambda folder: child(folder, A_MEMORY_FILE), "memfd"),
        (lambda _: a_file(SHARED_MEMORY / f"planted-{os.getpid()}"), "shared memory"),
        (lambda folder: a_file(folder / "run-tmp" / "anything"), "anything"),
        (lambda folder: a_file(folder / "run" / "figures" / ".timeline.png.x1y2"), ".timeline.png"),
        (a_listener_of_our_own, "the tests' own process"),
    ],
)
def test_a_planted_leak_is_seen_and_a_removed_one_is_not(
    tmp_path: Path, plant: Callable[[Path], AbstractContextManager[None]], words: str
) -> None:
    oracle = Oracle(tmp_path)
    assert oracle.settle() == []
    with plant(tmp_path):
        (leak,) = oracle.settle(grace_s=0.0)
        assert words in leak
    assert oracle.settle() == []


TEST = """
import os, signal, subprocess, sys, time

signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell's background jobs ignore it,
signal.signal(signal.SIGHUP, signal.SIG_DFL)  # and those of nohup this one

def test_it():
    far = subprocess.Popen(["sleep", "1000"], start_new_session=True)
    program = "import signal, time; signal.signal(signal.SIGTERM, signal.SIG_IGN); time.sleep(1000)"
    deaf = subprocess.Popen([sys.executable, "-c", program])
    print(far.pid, deaf.pid, file=sys.__stdout__, flush=True)
    time.sleep(1000)
"""


@pytest.mark.parametrize(
    "number",
    [
        signal.SIGKILL,
        *(pytest.param(one, marks=pytest.mark.long) for one in (signal.SIGTERM, signal.SIGINT, signal.SIGHUP)),
    ],
)
def test_what_tests_have_started_ends(number: signal.Signals, tmp_path: Path) -> None:
    file = tmp_path / "test_it.py"
    file.write_text(TEST)
    plugins = ("-p", "no:cacheprovider", "-p", "tests.support.reaper")
    words = ["-m", "pytest", "-q", "-s", *plugins, "-c", os.devnull, "--rootdir", str(tmp_path)]
    with subprocess.Popen(
        [sys.executable, *words, str(file)], cwd=ROOT, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True
    ) as session:
        assert session.stdout is not None
        pids = [int(pid) for pid in session.stdout.readline().split()]
        assert len(pids) == 2
        assert all(map(alive, pids))
        session.send_signal(number)
    until(lambda: not any(map(alive, pids)), "their end")
