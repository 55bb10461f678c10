"""Do the tests notice? Plants one small bug after another and runs the tests that execute its line.

    python -m scripts.mutation.mutants                              # 600 drawn by chance
    python -m scripts.mutation.mutants runtime/core runtime/virtual --count 300
    python -m scripts.mutation.mutants --written                    # only those that people wrote
    python -m scripts.mutation.mutants --repair                     # after files were divided: bugs go with their text
    python -m scripts.mutation.mutants --report out/mutants.md      # a table, and every survivor by its name

Bugs are made by the operators of universalmutator, in Python and in C: lines are drawn by a seed, one bug of each.
``tests/mutants/`` has bugs that no operator makes, and bugs of operators that no test can tell from the original, each
with the reason.

Which tests execute which lines is recorded first (several times as long as they take; again only for files that have
changed). A bug is tested by those that execute its line, the most thorough in a second first, within limits. A bug in C
is compiled. All of that happens in copies of the working tree. Verdicts are appended to a CSV file: an interrupted call
continues where it was, and asks again only where the file or its tests have changed.
"""

from __future__ import annotations

import argparse
import contextlib
import csv
import hashlib
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import NamedTuple

from runtime.record.progress import counted
from scripts.mutation.coverage_of_tests import Coverage
from scripts.mutation.operators import ROOT, Mutant, draw, one_line, plant, read_lists, repair
from scripts.mutation.runs import FAILING, GOOD, NOT_COMPILED, SAME_CODE, Task, in_forks, run_tests

RECORDED, VERDICTS = Path("out/mutants/coverage.jsonl"), Path("out/mutants/verdicts.csv")
ROOMS = ("runtime/core", "runtime/virtual", "strategies")
TESTS = ("tests/unit", "tests/contract", "tests/paper")
LEAST_FRAC = 0.85
"""Least part of the bugs that tests could notice and must find."""
SLACK_S, SLACK = 5.0, 4.0
"""Processor seconds of a mutant's tests at most: so many, and so many times as long as they take without it."""
KILLED, SURVIVED, UNTESTED, SAME = "killed", "survived", "untested", "equivalent"
PRELOADED = ("numpy", "pandas", "scipy.stats", "scipy.optimize", "torch", "hypothesis", "hydra", "pytest", "coverage")
"""Imported once, and inherited by every fork. Nothing is computed with them here."""


class Verdict(NamedTuple):
    """A row of the CSV file; ``key`` is of all that it depends on, ``by`` the test that noticed, or why none can."""

    key: str
    file: str
    line: int
    old: str
    new: str
    verdict: str
    seconds: float
    by: str


def read_verdicts(path: Path) -> dict[str, Verdict]:
    """Verdicts of earlier calls, by key."""
    if not path.exists():
        return {}
    with path.open(newline="") as file:
        rows = [row for row in csv.reader(file) if len(row) == len(Verdict._fields)][1:]
    return {
        key: Verdict(key, name, int(line), old, new, verdict, float(seconds), by)
        for key, name, line, old, new, verdict, seconds, by in rows
    }


def verdict_of(code: int) -> str:
    """Return the verdict of a fork that ended so; an interrupt of the tests themselves counts, as a signal does."""
    if code == SAME_CODE:
        return SAME
    return KILLED if code in FAILING or code < 0 else SURVIVED if code == GOOD else UNTESTED


def report(found: Sequence[tuple[Mutant, Verdict]]) -> tuple[str, float]:
    """A table by room, the surviving mutants, and the killed part of the mutants that a test could notice."""
    rows = [
        "| room | mutants | equivalent | killed | survived | untested | killed |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    rate = 1.0
    rooms = sorted({_room(mutant.file) for mutant, _ in found})
    for room in [*rooms, "all"]:
        of_room = Counter(one.verdict for mutant, one in found if room in (_room(mutant.file), "all"))
        same = of_room.pop(SAME, 0)
        rate = of_room[KILLED] / max(1, of_room.total())
        numbers = (of_room.total() + same, same, of_room[KILLED], of_room[SURVIVED], of_room[UNTESTED])
        rows.append(f"| {room} | {' | '.join(map(str, numbers))} | {rate:.1%} |")
    for verdict, title in ((SURVIVED, "Survivors"), (UNTESTED, "No test executes"), (SAME, "Equivalent")):
        names = sorted(
            f"- `{mutant.name}`{f': {one.by}' if one.by else ''}" for mutant, one in found if one.verdict == verdict
        )
        rows += ["", f"**{title}**", "", *names] if names else []
    return "\n".join(rows), rate


def _room(file: str) -> str:
    return "/".join(Path(file).parts[:-1][:2])


class Hunt:
    """The verdicts about some mutants."""

    def __init__(self, root: Path, coverage: Coverage, path: Path, jobs: int) -> None:
        self.root, self.coverage, self.path, self.jobs = root, coverage, path, jobs
        self.known = read_verdicts(path)

    def key(self, mutant: Mutant, tests: Sequence[str]) -> str:
        """Return the key of a verdict: the file, the bug, and the tests that are to find it."""
        digest = hashlib.sha256(f"{mutant.line}\0{mutant.new}".encode())
        for name in (mutant.file, *tests):
            digest.update(name.encode() + (self.root / name).read_bytes())
        return digest.hexdigest()[:16]

    def verdicts(self, wanted: Sequence[Mutant]) -> Iterator[tuple[Mutant, Verdict]]:
        """As they are known."""
        missing: dict[int, tuple[Mutant, str]] = {}
        tasks: list[tuple[int, Task]] = []
        for number, mutant in enumerate(wanted):
            tests = self.coverage.tests_of(mutant)
            key = self.key(mutant, tests)
            if (row := self.known.get(key)) is not None:
                yield mutant, row
            elif mutant.equivalent or not tests:
                yield mutant, self._row(key, mutant, SAME if mutant.equivalent else UNTESTED, by=mutant.equivalent)
            else:
                limit_s = SLACK_S + SLACK * self.coverage.seconds(tests)
                missing[number] = mutant, key
                tasks.append((number, Task(mutant, partial(_test, tests), limit_s)))
        fresh = not self.path.exists()
        with self.path.open("a", newline="") as file:
            writer = csv.writer(file)
            if fresh:
                writer.writerow(Verdict._fields)
            for number, ended in in_forks(self.root, tasks, self.jobs):
                mutant, key = missing[number]
                row = self._row(key, mutant, verdict_of(ended.code), ended.spent_s, _by(ended.code, ended.said))
                writer.writerow(row)
                file.flush()
                yield mutant, row

    def _row(self, key: str, mutant: Mutant, verdict: str, seconds: float = 0.0, by: str = "") -> Verdict:
        return Verdict(
            key, mutant.file, mutant.line, one_line(mutant.old), one_line(mutant.new), verdict, round(seconds, 1), by
        )


def _test(tests: Sequence[str], copy: Path) -> int:
    del copy  # where the fork is already
    return run_tests(tests)


def _by(code: int, printed: str) -> str:
    """Say what noticed the bug: the test that failed first, or what ended the fork."""
    if code in (GOOD, NOT_COMPILED):
        return "it does not compile" if code else ""
    if code == SAME_CODE:
        return "it compiles to the same code"
    failed = [line for line in printed.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" - ")[0] if failed else f"signal {-code}" if code < 0 else "pytest itself"


def main(arguments: Sequence[str] | None = None) -> int:
    """Exit code 0 if enough are killed, 1 if not."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("rooms", nargs="*", default=ROOMS, help=f"folders or files; none: {' '.join(ROOMS)}")
    parser.add_argument("--count", type=int, default=600, help="mutants that are drawn")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--written", action="store_true", help="only mutants that people wrote, of all rooms")
    parser.add_argument("--jobs", type=int, default=2, help="mutants at a time")
    parser.add_argument("--tests", nargs="+", default=TESTS, help="folders of tests that may notice")
    parser.add_argument("--record", action="store_true", help="only record what tests execute")
    parser.add_argument("--least", type=float, default=LEAST_FRAC, help="part that must be killed")
    parser.add_argument("--report", type=Path, help="where the table goes, too")
    parser.add_argument("--repair", action="store_true", help="only move written ones to where their text is now")
    parser.add_argument("--no-preload", action="store_true", help="let every fork import libraries for itself")
    parser.add_argument("--root", type=Path, default=ROOT, help=argparse.SUPPRESS)
    options = parser.parse_args(arguments)
    os.environ |= {"OMP_NUM_THREADS": "1", "OPENBLAS_NUM_THREADS": "1"}
    root = options.root.resolve()
    if options.repair:
        print(*repair(root), sep="\n")
        return 0
    for name in () if options.no_preload else PRELOADED:
        with contextlib.suppress(ImportError):
            import_module(name)
    coverage = Coverage(root, root / RECORDED)
    tests = [str(one.relative_to(root)) for room in options.tests for one in sorted((root / room).rglob("test_*.py"))]
    for line in counted(coverage.record(tests, options.jobs), len(tests), "recording what tests execute"):
        print(line, flush=True)
    if options.record:
        return 0
    written = read_lists(root)
    if options.written:
        wanted = [mutant for mutant in written if not mutant.equivalent]
    else:
        same = {(one.file, plant((root / one.file).read_text(), one)): one for one in written}
        drawn = draw(root, options.rooms, options.count, options.seed)
        wanted = [same.get((one.file, plant((root / one.file).read_text(), one)), one) for one in drawn]
    hunt = Hunt(root, coverage, root / VERDICTS, options.jobs)
    found = []
    for mutant, row in counted(hunt.verdicts(wanted), len(wanted), "planting bugs"):
        found.append((mutant, row))
        if row.verdict in (SURVIVED, UNTESTED):
            print(f"{row.verdict}: {mutant.name}", flush=True)
    text, rate = report(found)
    print(text)
    if options.report:
        options.report.write_text(text + "\n")
    return 0 if rate >= options.least else 1


if __name__ == "__main__":
    sys.exit(main())
