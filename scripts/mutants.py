#!/usr/bin/env python3
"""Do the tests notice? Plants one small bug after another and runs the tests that should find it.

    python scripts/mutants.py                       # all of them, two at a time (a quarter of an hour on two cores)
    python scripts/mutants.py core 'strategies/gates/*'
    python scripts/mutants.py --list                # those that survived the last time, and why it matters
    python scripts/mutants.py --repair              # after files were divided: bugs go with the text that they change

The mutants are data, ``tests/mutants/*.yaml``: a file, a text that stands in it exactly once, what takes its place, a
sentence saying what that breaks, and the tests that should fail. What was found out is kept below ``out/`` and asked
for again only when the file or one of these tests has changed; so an interrupted call goes on where it was.

A library (mutmut, cosmic-ray, mutatest) makes mutants by the ten thousand by rules of syntax and decides by the whole
suite. Here a list that people wrote says what must never go unnoticed, and a rate of it can be held from one release to
the next; what is left to do is little.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import hashlib
import json
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
from collections import Counter, deque
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from typing import Any

import yaml

ROOT = Path(__file__).resolve().parents[1]
LISTS = Path("tests/mutants")
KEPT = Path("out/mutants.jsonl")
LEAST_FRAC = 0.95
"""Of the mutants that are not equivalent must be killed."""
LIMIT_S = 120.0
"""Processor seconds of one mutant's tests; a mutant that never ends is killed by it."""
POLL_S = 0.02
PRELOADED = ("numpy", "pandas", "scipy.stats", "scipy.optimize", "torch", "hypothesis", "hydra", "pytest")
"""Imported once, and inherited by every fork. Nothing is computed with them here."""
KILLED, SURVIVED, UNTESTED = "killed", "survived", "untested"
GOOD, FAILING = 0, (1, 2, 3)
"""Exit codes of pytest: all passed; a test failed, or could not be collected or run."""


@dataclass(frozen=True)
class Mutant:
    """``put`` in the place of ``find`` in ``file``; ``equivalent``: why no test can tell, or nothing."""

    area: str
    file: str
    breaks: str
    find: str
    put: str
    tests: tuple[str, ...]
    equivalent: str = ""

    @property
    def name(self) -> str:
        """For messages: the file and the line's text."""
        return f"{self.file}: {' '.join(self.find.split())}  ->  {' '.join(self.put.split()) or 'nothing'}"


def read_lists(root: Path = ROOT) -> list[Mutant]:
    """All mutants, in the order of the files."""
    found = []
    for path in sorted((root / LISTS).glob("*.yaml")):
        for group in yaml.safe_load(path.read_text()):
            about = {"area": path.stem, "file": group["file"], "tests": tuple(group["tests"])}
            found += [
                Mutant(**(about | one | {"tests": tuple(one.get("tests", about["tests"]))})) for one in group["mutants"]
            ]
    return found


def planted(text: str, mutant: Mutant) -> str:
    """The file's text with the bug in it; raises ``ValueError`` unless its place is there exactly once."""
    if (times := text.count(mutant.find)) != 1:
        raise ValueError(f"{mutant.file}: {mutant.find!r} stands there {times} times; it must be once")
    return text.replace(mutant.find, mutant.put)


def fingerprint(root: Path, mutant: Mutant) -> str:
    """Of what a verdict depends on most: the file, the bug, and the tests that are to find it."""
    digest = hashlib.sha256((root / mutant.file).read_bytes())
    digest.update(f"{mutant.find}\0{mutant.put}".encode())
    for words in mutant.tests:
        digest.update(words.encode() + (root / shlex.split(words)[0].partition("::")[0]).read_bytes())
    return digest.hexdigest()[:20]


def repair(root: Path) -> int:
    """Move every mutant whose text is gone to the only file that has it, once; 1 if some have no such place."""
    lost = 0
    sources = {str(path.relative_to(root)): path.read_text() for path in sorted(root.glob("*/**/*.py"))}
    sources = {file: text for file, text in sources.items() if not file.startswith(("tests/", "scripts/", "."))}
    for path in sorted((root / LISTS).glob("*.yaml")):
        head = [line for line in path.read_text().splitlines() if line.startswith("#")]
        groups = yaml.safe_load(path.read_text())
        moved: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]] = {}
        for group in groups:
            for one in group["mutants"]:
                file, find = group["file"], one["find"]
                if sources.get(file, "").count(find) != 1:
                    places = [other for other, text in sources.items() if text.count(find) == 1]
                    lost += len(places) != 1
                    where = f"{'goes to' if len(places) == 1 else 'is in'} {', '.join(places) or 'no file'}"
                    print(f"{file}: {find!r} {where}")
                    file = places[0] if len(places) == 1 else file
                moved.setdefault((file, tuple(group["tests"])), []).append(one)
        path.write_text("\n".join([*head, *_rows(moved)]) + "\n")
    return 1 if lost else 0


def _rows(groups: dict[tuple[str, tuple[str, ...]], list[dict[str, Any]]]) -> Iterator[str]:
    """The lines of a list."""
    for (file, tests), mutants in groups.items():
        yield from (f"- file: {file}", "  tests:", *(f"    - {words}" for words in tests), "  mutants:")
        for one in mutants:
            for number, (name, value) in enumerate(one.items()):
                said = value if name == "tests" else json.dumps(value) if "\n" in value else _quoted(value)
                yield f"    {'  ' if number else '- '}{name}: {said}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"


# ---- one fork: one mutant, or none -----------------------------------------------------------------------------------


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

    def plant(self, mutant: Mutant | None) -> None:
        """This one and no other."""
        if self._changed is not None:
            self._write(*self._changed)
        self._changed = None
        if mutant is not None:
            path = self.copy / mutant.file
            self._changed = path, path.read_text()
            self._write(path, planted(self._changed[1], mutant))

    def _write(self, path: Path, text: str) -> None:
        """With a time of its own: compiled files are told apart by size and whole seconds."""
        path.write_text(text)
        self._writes += 1
        os.utime(path, (1_000_000_000 + self._writes,) * 2)

    def said(self, lines: int = 12) -> str:
        """The end of what the last tests printed."""
        log = self.copy.with_suffix(".log")
        return "\n".join(log.read_text(errors="replace").splitlines()[-lines:]) if log.exists() else ""

    def start(self, tests: Sequence[str]) -> int:
        """The tests in a fork; its process id."""
        pid = os.fork()
        if pid == 0:
            _child(self.root, self.copy, tests)
        return pid


def _child(root: Path, copy: Path, tests: Sequence[str]) -> None:
    code = 3
    try:
        os.setsid()
        resource.setrlimit(resource.RLIMIT_CPU, (int(LIMIT_S), int(LIMIT_S) + 5))
        os.chdir(copy)
        os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
        for stream in (1, 2):
            os.dup2(os.open(copy.with_suffix(".log"), os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND), stream)
        os.environ["PYTHONPATH"] = str(copy)
        own = (root, root / "scripts", ROOT, ROOT / "scripts")
        sys.path[:] = [str(copy), *(one for one in sys.path if one and Path(one).resolve() not in own)]
        code = _tested(tests)
    except BaseException:  # noqa: BLE001 (whatever it is, the child ends here)
        traceback.print_exc()
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
        os._exit(code)


def _tested(tests: Sequence[str]) -> int:
    """Plain names in one go, then those with options of their own, until one fails."""
    import pytest

    plain = [words for words in tests if " " not in words]
    for words in [plain] * bool(plain) + [shlex.split(words) for words in tests if " " in words]:
        # plugins were imported before they could be rewritten: their asserts are told less prettily
        early = ("-W", "ignore::pytest.PytestAssertRewriteWarning")
        quiet = ("-x", "-q", "--no-header", "-p", "no:cacheprovider", *early)
        if (code := int(pytest.main([*quiet, *words]))) != GOOD:
            return code
    return GOOD


# ---- many of them ----------------------------------------------------------------------------------------------------


def verdicts(root: Path, wanted: Sequence[Mutant], jobs: int, known: dict[str, str]) -> Iterator[tuple[Mutant, str]]:
    """The verdict of every mutant as it is known. Tests count only once they have passed without any mutant."""
    waiting: deque[tuple[Mutant | None, tuple[str, ...]]] = deque()
    passes: dict[tuple[str, ...], bool | None] = {}
    held: dict[tuple[str, ...], list[tuple[Mutant, int]]] = {}
    for mutant in wanted:
        if (verdict := known.get(fingerprint(root, mutant))) is not None:
            yield mutant, verdict
            continue
        if mutant.tests not in passes:
            passes[mutant.tests] = None
            waiting.append((None, mutant.tests))
        waiting.append((mutant, mutant.tests))
    for mutant, tests, code, said in _ended(root, waiting, jobs):
        if mutant is None:
            passes[tests] = code == GOOD
            if code != GOOD:
                print(f"these tests fail without any mutant: {' '.join(tests)}\n{said}", file=sys.stderr)
        else:
            held.setdefault(tests, []).append((mutant, code))
        for one, its_code in held.pop(tests, ()) if passes[tests] is not None else ():
            yield one, _verdict(its_code) if passes[tests] else UNTESTED


def _verdict(code: int) -> str:
    return SURVIVED if code == GOOD else KILLED if code in FAILING or code < 0 else UNTESTED


def _ended(
    root: Path, waiting: deque[tuple[Mutant | None, tuple[str, ...]]], jobs: int
) -> Iterator[tuple[Mutant | None, tuple[str, ...], int, str]]:
    """Each with the exit code of its tests and the last that they said, as it ends; ``jobs`` at a time."""
    with tempfile.TemporaryDirectory(prefix="mutants-") as directory:
        slots = [Slot(root, Path(directory, str(number))) for number in range(min(jobs, len(waiting)))]
        running: dict[int, tuple[Slot, Mutant | None, tuple[str, ...]]] = {}
        try:
            while waiting or running:
                while waiting and slots:
                    mutant, tests = waiting.popleft()
                    slot = slots.pop()
                    slot.plant(mutant)
                    running[slot.start(tests)] = slot, mutant, tests
                pid, code = _next_of(running)
                slot, mutant, tests = running.pop(pid)
                slots.append(slot)
                yield mutant, tests, code, slot.said()
        finally:
            for pid in running:
                os.killpg(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _next_of(running: Collection[int]) -> tuple[int, int]:
    """The first of these children that has ended, and its exit code (below zero: the signal that ended it)."""
    while True:
        for pid in running:
            ended, status = os.waitpid(pid, os.WNOHANG)
            if ended:
                with contextlib.suppress(ProcessLookupError, PermissionError):
                    os.killpg(pid, signal.SIGKILL)  # what it has left
                return pid, os.waitstatus_to_exitcode(status)
        time.sleep(POLL_S)


def kept(path: Path) -> dict[str, str]:
    """Verdicts of earlier calls, by fingerprint."""
    if not path.exists():
        return {}
    rows = (json.loads(line) for line in path.read_text().splitlines() if line.endswith("}"))
    return {row["key"]: row["verdict"] for row in rows}


def report(found: Sequence[tuple[Mutant, str]]) -> tuple[str, float]:
    """A table by area, and the part of all that are not equivalent that was killed."""
    rows = ["area           mutants  equivalent  killed  survived  rate"]
    total = Counter[str]()
    for area in [*dict.fromkeys(mutant.area for mutant, _ in found), "all"]:
        mine = [(mutant, verdict) for mutant, verdict in found if area in (mutant.area, "all")]
        same = sum(bool(mutant.equivalent) for mutant, _ in mine)
        total = Counter(verdict for mutant, verdict in mine if not mutant.equivalent)
        rate = total[KILLED] / max(1, total.total())
        rows.append(f"{area:14} {len(mine):7} {same:11} {total[KILLED]:7} {total[SURVIVED]:9}  {rate:6.1%}")
    return "\n".join(rows), total[KILLED] / max(1, total.total())


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if enough are killed, 1 if not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("chosen", nargs="*", help="areas (names of the lists) or patterns of files; none: all")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--least", type=float, default=LEAST_FRAC, help="part that must be killed")
    parser.add_argument("--fresh", action="store_true", help="forget what was found out before")
    parser.add_argument("--list", action="store_true", help="run nothing, tell what is known")
    parser.add_argument("--repair", action="store_true", help="move mutants whose text stands in another file now")
    parser.add_argument("--no-preload", action="store_true", help="let every fork import libraries for itself")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = options.root.resolve()
    if options.repair:
        return repair(root)
    wanted = [
        one
        for one in read_lists(root)
        if not options.chosen or any(one.area == name or fnmatch.fnmatch(one.file, name) for name in options.chosen)
    ]
    results = root / KEPT
    if options.fresh:
        results.unlink(missing_ok=True)
    known = kept(results)
    if options.list:
        found = [(one, known.get(fingerprint(root, one), UNTESTED)) for one in wanted]
    else:
        for name in () if options.no_preload else PRELOADED:
            with contextlib.suppress(ImportError):
                import_module(name)
        found = list(_run(root, wanted, options.jobs, known, results))
    for mutant, verdict in found:
        if verdict != KILLED and not mutant.equivalent:
            print(f"{verdict}: {mutant.name}\n    {mutant.breaks}")
        elif verdict == KILLED and mutant.equivalent:
            print(f"killed, though it is said to be equivalent: {mutant.name}")
    text, rate = report(found)
    print(text)
    return 0 if rate >= options.least else 1


def _run(
    root: Path, wanted: Sequence[Mutant], jobs: int, known: dict[str, str], results: Path
) -> Iterator[tuple[Mutant, str]]:
    results.parent.mkdir(exist_ok=True)
    keys = {mutant: fingerprint(root, mutant) for mutant in wanted}  # now: what is tested are copies of the files
    with results.open("a") as file:
        for number, (mutant, verdict) in enumerate(verdicts(root, wanted, jobs, known), start=1):
            key = keys[mutant]
            if verdict != UNTESTED and key not in known:
                file.write(json.dumps({"key": key, "verdict": verdict, "mutant": mutant.name}) + "\n")
                file.flush()
            print(
                f"{number}/{len(wanted)} {verdict:8} {mutant.file}", end="\n" if verdict != KILLED else "\r", flush=True
            )
            yield mutant, verdict


if __name__ == "__main__":
    sys.exit(main())
