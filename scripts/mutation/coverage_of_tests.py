"""Which test files execute a line, and how long they take: recorded once, and again for what has changed since."""

from __future__ import annotations

import ast
import ctypes
import gzip
import hashlib
import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import NamedTuple

from scripts.mutation.operators import PLACES, Mutant
from scripts.mutation.runs import GOOD, Task, in_forks, run_tests

MOST_S = 60.0
"""Processor seconds of a test file, at most, while it is recorded; those that take longer are not used."""
MOST_OF_A_MUTANT_S, MOST_FILES = 20.0, 8
"""Processor seconds of the tests of one mutant as they were recorded, and test files; one may be longer by itself."""
NEAR = 5
"""A line of C that is not counted by itself (a part of a statement) belongs to one that many lines above it at most."""
COUNTING = ("--coverage", "-O0")


class Recorded(NamedTuple):
    """The lines that a test file executes, by file, and its time; ``key`` is of all these files as they were then."""

    test: str
    seconds: float
    lines: dict[str, list[int]]
    key: str


class Coverage:
    """The rows of a file, one for each test file; the last one counts."""

    def __init__(self, root: Path, path: Path) -> None:
        self.root, self.path = root, path
        self._digest = cache(self._digest_of)
        rows = [Recorded(*json.loads(line)) for line in path.read_text().splitlines()] if path.exists() else []
        self.rows = {row.test: row for row in rows if row.key == self._key(row.test, row.lines)}

    def _digest_of(self, name: str) -> str:
        path = self.root / name
        return hashlib.sha256(path.read_bytes()).hexdigest() if path.exists() else ""

    def _key(self, test: str, lines: dict[str, list[int]]) -> str:
        return hashlib.sha256("".join(map(self._digest, [test, *sorted(lines)])).encode()).hexdigest()[:16]

    def record(self, tests: Sequence[str], jobs: int) -> Iterator[str]:
        """Run these test files unless their present version was recorded; a line about each."""
        missing = [test for test in tests if test not in self.rows]
        for path in (one for place in PLACES for one in (self.root / place).rglob("*.*") if one.is_file()):
            self._digest(str(path.relative_to(self.root)))  # now: what is run are copies of the files
        self.path.parent.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryDirectory(prefix="coverage-") as directory, self.path.open("a") as file:
            tasks = (
                (number, Task(None, _Traced(test, Path(directory, str(number))), MOST_S))
                for number, test in enumerate(missing)
            )
            for number, ended in in_forks(self.root, tasks, jobs, COUNTING):
                test, into = missing[number], Path(directory, str(number))
                passed = ended.code == GOOD and (into / "lines.json").exists()
                lines = _lines_of(into) if passed else {}
                row = Recorded(test, ended.spent_s, lines, self._key(test, lines))
                self.rows[test] = row
                print(json.dumps(row), file=file, flush=True)
                yield f"{test}: {ended.spent_s:.1f} s" if passed else f"{test} is not used: {ended.code}\n{ended.said}"

    def tests_of(self, mutant: Mutant) -> list[str]:
        """Tests that execute it, within limits; first the test that executes most of its file per second.

        Declarations outside of functions are executed by every import: there, first the test that executes most lines
        that mention the name.
        """
        of_file = {row.test: set(row.lines[mutant.file]) for row in self.rows.values() if mutant.file in row.lines}
        places = statement(self.root / mutant.file, mutant.line, mutant.line + mutant.old.count("\n") - 1)
        found = [test for test, lines in of_file.items() if lines & places]
        if not found and not mutant.file.endswith(".py"):
            near = set(range(mutant.line - NEAR, mutant.line))
            found = [test for test, lines in of_file.items() if lines & near] or list(of_file)
        names = declared_names(self.root / mutant.file, mutant.line) if mutant.file.endswith(".py") else frozenset()
        executed = {test: self._mentions(test, names) if names else len(of_file[test]) for test in found}
        found.sort(key=lambda test: self.rows[test].seconds / (executed[test] or 0.1))
        chosen, total_s = found[:1], sum(self.rows[test].seconds for test in found[:1])
        for test in found[1:]:
            if len(chosen) < MOST_FILES and total_s + self.rows[test].seconds <= MOST_OF_A_MUTANT_S:
                chosen.append(test)
                total_s += self.rows[test].seconds
        return chosen

    def _mentions(self, test: str, names: frozenset[str]) -> int:
        """How many lines it executes that mention one of these names."""
        return sum(
            len(_find_mentions(self.root / file, names).intersection(lines))
            for file, lines in self.rows[test].lines.items()
            if file.endswith(".py")
        )

    def seconds(self, tests: Sequence[str]) -> float:
        """How long they take one after another."""
        return sum(self.rows[test].seconds for test in tests)


class _Traced:
    """Runs one test file and leaves what it executes in a folder."""

    def __init__(self, test: str, into: Path) -> None:
        self.test, self.into = test, into

    def __call__(self, copy: Path) -> int:
        """Exit code of pytest; the process ends as C programs do, which is when counts of C are written."""
        import coverage

        self.into.mkdir()
        os.environ |= {"GCOV_PREFIX": str(self.into), "GCOV_PREFIX_STRIP": "0"}
        tracer = coverage.Coverage(data_file=None, config_file=False, include=[f"{copy}/{place}/*" for place in PLACES])
        tracer.start()
        code = run_tests([self.test])
        tracer.stop()
        if code != GOOD:
            return code
        data = tracer.get_data()
        lines = {str(Path(name).relative_to(copy)): sorted(data.lines(name) or ()) for name in data.measured_files()}
        (self.into / "lines.json").write_text(json.dumps({"copy": str(copy), "lines": lines}))
        ctypes.CDLL(None).exit(code)
        return code


def _lines_of(into: Path) -> dict[str, list[int]]:
    """Return the executed lines: Python's as traced, C's as counted."""
    traced = json.loads((into / "lines.json").read_text())
    lines: dict[str, set[int]] = {name: set(found) for name, found in traced["lines"].items()}
    copy = Path(traced["copy"])
    for counts in into.rglob("*.gcda"):
        notes = Path("/", counts.relative_to(into)).with_suffix(".gcno")
        counts.with_suffix(".gcno").symlink_to(notes)
        subprocess.run(["gcov", "--json-format", counts.name], cwd=counts.parent, check=True, capture_output=True)
        for found in counts.parent.glob("*.gcov.json.gz"):
            told = json.loads(gzip.decompress(found.read_bytes()))
            found.unlink()
            for source in told["files"]:
                path = Path(told["current_working_directory"], source["file"])
                path = Path(os.path.normpath(path))
                if path.is_relative_to(copy):
                    executed = {line["line_number"] for line in source["lines"] if line["count"]}
                    lines.setdefault(str(path.relative_to(copy)), set()).update(executed)
    return {name: sorted(found) for name, found in lines.items() if found}


def statement(path: Path, first: int, last: int) -> set[int]:
    """The lines of the statement around these (of one that contains others: of its head); of C these lines."""
    spans = _spans(path) if path.suffix == ".py" else []
    around = [span for span in spans if span[0] <= first <= span[1]]
    begin, end = min(around, key=lambda span: span[1] - span[0], default=(first, last))
    return set(range(begin, max(end, last) + 1))


@cache
def _spans(path: Path) -> list[tuple[int, int]]:
    found = []
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.stmt):
            body = getattr(node, "body", None) or getattr(node, "cases", None)
            first = min((one.lineno for one in getattr(node, "decorator_list", [])), default=node.lineno)
            end = node.end_lineno or node.lineno
            if body:
                inner = body[0].pattern if isinstance(body[0], ast.match_case) else body[0]
                end = max(first, inner.lineno - 1)
            found.append((first, end))
    return found


def declared_names(path: Path, line: int) -> frozenset[str]:
    """Return the name that a line outside of functions declares: of a value or its class; else nothing."""
    names: set[str] = set()
    nodes: list[ast.stmt] = list(ast.parse(path.read_text()).body)
    for node in nodes:
        if node.lineno <= line <= (node.end_lineno or node.lineno):
            match node:
                case ast.FunctionDef() | ast.AsyncFunctionDef() if line >= node.body[0].lineno:
                    return frozenset()
                case ast.ClassDef():
                    names = {node.name}
                    nodes += node.body
                case ast.AnnAssign(target=ast.Name(name)):
                    names = {name}
                case ast.Assign(targets=[ast.Name(name)]):
                    names = {name}
    return frozenset(names)


@cache
def _find_mentions(path: Path, names: frozenset[str]) -> frozenset[int]:
    """The lines of a file, inside functions, that mention one of these names."""
    word = re.compile(rf"\b({'|'.join(map(re.escape, sorted(names)))})\b")
    inside = {
        line
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        for line in range(node.body[0].lineno, (node.end_lineno or node.lineno) + 1)
    }
    lines = enumerate(path.read_text().splitlines(), start=1)
    return frozenset(number for number, text in lines if word.search(text) and number in inside)
