"""Mutants as data: lists of small bugs, each a text that stands once in a file, and what takes its place."""

from __future__ import annotations

import hashlib
import json
import shlex
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import yaml

from scripts.compiling import SUFFIXES

ROOT = Path(__file__).resolve().parents[1]
LISTS = Path("tests/mutants")


@dataclass(frozen=True)
class Mutant:
    """``put`` in the place of ``find`` in ``file``; ``equivalent``: why no test can tell, or nothing.

    ``native``: it is in Python and tested with the compiled twins of other modules; else only the kernel is compiled.
    """

    area: str
    file: str
    breaks: str
    find: str
    put: str
    tests: tuple[str, ...]
    equivalent: str = ""
    native: bool = False

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
            about["native"] = group.get("native", False)
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
        digest.update(words.encode() + (root / shlex.split(words)[0].split(":")[0]).read_bytes())
    return digest.hexdigest()[:20]


def repair(root: Path) -> int:
    """Move every mutant whose text is gone to the only file that has it, once; 1 if some have no such place."""
    lost = 0
    sources = {
        str(path.relative_to(root)): path.read_text()
        for path in sorted(root.glob("*/**/*"))
        if path.suffix in (".py", *SUFFIXES)
    }
    sources = {file: text for file, text in sources.items() if not file.startswith(("tests/", "scripts/", "."))}
    for path in sorted((root / LISTS).glob("*.yaml")):
        head = [line for line in path.read_text().splitlines() if line.startswith("#")]
        groups = yaml.safe_load(path.read_text())
        moved: dict[tuple[str, bool, tuple[str, ...]], list[dict[str, Any]]] = {}
        for group in groups:
            for one in group["mutants"]:
                file, find = group["file"], one["find"]
                if sources.get(file, "").count(find) != 1:
                    places = [other for other, text in sources.items() if text.count(find) == 1]
                    lost += len(places) != 1
                    where = f"{'goes to' if len(places) == 1 else 'is in'} {', '.join(places) or 'no file'}"
                    print(f"{file}: {find!r} {where}")
                    file = places[0] if len(places) == 1 else file
                moved.setdefault((file, group.get("native", False), tuple(group["tests"])), []).append(one)
        path.write_text("\n".join([*head, *_rows(moved)]) + "\n")
    return 1 if lost else 0


def _rows(groups: dict[tuple[str, bool, tuple[str, ...]], list[dict[str, Any]]]) -> Iterator[str]:
    """The lines of a list."""
    for (file, native, tests), mutants in groups.items():
        yield from (
            f"- file: {file}",
            *["  native: true"] * native,
            "  tests:",
            *(f"    - {words}" for words in tests),
            "  mutants:",
        )
        for one in mutants:
            for number, (name, value) in enumerate(one.items()):
                said = value if name == "tests" else json.dumps(value) if "\n" in value else _quoted(value)
                yield f"    {'  ' if number else '- '}{name}: {said}"


def _quoted(text: str) -> str:
    return "'" + text.replace("'", "''") + "'"
