"""kill -9 of whatever holds a run on emulated hosts together, at any moment: a second later nothing of it is left."""

from __future__ import annotations

import os
import random
import signal
import time
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from runtime.live.machines.doctor import missing
from tests.support.leaks import Oracle, Start, marked_processes
from tests.support.runs import LEDGER, Run, command_line, kill_quietly

SEED = int(os.environ.get("STRAGGLAB_CHAOS_SEED", "0"))
TIMES = int(os.environ.get("STRAGGLAB_CHAOS_KILLS", "10"))
"""Of each victim; 50 for a release."""
LENGTH_S = 3.0
"""From the first line of ``run.py`` to well into the training."""
PLAN = """time,duration,target,kind,magnitude
0,60,worker:0,cpu,0.5
0,60,worker:1,cpu,0.2
0.1,60,link:1,bandwidth,0.1
0.2,0.3,worker:2,pause,1
0.6,60,link:0>2,bandwidth,0.2
0.8,0.3,link:3,cut,1
1.0,60,worker:3,pause,1
"""

Find = Callable[[Run], int | None]


def outer(run: Run) -> int | None:
    return run.process.pid


def init(run: Run) -> int | None:
    return run.chain[1] if len(run.chain) > 1 else None


def inner(run: Run) -> int | None:
    return run.chain[2] if len(run.chain) > 2 else None


def agent(run: Run) -> int | None:
    found = run.agents
    return found[0] if found else None


def cpulimit(run: Run) -> int | None:
    found = [pid for pid in marked_processes() if b"cpulimit" in command_line(pid).split(b"\0")[0]]
    return random.Random(len(found)).choice(found) if found else None


VICTIMS: dict[str, Find] = {"run.py": outer, "init": init, "inner run.py": inner, "agent": agent, "cpulimit": cpulimit}


@pytest.fixture(scope="module")
def tally() -> Iterator[Counter[str]]:
    tally: Counter[str] = Counter()
    yield tally
    print(f"\nkilled as {'root' if os.geteuid() == 0 else 'an ordinary user'}, seed {SEED}: {dict(tally)}")


@pytest.fixture
def job(tmp_path: Path) -> tuple[str, ...]:
    """Hosts, quotas, links, pauses and, where there is one, cpulimit, all at once."""
    if (lack := missing("links")) is not None:
        pytest.skip(f"{lack.reason}; {lack.cure}")
    plan = tmp_path / "plan.csv"
    plan.write_text(PLAN)
    by = "auto" if missing("cpulimit") else "cpulimit"
    cores = "null" if missing("cgroup_cpu") else "4.0"  # cpulimit and duty cycles exclude each other
    hosts = ("cluster=hosts", f"cluster.hosts.cpu_cores={cores}", "cluster.hosts.real_cores_per_core=0.05")
    hosts = (*hosts, "cluster.hosts.latency_ms=1")
    length = (f"runtime.cpu_by={by}", "workload.epochs=null", "max_time_s=60", "runtime.telemetry_every_s=0.1")
    return (*LEDGER, *hosts, *length, "straggler=trace", f"straggler.path={plan}")


@pytest.mark.chaos
@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize("victim", VICTIMS)
def test_killed_and_nothing_is_left(
    start: Start, tmp_path: Path, job: tuple[str, ...], tally: Counter[str], victim: str
) -> None:
    if victim == "cpulimit" and missing("cpulimit"):
        pytest.skip("cpulimit is not installed")
    chance = random.Random(f"{SEED}/{victim}")
    for number in range(TIMES):
        oracle = Oracle(tmp_path)
        run = start(f"run{number}", *job)
        end_by_killing(run, victim, chance)
        tally[victim] += 1
        left = oracle.settle()
        assert not left, f"number {number}, left behind:\n" + "\n".join(left)
        assert "Traceback" not in run.process.communicate()[1]


def end_by_killing(run: Run, victim: str, chance: random.Random) -> None:
    pid = unregister(run, VICTIMS[victim], chance)
    if victim == "cpulimit":  # nobody's end: another takes its place
        run.await_that(lambda: cpulimit(run) not in (None, pid), "another cpulimit")
        run.process.kill()
    assert run.process.wait(20) != 0


def unregister(run: Run, find: Find, chance: random.Random) -> int:
    """SIGKILL at a random moment, or as soon after it as the victim is there; returns who it was."""
    time.sleep(chance.random() * LENGTH_S)
    deadline = time.monotonic() + 20
    while time.monotonic() < deadline and run.process.poll() is None:
        if (pid := find(run)) is not None and kill_quietly(pid, signal.SIGKILL):
            return pid
        time.sleep(0.01)
    raise AssertionError(f"nobody to kill\n{run.tail()}\n{run.process.communicate()}")
