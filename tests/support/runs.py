"""Start real runs of ``run.py`` and look at what they did; shared by the live, chaos and command-line tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

ROOT = Path(__file__).resolve().parents[2]
QUICK = ("cluster.device=null", "draw=false", "view=none", "eval_every_s=null")
LEDGER = ("workload=ledger", "backend=numpy", "straggler=none", *QUICK)
DIGITS = ("workload=digits", "backend=torch", "straggler=none", *QUICK)
CONF = ("--config-dir", str(ROOT / "tests" / "live" / "conf"))
"""Strategies, workloads and clusters of the live tests."""

MARK = "STRAGGLAB_TEST_RUN"
"""Environment variable that every process of a run inherits: whatever carries it belongs to a test."""
SESSION = "STRAGGLAB_TEST_SESSION"
"""Environment variable: process id of the tests that started it, since several may be under way on one machine."""
SECRET = bytes(range(0x40, 0x60))
"""The secret of a run that was started with ``known_secret``."""
_WITH_KNOWN_SECRET = """
import runpy, secrets, sys
real = secrets.token_bytes
secrets.token_bytes = lambda n=None: bytes(range(0x40, 0x60)) if n == 32 else real(n)
sys.argv[0], sys.path[0] = "run.py", ""
runpy.run_path("run.py", run_name="__main__")
"""

Key = tuple[str, int]


class RecordSink:
    """What a run has written so far."""

    def __init__(self, run_dir: Path) -> None:
        self.run_dir = run_dir
        self._read = 0
        self._lines: list[dict[str, Any]] = []

    def tail(self) -> str:
        """The end of the record, for messages."""
        return "\n".join(str(line)[:300] for line in self.lines()[-12:])

    def lines(self) -> list[dict[str, Any]]:
        """What the record holds so far; a torn last line is left out."""
        path = self.run_dir / "events.jsonl"
        if path.exists():
            with path.open("rb") as file:
                file.seek(self._read)
                data = file.read()
            data = data[: data.rfind(b"\n") + 1]
            self._read += len(data)
            self._lines += [json.loads(line) for line in data.splitlines()]
        return self._lines

    def notes(self, kind: str) -> list[dict[str, Any]]:
        return [line["note"] for line in self.lines() if line["kind"] == "note" and line["note"]["type"] == kind]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [line["event"] for line in self.lines() if line["kind"] == "event" and line["event"]["type"] == kind]

    @property
    def version(self) -> int:
        """Updates in the parameters now."""
        return next((line["version"] for line in reversed(self.lines()) if line["kind"] == "event"), 0)

    @property
    def finished(self) -> dict[str, Any]:
        return self.notes("Finished")[-1]

    @property
    def sha256(self) -> str:
        digest = str(self.finished["parameters_sha256"])
        assert digest, self.tail()
        return digest

    @property
    def meta(self) -> dict[str, Any]:
        meta: dict[str, Any] = json.loads((self.run_dir / "meta.json").read_bytes())
        return meta

    def parameters(self) -> np.ndarray:
        """The final parameters (``save_parameters=true``)."""
        parameters: np.ndarray = np.load(self.run_dir / "parameters.npy")
        return parameters


class Run(RecordSink):
    """One process of ``run.py`` with a run directory (or a sweep directory) and a temporary directory of its own."""

    def __init__(
        self,
        run_dir: Path,
        *overrides: str,
        env: dict[str, str] | None = None,
        sweep: bool = False,
        known_secret: bool = False,
    ) -> None:
        super().__init__(run_dir)
        self.temporary = run_dir.with_name(f"{run_dir.name}-tmp")
        self.temporary.mkdir(parents=True)
        where = [f"hydra.sweep.dir={run_dir}", "-m"] if sweep else [f"hydra.run.dir={run_dir}"]
        program = ["-c", _WITH_KNOWN_SECRET] if known_secret else ["run.py"]
        self.process = subprocess.Popen(
            [sys.executable, *program, *overrides, *where],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            env={**os.environ, **marks(run_dir), "TMPDIR": str(self.temporary), **(env or {})},
            process_group=0,
        )

    # ---- its end -----------------------------------------------------------------------------------------------------

    def wait(self, timeout_s: float = 60.0) -> tuple[int, str, str]:
        """(exit code, stdout, stderr)."""
        try:
            out, err = self.process.communicate(timeout=timeout_s)
        except subprocess.TimeoutExpired:
            self.process.kill()
            out, err = self.process.communicate()
            raise AssertionError(f"the run hangs\n{out}\n{err}\n{self.tail()}") from None
        return self.process.returncode, out, err

    def finish(self, timeout_s: float = 60.0) -> Run:
        """Wait for a run that must succeed."""
        code, out, err = self.wait(timeout_s)
        assert code == 0, f"exit code {code}\n{out}\n{err}\n{self.tail()}"
        return self

    def fail(self, timeout_s: float = 60.0) -> str:
        """Wait for a run that must fail with exit code 1 and one line; returns the line."""
        code, out, err = self.wait(timeout_s)
        lines = [line for line in err.strip().splitlines() if not line.startswith("record: ")]
        assert code == 1, f"exit code {code}\n{out}\n{err}\n{self.tail()}"
        assert len(lines) == 1, err
        return lines[0]

    def interrupt(self, timeout_s: float = 60.0) -> Run:
        """Ctrl-C, and wait for the good end."""
        self.send(signal.SIGINT)
        code, out, err = self.wait(timeout_s)
        assert code == 130, f"exit code {code}\n{out}\n{err}\n{self.tail()}"
        return self

    def send(self, number: int, *, group: bool = False) -> None:
        """To ``run.py`` alone, or to its process group as a terminal does."""
        if group:
            os.killpg(self.process.pid, number)
        else:
            self.process.send_signal(number)

    def kill(self) -> None:
        """SIGKILL, whatever state it is in."""
        if self.process.poll() is None:
            self.process.kill()
        if self.process.stdout and not self.process.stdout.closed:
            self.process.communicate()

    # ---- its processes -----------------------------------------------------------------------------------------------

    def pids(self) -> dict[Key, int]:
        """Of the newest incarnation of every task, dead or alive."""
        return {(note["role"], note["id"]): note["pid"] for note in self.notes("Launched")}

    def pid_of(self, role: str, number: int = 0) -> int:
        return self.pids()[role, number]

    @property
    def agents(self) -> list[int]:
        """Processes of the agent (one, as soon as it has been started)."""
        return [pid for pid in children_of(self.innermost) if b"runtime.live.tasks.agent" in command_line(pid)]

    @property
    def chain(self) -> list[int]:
        """The process that was started, init and the run inside; only the first before it has moved inside.

        Init is known by a signal that it alone listens to: capabilities are tried out in short-lived forks, too.
        """
        outer = self.process.pid
        for init in children_of(outer):
            if catches(init, signal.SIGUSR1):
                return [outer, init, *children_of(init)[:1]]
        return [outer]

    @property
    def innermost(self) -> int:
        """The process that does the work."""
        return self.chain[-1]

    @property
    def agent_pid(self) -> int:
        return self.agents[0]

    def unregister(self, key: Key, number: int = signal.SIGKILL) -> bool:
        """Send a signal to the newest incarnation of a task; False if that is gone already."""
        pid = self.pids().get(key)
        return pid is not None and pid in processes_of(self.run_dir, [pid]) and kill_quietly(pid, number)

    # ---- waiting for it ----------------------------------------------------------------------------------------------

    def await_that(self, reached: Callable[[], Any], what: str, timeout_s: float = 60.0) -> None:
        """Until ``reached()``; a run that ends before is a failure."""
        deadline = time.monotonic() + timeout_s
        while not reached():
            assert self.process.poll() is None or reached(), (what, self.wait(), self.tail())
            assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}\n{self.tail()}"
            time.sleep(0.02)

    def await_training(self, updates: int = 1, timeout_s: float = 60.0) -> None:
        self.await_that(lambda: self.version >= updates, f"{updates} updates", timeout_s)

    def await_progress(self, updates: int = 3, timeout_s: float = 60.0) -> None:
        """Until so many events more have come in with so many more gradients."""
        target = len(self.events("Arrived")) + updates
        self.await_that(lambda: len(self.events("Arrived")) >= target, f"{updates} gradients more", timeout_s)

    def await_events(self, kind: str, count: int = 1, timeout_s: float = 60.0) -> list[dict[str, Any]]:
        self.await_that(lambda: len(self.events(kind)) >= count, f"{count} x {kind}", timeout_s)
        return self.events(kind)

    def await_notes(self, kind: str, count: int = 1, timeout_s: float = 60.0) -> list[dict[str, Any]]:
        self.await_that(lambda: len(self.notes(kind)) >= count, f"{count} x {kind}", timeout_s)
        return self.notes(kind)

    def await_handlers(self, timeout_s: float = 60.0) -> None:
        """Until ``run.py``'s first lines have run: before, a signal meets the bare interpreter."""
        self.await_that(lambda: catches(self.process.pid, signal.SIGTERM), "signal handlers", timeout_s)


def marks(run_dir: Path) -> dict[str, str]:
    """Environment variables by which the processes of a run are found again."""
    return {MARK: str(run_dir), SESSION: str(os.getpid())}


def read_lines(run_dir: Path) -> list[dict[str, Any]]:
    """All whole lines of a record."""
    return RecordSink(run_dir).lines()


def state_of(pid: int) -> str:
    """Of a process, as its ``stat`` says it: ``T`` for one that is stopped; empty when there is none."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except (FileNotFoundError, ProcessLookupError):
        return ""


def alive(pid: int) -> bool:
    """Whether a process exists that is more than a zombie."""
    return state_of(pid) not in ("", "Z", "X")


def until(reached: Callable[[], object], what: str, timeout_s: float = 60.0) -> None:
    """Look again and again until it is so."""
    deadline = time.monotonic() + timeout_s
    while not reached():
        assert time.monotonic() < deadline, f"not within {timeout_s} s: {what}"
        time.sleep(0.005)


def catches(pid: int, number: int) -> bool:
    """Whether a process has a handler for a signal."""
    try:
        mask = re.search(r"SigCgt:\s*([0-9a-f]+)", Path(f"/proc/{pid}/status").read_text())
    except OSError:
        return False
    return mask is not None and bool(int(mask[1], 16) >> (number - 1) & 1)


def command_line(pid: int) -> bytes:
    """Words of a process, separated by zeros; nothing when it is gone."""
    try:
        return Path(f"/proc/{pid}/cmdline").read_bytes()
    except OSError:
        return b""


def children_of(pid: int) -> list[int]:
    """Processes that its main thread has started and that exist."""
    try:
        return [int(word) for word in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]
    except OSError:
        return []


def every_pid() -> list[int]:
    return [int(entry) for entry in os.listdir("/proc") if entry.isdigit()]


def processes_of(run_dir: Path, among: list[int] | None = None) -> list[int]:
    """Living processes that log below a run directory or carry its mark (``run.py`` itself included)."""
    wanted = f"{MARK}={run_dir}".encode()
    found = []
    for pid in every_pid() if among is None else among:
        try:
            out = os.readlink(f"/proc/{pid}/fd/1")
            environ = Path(f"/proc/{pid}/environ").read_bytes().split(b"\0")
        except OSError:
            continue
        if pid != os.getpid() and (out.startswith(f"{run_dir}/") or wanted in environ) and alive(pid):
            found.append(pid)
    return found


def kill_quietly(pid: int, number: int = signal.SIGKILL) -> bool:
    """Send a signal to a process that may be gone; True if it was there."""
    try:
        os.kill(pid, number)
    except ProcessLookupError:
        return False
    return True
