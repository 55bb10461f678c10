"""Runs the tests of mutants, each in a fork of this process over a copy of the working tree; see ``mutants.py``."""

from __future__ import annotations

import contextlib
import os
import resource
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
import traceback
from collections import deque
from collections.abc import Collection, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from runtime.native import KERNEL, SWITCH
from scripts.compiling import built_of, compile_module, modules_of
from scripts.mutant_lists import ROOT, Mutant, fingerprint, planted

MOST_S = 120.0
"""Processor seconds of one mutant's tests, at most; a mutant that never ends is killed by it."""
SLACK_S, SLACK = 10.0, 5.0
"""So many seconds, and so many times as long as the tests take without a mutant, are enough once these are known."""
POLL_S = 0.02
KILLED, SURVIVED, UNTESTED = "killed", "survived", "untested"
GOOD, FAILING, NOT_COMPILED = 0, (1, 2, 3), 99
"""Exit codes of pytest: all passed; a test failed, or could not be collected or run."""


class Asked(NamedTuple):
    """What a mutant is tested by: these tests, with compiled twins of Python modules or without."""

    tests: tuple[str, ...]
    native: bool


class Slot:
    """A copy of the working tree in which one mutant at a time is planted."""

    def __init__(self, root: Path, copy: Path) -> None:
        self.root, self.copy = root, copy
        listed = subprocess.run(
            ["git", "ls-files", "-coz", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True
        )
        for name in filter(None, listed.stdout.split("\0")):
            if (root / name).is_file():
                (copy / name).parent.mkdir(parents=True, exist_ok=True)
                shutil.copy2(root / name, copy / name)
        self._changed: tuple[Path, str] | None = None
        self._writes = 0
        self._take_built()

    def _take_built(self) -> None:
        """Compiled modules are not in the list of files."""
        for module in self.copy.rglob("_*.c"):
            into = built_of(module)
            into.unlink(missing_ok=True)
            if (built := self.root / into.relative_to(self.copy)).exists():
                shutil.copy2(built, into)

    def plant(self, mutant: Mutant | None) -> None:
        """This one and no other; what is compiled of it is made by the tests' process (:meth:`start`)."""
        if self._changed is not None:
            self._write(*self._changed)
            if modules_of(self._changed[0]):
                self._take_built()
        self._changed = None
        if mutant is not None:
            path = self.copy / mutant.file
            self._changed = path, path.read_text()
            self._write(path, planted(self._changed[1], mutant))

    def _write(self, path: Path, text: str) -> None:
        """With a time of its own: compiled files are distinguished by size and whole seconds."""
        path.write_text(text)
        self._writes += 1
        os.utime(path, (1_000_000_000 + self._writes,) * 2)

    def said(self, lines: int = 12) -> str:
        """The end of what the last tests printed."""
        log = self.copy.with_suffix(".log")
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def start(self, asked: Asked, limit_s: float) -> int:
        """The tests in a fork, which ends after so many processor seconds; its process id."""
        changed = None if self._changed is None else self._changed[0]
        pid = os.fork()
        if pid == 0:
            stale = () if changed is None else modules_of(changed)
            # a mutant in Python would be hidden by the compiled twin of its module
            os.environ[SWITCH] = "" if asked.native or stale else KERNEL
            _child(self.root, self.copy, asked.tests, int(limit_s), stale)
        return pid


def _child(root: Path, copy: Path, tests: Sequence[str], limit_s: int, stale: Collection[Path]) -> None:
    code = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (limit_s, limit_s + 5))
        os.chdir(copy)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(os.open(copy.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), stream)
        os.environ["PYTHONPATH"] = str(copy)
        own = (root, root / "scripts", ROOT, ROOT / "scripts")
        sys.path[:] = [str(copy), *(one for one in sys.path if one and Path(one).resolve() not in own)]
        copied = {"scripts", *(path.stem for path in copy.iterdir())}
        for name in [name for name in sys.modules if name.partition(".")[0] in copied]:
            del sys.modules[name]  # whatever was imported here, those of the copy are meant
        code = _tested(tests) if _compiled(stale) else NOT_COMPILED
    except BaseException:  # noqa: BLE001 (whatever it is, the child ends here)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _compiled(modules: Collection[Path]) -> bool:
    """Whether these modules in C are compiled now."""
    said = [compile_module(module) for module in modules]
    print(*said, sep="", file=sys.stderr)
    return not any(said)


def _tested(tests: Sequence[str]) -> int:
    """Plain names in one go, then those with options of their own, until one fails."""
    import pytest

    plain = [words for words in tests if " " not in words]
    for words in [plain] * bool(plain) + [shlex.split(words) for words in tests if " " in words]:
        # plugins were imported before they could be rewritten: their asserts are reported less prettily
        early = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
        quiet = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", *early)
        if (code := int(pytest.main([*quiet, *words]))) != GOOD:
            return code
    return GOOD


def verdicts(root: Path, wanted: Sequence[Mutant], jobs: int, known: dict[str, str]) -> Iterator[tuple[Mutant, str]]:
    """The verdict of every mutant as it is known. Tests count only once they have passed without any mutant."""
    waiting: deque[tuple[Mutant | None, Asked]] = deque()
    passes: dict[Asked, bool | None] = {}
    held: dict[Asked, list[tuple[Mutant, int]]] = {}
    for mutant in wanted:
        if (verdict := known.get(fingerprint(root, mutant))) is not None:
            yield mutant, verdict
            continue
        asked = Asked(mutant.tests, mutant.native)
        if asked not in passes:
            passes[asked] = None
            waiting.append((None, asked))
        waiting.append((mutant, asked))
    for ended, asked, code, said in _ended(root, waiting, jobs):
        if ended is None:
            passes[asked] = code == GOOD
            if code != GOOD:
                print(f"these tests fail without any mutant: {' '.join(asked.tests)}\n{said}", file=sys.stderr)
        else:
            held.setdefault(asked, []).append((ended, code))
        for one, its_code in held.pop(asked, ()) if passes[asked] is not None else ():
            yield one, _verdict(its_code) if passes[asked] else UNTESTED


def _verdict(code: int) -> str:
    return SURVIVED if code == GOOD else KILLED if code in FAILING or code < 0 else UNTESTED


def _ended(
    root: Path, waiting: deque[tuple[Mutant | None, Asked]], jobs: int
) -> Iterator[tuple[Mutant | None, Asked, int, str]]:
    """Each with the exit code of its tests and the last that they said, as it ends; ``jobs`` at a time."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        slots = [Slot(root, Path(directory, str(number))) for number in range(min(jobs, len(waiting)))]
        running: dict[int, tuple[Slot, Mutant | None, Asked]] = {}
        limits_s: dict[Asked, float] = {}
        try:
            while waiting or running:
                while waiting and slots:
                    mutant, asked = waiting.popleft()
                    slot = slots.pop()
                    slot.plant(mutant)
                    running[slot.start(asked, limits_s.get(asked, MOST_S))] = slot, mutant, asked
                pid, code, spent_s = _next_of(running)
                slot, mutant, asked = running.pop(pid)
                slots.append(slot)
                if mutant is None:
                    limits_s[asked] = min(MOST_S, SLACK_S + SLACK * spent_s)
                yield mutant, asked, code, slot.said()
        finally:
            for pid in running:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _next_of(running: Collection[int]) -> tuple[int, int, float]:
    """The first of these children that has ended, its exit code (below 0: its signal), and its processor seconds."""
    while True:
        for pid in running:
            ended, status, used = os.wait4(pid, os.WNOHANG)
            if ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # what it has left
                return pid, os.waitstatus_to_exitcode(status), used.ru_utime + used.ru_stime
        time.sleep(POLL_S)
