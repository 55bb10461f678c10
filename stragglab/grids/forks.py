"""Jobs in forks of this process, several at a time, so that ``run.py``'s imports are done once and not per run."""

from __future__ import annotations

import contextlib
import os
import runpy
import signal
import sys
import time
import traceback
from collections.abc import Callable, Generator, Iterable, Sequence
from importlib import import_module
from itertools import islice
from pathlib import Path

from runtime.containment.process import die_with
from runtime.errors import FAILED
from runtime.house import ROOT, module_name

GRACE_S, POLL_S = 10.0, 0.05
NEEDED = ("hydra", "torch", "scipy.stats", "runtime.run.job", "runtime.run.preflight", "runtime.virtual.runtime")
"""Modules that a virtual run imports. They are not used before the fork: a child must not inherit a thread pool."""


def processors() -> int:
    """Number of processors that this process may use."""
    return len(os.sched_getaffinity(0)) if sys.platform == "linux" else os.cpu_count() or 1


def in_forks(
    names: Iterable[str], work: Callable[[str], int], jobs: int, meanwhile: Callable[[], None] = lambda: None
) -> Generator[tuple[str, int]]:
    """``work(name)`` for every name, each in a fork, ``jobs`` at a time; yields (name, exit code) as they end.

    A name is taken when its fork is about to begin, so that the fork inherits all that was made until then.
    ``meanwhile`` is called again and again while this process waits for them.

    Forks are sessions of their own: a Ctrl-C in the terminal reaches only this process, which then interrupts them.
    They die with this process in any case. A fork that was killed has the exit code 128 + signal.
    """
    for module in NEEDED:
        with contextlib.suppress(ImportError):  # a run that needs it will report that
            import_module(module_name(module))
    waiting, running = iter(names), dict[int, str]()
    try:
        while True:
            for name in islice(waiting, jobs - len(running)):
                running[_fork(work, name)] = name
            if not running:
                return
            pid, status = _next_of(running, meanwhile)
            code = os.waitstatus_to_exitcode(status)
            yield running.pop(pid), code if code >= 0 else 128 - code
    finally:
        _end(running)


def _next_of(running: dict[int, str], meanwhile: Callable[[], None]) -> tuple[int, int]:
    """Wait for the first of these children; other children of this process are not touched."""
    while True:
        for pid in running:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                return pid, status
        meanwhile()
        time.sleep(POLL_S)


def _fork(work: Callable[[str], int], name: str) -> int:
    """The process id of a child that does ``work`` and then exits without returning into the caller."""
    sys.stdout.flush()
    sys.stderr.flush()
    parent = os.getpid()
    if pid := os.fork():
        return pid
    code = FAILED
    try:
        die_with(parent)
        os.setsid()
        signal.signal(signal.SIGINT, signal.default_int_handler)
        code = work(name)
    except KeyboardInterrupt:
        code = 128 + signal.SIGINT
    except BaseException:  # noqa: BLE001 (nothing may return into what the parent was doing)
        traceback.print_exc()
    finally:
        with contextlib.suppress(OSError, ValueError):
            sys.stdout.flush()
            sys.stderr.flush()
        os._exit(code)


def _end(running: dict[int, str]) -> None:
    """Interrupt the remaining children, and kill them after a while.

    An interruption may come right after a child was waited for: it is not there any more.
    """
    for pid in running:
        with contextlib.suppress(ProcessLookupError):
            os.kill(pid, signal.SIGINT)
    deadline = time.monotonic() + GRACE_S
    for pid in running:
        with contextlib.suppress(ChildProcessError):
            while os.waitpid(pid, os.WNOHANG)[0] == 0:
                if time.monotonic() > deadline:
                    os.kill(pid, signal.SIGKILL)
                    os.waitpid(pid, 0)
                    break
                time.sleep(POLL_S)


def run_here(words: Sequence[str], log: Path) -> int:
    """Call ``run.py`` with these arguments in this process, which must then exit; its output goes to ``log``."""
    with log.open("wb") as output:
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        os.dup2(output.fileno(), 1)
        os.dup2(output.fileno(), 2)
    sys.stdout, sys.stderr = (os.fdopen(number, "w", closefd=False) for number in (1, 2))
    sys.argv = [str(ROOT / "run.py"), *words]
    try:
        runpy.run_path(sys.argv[0], run_name="__main__")
    except SystemExit as ended:
        return ended.code if isinstance(ended.code, int) else FAILED if ended.code else 0
    return 0
