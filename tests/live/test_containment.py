"""A run in namespaces of its own: whoever of it is killed, nothing outlives it, and nothing of it shows outside."""

from __future__ import annotations

import os
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.containment import Isolation, obstacle
from runtime.containment.pids import outer_pid
from tests.support.leaks import marked_processes
from tests.support.other_users import NOBODY, programs
from tests.support.runs import alive, catches, children_of, state_of, until

pytestmark = pytest.mark.live

BODY = """
import os, subprocess, sys, time
from runtime.containment import Isolation, contain
from runtime.containment.pids import outer_pid
contain(Isolation.{isolation})
{body}
"""
DAEMON = """
if os.fork() == 0:
    os.setsid()
    if os.fork() == 0:
        open("/dev/shm/planted", "w").close()
        time.sleep(60)
    os._exit(0)
os.wait()
print(outer_pid(os.getpid()), flush=True)
time.sleep(60)
"""

Contained = Callable[..., "subprocess.Popen[str]"]


@pytest.fixture
def contained(tmp_path: Path, leak_oracle: None) -> Iterator[Contained]:
    """Starts a program that moves inside and then does what the test says."""
    if words := obstacle(Isolation.NETWORK):
        pytest.skip(f"no namespaces here: {words}")
    with programs(tmp_path) as start:

        def begin(body: str, isolation: str = "NETWORK", user: int | None = None) -> subprocess.Popen[str]:
            return start("-c", BODY.format(isolation=isolation, body=body), user=user)

        yield begin


def first_line(process: subprocess.Popen[str]) -> str:
    assert process.stdout is not None
    line = process.stdout.readline()
    assert line, process.communicate()[1]
    return line.strip()


USERS = pytest.mark.parametrize("user", [None, NOBODY], ids=["as we are", "as an ordinary user"])


@USERS
def test_it_lives_in_a_world_of_its_own(contained: Contained, user: int | None) -> None:
    body = 'print(len([p for p in os.listdir("/proc") if p.isdigit()]), os.listdir("/dev/shm"))'
    process = contained(f'subprocess.run(["ls", "/proc/1"], check=True, stdout=2)\n{body}', user=user)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert out.split()[0] == "2", "init and itself"
    assert "[]" in out


@USERS
@pytest.mark.parametrize("victim", ["outer", "init"])
def test_killed_and_gone(contained: Contained, user: int | None, victim: str) -> None:
    """A daemon that has detached itself goes, too, and what it put into shared memory."""
    process = contained(DAEMON, user=user)
    first_line(process)
    init = children_of(process.pid)[0]
    assert len(marked_processes()) >= 4
    os.kill(process.pid if victim == "outer" else init, signal.SIGKILL)
    until(lambda: not marked_processes(), "their end", 1.0)
    assert not Path("/dev/shm/planted").exists()
    if victim == "init":
        assert process.wait(5) == 128 + signal.SIGKILL


def test_recorded_process_ids_are_those_outside_and_its_exit_code_comes_out(contained: Contained) -> None:
    process = contained(DAEMON)
    assert int(first_line(process)) == children_of(children_of(process.pid)[0])[0]
    assert outer_pid(os.getpid()) == os.getpid(), "outside there is nothing to translate"
    assert contained("sys.exit(7)").wait(10) == 7
    assert contained("os.kill(os.getpid(), 9)").wait(10) == 128 + 9


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_comes_through_once(contained: Contained, number: signal.Signals) -> None:
    process = contained(
        f"""
import signal
heard = []
signal.signal({int(number)}, lambda *_: heard.append(1))
print("ready", flush=True)
while not heard: time.sleep(0.01)
time.sleep(0.3)
sys.exit(10 + len(heard))
"""
    )
    first_line(process)
    process.send_signal(number)
    assert process.wait(10) == 11


def test_it_stands_still_with_the_outer_process(contained: Contained) -> None:
    process = contained('print("ready", flush=True)\ntime.sleep(60)')
    first_line(process)
    run = children_of(children_of(process.pid)[0])[0]
    until(lambda: catches(process.pid, signal.SIGTSTP), "a handler", 5.0)
    process.send_signal(signal.SIGTSTP)
    until(lambda: state_of(run) == state_of(process.pid) == "T", "the stop of both", 5.0)
    process.send_signal(signal.SIGCONT)
    until(lambda: state_of(run) != "T", "the end of the stop", 5.0)
    assert alive(run)
