"""Runs pytest in forks of this process over copies of the working tree, a few at a time; see ``mutants.py``."""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections.abc import Callable, Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from runtime.native import SWITCH
from scripts.compiling import built_of, compile_module, modules_of
from scripts.mutation.operators import ROOT, Mutant, plant

POLL_S = 0.02
WALL = 20.0
"""A fork that waits for something is killed after so many times its processor seconds."""
GOOD, FAILING = 0, (1, 2, 3)
"""Exit codes of pytest: all passed; a test failed, or could not be collected or run."""
NOT_COMPILED, SAME_CODE = 98, 99
"""Our own: the C of a mutant is none, or compiles to what its original compiles to."""


class Task(NamedTuple):
    """A mutant (or the tree as it is), its fork's work over the copy, and the limit in processor seconds."""

    mutant: Mutant | None
    work: Callable[[Path], int]
    limit_s: float


class Ended(NamedTuple):
    """How a fork ended (below 0: by that signal), its processor seconds, and the end of what it printed."""

    code: int
    spent_s: float
    said: str


class Slot:
    """A copy of the working tree in which one mutant at a time is planted.

    C is compiled with these flags, if there are any; else what is compiled in the tree is taken.
    """

    def __init__(self, root: Path, copy: Path, flags: Sequence[str] = ()) -> None:
        self.copy, self._flags = copy, flags
        self._log = copy.with_suffix(".log")
        self._changed: tuple[Path, str] | None = None
        self._writes = 0
        self._originals: dict[Path, bytes] = {}
        listed = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        for module in copy.rglob("_*.c"):
            if flags:
                self._original(module)
            elif (built := built_of(root / module.relative_to(copy))).exists():
                shutil.copy2(built, built_of(module))

    def _original(self, module: Path) -> bytes:
        """Return what this module in C is compiled to without a bug."""
        if module not in self._originals:
            if said := compile_module(module, *self._flags):
                raise RuntimeError(f"{module} does not compile: {said}")
            self._originals[module] = built_of(module).read_bytes()
        return self._originals[module]

    def plant(self, mutant: Mutant | None) -> None:
        """Plant only this mutant; the fork compiles its module (:meth:`start`)."""
        if self._changed is not None:
            self._write(*self._changed)
            for module in modules_of(self._changed[0]):
                built_of(module).unlink(missing_ok=True)  # a new file: the old one may be in use
                built_of(module).write_bytes(self._original(module))
        self._changed = None
        if mutant is not None:
            path = self.copy / mutant.file
            for module in modules_of(path):
                self._original(module)
            self._changed = path, path.read_text()
            self._write(path, plant(self._changed[1], mutant))

    def _write(self, path: Path, text: str) -> None:
        """With a time of its own: compiled files are distinguished by size and whole seconds."""
        path.write_text(text)
        self._writes += 1
        os.utime(path, (1_000_000_000 + self._writes,) * 2)

    def last_output(self, lines: int = 12) -> str:
        """The end of the last tests' output."""
        return "\n".join(self._log.read_text(errors="replace").splitlines()[-lines:]) if self._log.exists() else ""

    def start(self, task: Task) -> int:
        """Plant the mutant and do the work in a fork; its process id."""
        self.plant(task.mutant)
        pid = os.fork()
        if pid == 0:
            self._child(task)
        return pid

    def _child(self, task: Task) -> None:
        code = 3
        try:
            os.setpgid(0, 0)
            os.environ |= {"PYTHONPATH": str(self.copy), SWITCH: ""}
            os.chdir(self.copy)
            os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
            for stream in (1, 2):
                os.dup2(os.open(self._log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), stream)
            if (code := self._compile()) == GOOD:
                limit_s = int(time.process_time() + task.limit_s) + 1
                resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
                _import_from(self.copy)
                code = task.work(self.copy)
        except BaseException:  # noqa: BLE001 (whatever it is, the child ends here)
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)

    def _compile(self) -> int:
        """``GOOD`` if what was changed compiles, and to other code than before; so is Python."""
        modules = [] if self._changed is None else modules_of(self._changed[0])
        other = not modules
        for module in modules:
            if said := compile_module(module, *self._flags):
                print(said, file=sys.stderr)
                return NOT_COMPILED
            other |= built_of(module).read_bytes() != self._originals[module]
        return GOOD if other else SAME_CODE


def _import_from(copy: Path) -> None:
    """From now on, imports take the copy's modules instead of the working tree's."""
    own = (ROOT, ROOT / "scripts")
    sys.path[:] = [str(copy), *(one for one in sys.path if one and Path(one).resolve() not in own)]
    copied = {"scripts", *(path.stem for path in copy.iterdir())}
    for name in [name for name in sys.modules if name.partition(".")[0] in copied]:
        del sys.modules[name]


def run_tests(tests: Sequence[str]) -> int:
    """Pytest's exit code, in this process, up to the first test that fails."""
    import pytest

    # plugins were imported before they could be rewritten: their asserts are reported less prettily
    early = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
    return int(
        pytest.main(["-x", "-q", "--no-header", "--benchmark-disable", "-p", "no:cacheprovider", *early, *tests])
    )


def in_forks(
    root: Path, tasks: Iterable[tuple[int, Task]], jobs: int, flags: Sequence[str] = ()
) -> Iterator[tuple[int, Ended]]:
    """Every task's number with its end, as they end; ``jobs`` at a time. C is compiled with these flags beforehand."""
    waiting = iter(tasks)
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        free = [Path(directory, str(number)) for number in range(jobs)]
        slots: dict[Path, Slot] = {}
        running: dict[int, tuple[int, Path, float]] = {}
        try:
            while True:
                while free and (numbered := next(waiting, None)) is not None:
                    copy = free.pop()
                    if copy not in slots:
                        slots[copy] = Slot(root, copy, flags)
                    ends_s = time.monotonic() + WALL * numbered[1].limit_s
                    running[slots[copy].start(numbered[1])] = numbered[0], copy, ends_s
                if not running:
                    return
                pid, code, spent_s = _next_of({pid: ends_s for pid, (_, _, ends_s) in running.items()})
                number, copy, _ = running.pop(pid)
                free.append(copy)
                yield number, Ended(code, spent_s, slots[copy].last_output())
        finally:
            for pid in running:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _next_of(running: dict[int, float]) -> tuple[int, int, float]:
    """The first of these children that has ended, its exit code (below 0: its signal), and its processor seconds."""
    while True:
        for pid, ends_s in running.items():
            if time.monotonic() > ends_s:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # its remaining processes
                return pid, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        time.sleep(POLL_S)
