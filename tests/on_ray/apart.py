"""A Ray cluster whose nodes have networks of their own: a head where the run is, and a raylet on each machine."""

from __future__ import annotations

import os
import re
import secrets
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from tests.support.joined import Namespaces
from tests.support.runs import alive, every_pid

PORT = 6379
STORE_BYTES = "80000000"
START_S = 90.0


class RayApart:
    """``ray start`` in every namespace; Ray's processes end with :meth:`close`."""

    def __init__(self, machines: Namespaces) -> None:
        self.machines = machines
        self.folder = Path(tempfile.mkdtemp(prefix="ray-", dir="/tmp"))  # its sockets need a short path
        self.token = self.folder / "token"
        self.token.touch(0o600)
        self.token.write_text(secrets.token_hex(32))
        self.started: list[subprocess.Popen[bytes]] = []

    def start(self) -> None:
        """The head, then the machines."""
        machines = self.machines
        driver = machines.driver
        with machines.at_driver():
            head = ("--head", f"--port={PORT}", "--num-cpus=0", "--include-dashboard=false")
            self._start(*head, f"--node-ip-address={driver}", f"--temp-dir={self.folder}")
        for number in range(len(machines.network.addresses)):
            self.start_on(number)

    def start_on(self, number: int) -> None:
        """A raylet on a machine."""
        machines = self.machines
        with machines.at(number):
            here = f"--node-ip-address={machines.network.addresses[number]}"
            self._start(f"--address={machines.driver}:{PORT}", here, "--num-cpus=2")

    def _start(self, *words: str) -> None:
        """Returns when it works: the program that has started it says so."""
        ray = [sys.executable, "-m", "ray.scripts.scripts", "start", "--block", "--disable-usage-stats"]
        log = self.folder / f"start{len(self.started)}"
        with log.open("wb") as output:
            self.started.append(
                subprocess.Popen(
                    [*ray, f"--object-store-memory={STORE_BYTES}", *words],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env={**os.environ, "RAY_AUTH_MODE": "token", "RAY_AUTH_TOKEN_PATH": str(self.token)},
                    start_new_session=True,
                )
            )
        deadline = time.monotonic() + START_S
        while b"Ray runtime started" not in (said := log.read_bytes()):
            assert self.started[-1].poll() is None, said.decode(errors="replace")
            assert time.monotonic() < deadline, said.decode(errors="replace")
            time.sleep(0.1)

    def kill_raylet(self, address: str) -> None:
        """SIGKILL for the raylet of a node, and for nothing else of it; returns when it is gone."""
        mine = re.compile(rb"\0--node_ip_address=" + re.escape(address.encode()) + rb"\0")
        (raylet,) = [pid for pid in self._processes() if _name(pid) == "raylet" and mine.search(_read(pid, "cmdline"))]
        os.kill(raylet, signal.SIGKILL)
        while alive(raylet):
            time.sleep(0.02)

    @property
    def words(self) -> tuple[str, ...]:
        """The settings of a run on two machines."""
        address = f"launcher.address={self.machines.driver}:{PORT}"
        where = (f"launcher.listen={self.machines.driver}", "launcher.nodes=2")
        return ("launcher=ray", address, *where, f"launcher.auth_token_file={self.token}")

    def _processes(self) -> list[int]:
        mark = str(self.token).encode()
        return [pid for pid in every_pid() if re.search(rb"RAY_AUTH_TOKEN_PATH=" + re.escape(mark), _environ(pid))]

    def close(self) -> None:
        """SIGKILL for all that it has started."""
        for process in self.started:
            process.kill()
            process.wait()
        while left := [pid for pid in self._processes() if _name(pid)]:
            for pid in left:
                try:
                    os.kill(pid, signal.SIGKILL)
                except ProcessLookupError:
                    continue
            time.sleep(0.1)
        shutil.rmtree(self.folder, ignore_errors=True)


def _environ(pid: int) -> bytes:
    return _read(pid, "environ")


def _name(pid: int) -> str:
    return _read(pid, "comm").decode().strip()


def _read(pid: int, name: str) -> bytes:
    try:
        return Path(f"/proc/{pid}/{name}").read_bytes()
    except OSError:
        return b""
