#!/usr/bin/env python3
"""Do the tests notice? Plants one small bug after another and runs the tests that should find it.

    python scripts/mutants.py                       # all of them, two at a time
    python scripts/mutants.py core 'strategies/parts/gates/*'
    python scripts/mutants.py --list                # those that survived the last time, and why it matters
    python scripts/mutants.py --repair              # after files were divided: bugs go with the text that they change

The mutants are data, ``tests/mutants/*.yaml``: a file, a text that stands in it exactly once, what takes its place, a
sentence saying what that breaks, and the tests that should fail. What was found out is kept below ``out/`` and asked
for again only when the file or one of these tests has changed; so an interrupted call continues where it was. A module
in C is compiled again, with its bug, in a copy of the tree; other bugs are planted in Python, without compiled twins.

A library (mutmut, cosmic-ray, mutatest) makes mutants by the ten thousand by rules of syntax and decides by the whole
suite. Here a list that people wrote says what must never go unnoticed, and a rate of it can be held from one release to
the next; what is left to do is little.
"""

from __future__ import annotations

import argparse
import contextlib
import fnmatch
import json
import os
import sys
from collections import Counter
from collections.abc import Iterator, Sequence
from importlib import import_module
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from scripts.mutant_lists import ROOT, Mutant, fingerprint, read_lists, repair
from scripts.mutant_runs import KILLED, SURVIVED, UNTESTED, verdicts

KEPT = Path("out/mutants.jsonl")
LEAST_FRAC = 0.95
"""Of the mutants that are not equivalent must be killed."""
PRELOADED = ("numpy", "pandas", "scipy.stats", "scipy.optimize", "torch", "hypothesis", "hydra", "pytest")
"""Imported once, and inherited by every fork. Nothing is computed with them here."""


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
