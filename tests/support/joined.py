"""Machines for runs whose agents join: in network namespaces (root), or all on loopback; and the agents on them."""

from __future__ import annotations

import os
import secrets
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import pytest

from runtime.containment.linux import bring_up_loopback
from runtime.live.hosts import netns
from runtime.live.hosts.network import Network
from runtime.live.joining.token import new_token
from runtime.live.machines.doctor import missing
from tests.support.leaks import Start
from tests.support.runs import ROOT, Run, marks

PORT = 7077
_EAGER = {"short_window_s": 1, "long_window_s": 2, "decide_every_s": 0.5, "cooldown_s": 2, "min_records": 2}
EAGER_ND = (
    "straggler=persistent",
    "straggler.targets=[worker:1]",
    "straggler.sleep_s=0.3",
    "straggler.sleep_iters=null",
    "strategy=antdt_nd",
    *(f"strategy.{name}={value}" for name, value in (_EAGER | {"report_iters": 1, "warmup_iters": 1}).items()),
    "scheduler.pending_s=0.5",
)
"""A job in which AntDT-ND restarts worker 1 within seconds."""
_BRAIN: dict[str, object] = {
    "cores_total": 8,
    "cores_max": 2,
    "worker_cores": 1,
    "first_server_cores": 1,
    "server_cores": 1,
}
_BRAIN |= {"workers_max": 4, "sample_s": 2, "sample_steps": 1000, "adjust_every_s": 2, "ps_interval_s": 4}
_BRAIN |= {"min_interval_s": 1, "decide_every_s": 0.25, "launch_s": 60, "drain_s": 2, "limit_memory": "false"}
GROWING_BRAIN = (
    "cluster.num_workers=1",
    "topology.num_servers=1",
    "checkpoint_every_s=null",
    "strategy=dlrover",
    *(f"strategy.{name}={value}" for name, value in _BRAIN.items()),
)
"""A job that DLRover starts with one worker, and that has up to four within seconds."""


class Loopback:
    """All machines are this one."""

    driver = "127.0.0.1"

    def __init__(self) -> None:
        with socket.socket() as sock:
            sock.bind((self.driver, 0))
            self.port: int = sock.getsockname()[1]

    def at_driver(self) -> AbstractContextManager[None]:
        """Processes that are started inside are the driver's."""
        return nullcontext()

    def at(self, number: int) -> AbstractContextManager[None]:
        """Processes that are started inside are on one machine."""
        return nullcontext()

    def close(self) -> None:
        """Nothing to take away."""


class Namespaces:
    """Machines 0, 1, ... and the driver's, each with a network of its own, at one switch."""

    port = PORT

    def __init__(self, count: int = 2) -> None:
        self._lab = netns.new_namespace()
        with netns.inside(self._lab):
            self.network = Network(secrets.token_hex(8), [(number, None) for number in range(count)])
        self.driver = self.network.lab_address
        for machine in (self._lab, *self.network.namespace_fds):
            with netns.inside(machine):
                bring_up_loopback()  # a machine reaches its own address

    def at_driver(self) -> AbstractContextManager[None]:
        return netns.inside(self._lab)

    def at(self, number: int) -> AbstractContextManager[None]:
        return netns.inside(self.network.namespace_fds[number])

    def cut(self, number: int, on: bool) -> None:
        with netns.inside(self._lab):
            self.network.cut(number, on)

    def close(self) -> None:
        with netns.inside(self._lab):
            self.network.close()
        os.close(self._lab)


Machines = Loopback | Namespaces


@contextmanager
def namespaces(count: int = 2) -> Iterator[Namespaces]:
    """So many machines; skips the test where links cannot be made."""
    if os.geteuid() != 0:
        pytest.skip("networks for other programs need root")
    if (lack := missing("links")) is not None:
        pytest.skip(f"{lack.reason}; {lack.cure}")
    machines = Namespaces(count)
    try:
        yield machines
    finally:
        machines.close()


class Agent:
    """One process of ``python -m runtime.live.agent``; its output is a file, so that nobody has to read it."""

    def __init__(
        self, directory: Path, *words: str, cwd: Path = ROOT, prepare: Callable[[], None] | None = None
    ) -> None:
        directory.mkdir(parents=True)
        self.directory = directory
        self.output = directory / "output"
        with self.output.open("wb") as output:
            self.process = subprocess.Popen(
                [sys.executable, "-m", "runtime.live.agent", *words],
                cwd=cwd,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=output,
                env={**os.environ, **marks(directory), "PYTHONPATH": str(cwd)},
                preexec_fn=prepare,
                process_group=0,
            )

    @property
    def lines(self) -> list[str]:
        return self.output.read_text().strip().splitlines()

    def wait(self, timeout_s: float = 180.0) -> int:
        """Its exit code, when it has ended."""
        try:
            return self.process.wait(timeout_s)
        except subprocess.TimeoutExpired:
            self.kill()
            raise AssertionError(f"the agent hangs: {self.lines}") from None

    def kill(self) -> None:
        """SIGKILL, to the process that was started."""
        if self.process.poll() is None:
            self.process.send_signal(signal.SIGKILL)
            self.process.wait()


class Cluster:
    """A token, machines, and what is started on them."""

    def __init__(self, directory: Path, machines: Machines, start: Start) -> None:
        self.directory, self.machines, self._start = directory, machines, start
        self.token = directory / "token"
        new_token(self.token)
        self.agents: list[Agent] = []

    def agent(self, number: int, *words: str, cwd: Path = ROOT, prepare: Callable[[], None] | None = None) -> Agent:
        join = ("--join", f"{self.machines.driver}:{self.machines.port}")
        token = () if "--token-file" in words else ("--token-file", str(self.token))
        patience = () if "--wait-s" in words else ("--wait-s", "180")
        with self.machines.at(number):
            place = self.directory / f"agent{len(self.agents)}"
            self.agents.append(Agent(place, *join, *token, *patience, *words, cwd=cwd, prepare=prepare))
        return self.agents[-1]

    def run(self, name: str, *overrides: str, **more: Any) -> Run:
        """Start a run that waits for two agents."""
        join = ("launcher=join", f"launcher.listen={self.machines.driver}", f"launcher.port={self.machines.port}")
        with self.machines.at_driver():
            return self._start(
                name, *join, f"launcher.token_file={self.token}", "launcher.wait_s=180", *overrides, **more
            )

    def close(self) -> None:
        """End agents that a failed test has left."""
        for agent in self.agents:
            agent.kill()


def rejoining(shared: Path) -> tuple[str, ...]:
    """Settings with which a job waits for another agent, and goes back to a checkpoint in a directory of all."""
    return "launcher.rejoin_s=120", f"launcher.shared_dir={shared}", "checkpoint_every_s=0.5"


def errors(run: Run, exit_code: int, patience_s: float = 180.0) -> list[str]:
    """What a run says that must end so, without what it says while it waits."""
    code, out, err = run.wait(patience_s)
    assert code == exit_code, (code, out, err, run.tail())
    waiting = ("run.py: launcher=join: ", "run.py: launcher=ray: ", "record: ")
    return [line for line in err.strip().splitlines() if not line.startswith(waiting)]


@pytest.fixture
def loopback(tmp_path: Path, start: Start) -> Iterator[Cluster]:
    cluster = Cluster(tmp_path, Loopback(), start)
    yield cluster
    cluster.close()


@pytest.fixture
def shared(tmp_path: Path) -> Path:
    """A directory that all machines see."""
    made = tmp_path / "shared"
    made.mkdir()
    return made


@pytest.fixture
def apart(tmp_path: Path, start: Start) -> Iterator[Cluster]:
    with namespaces() as machines:
        cluster = Cluster(tmp_path, machines, start)
        yield cluster
        cluster.close()
