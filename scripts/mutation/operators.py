"""Mutants: drawn from those that universalmutator's operators make, or written by people (``tests/mutants/*.yaml``)."""

from __future__ import annotations

import ast
import builtins
import contextlib
import hashlib
import io
import warnings
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import yaml

from scripts.compiling import SUFFIXES, is_c

ROOT = Path(__file__).resolve().parents[2]
LISTS = Path("tests/mutants")
PLACES = ("analysis", "injectors", "predictors", "reading", "runtime", "strategies", "stragglab", "workloads")
"""Folders whose files may have mutants."""
UNTOUCHED = (
    r"^\s*from .* import ",
    r"^\s*(async )?def ",
    r"^\s*@(final|override)$",
    r"^static .*\{$",
    r"^\s*_Static_assert",
)
"""Lines without mutants: any test finds an error there, or only the type checker does."""


@dataclass(frozen=True)
class Mutant:
    """``new`` in the place of ``old``, which is whole lines from ``line`` on, counted from 1.

    ``breaks``: the broken behaviour, if people wrote it; ``equivalent``: why no test can tell it from the original.
    """

    file: str
    line: int
    old: str
    new: str
    breaks: str = ""
    equivalent: str = ""

    @property
    def name(self) -> str:
        """For messages: the place and the texts."""
        return f"{self.file}:{self.line}: {one_line(self.old)}  ->  {one_line(self.new)}"


def one_line(text: str) -> str:
    """A text, on one line."""
    return " ".join(text.split()) or "nothing"


def plant(text: str, mutant: Mutant) -> str:
    """The file's text with the bug in it; raises ``ValueError`` unless its lines are there."""
    lines = text.splitlines(keepends=True)
    before = "".join(lines[: mutant.line - 1])
    if not text.startswith(mutant.old, len(before)):
        raise ValueError(f"{mutant.name}: these lines are not there")
    return before + mutant.new + text[len(before) + len(mutant.old) :]


def make_written(file: str, text: str, find: str, put: str, **about: str) -> Mutant:
    """The mutant that has ``put`` in the place of ``find``, which must stand in the file's text once."""
    if (times := text.count(find)) != 1:
        raise ValueError(f"{file}: {find!r} stands there {times} times; it must be once")
    at = text.index(find)
    begin = text.rfind("\n", 0, at) + 1
    end = (text.find("\n", at + len(find) - 1) + 1) or len(text)
    old, shift = text[begin:end], at - begin
    return Mutant(file, text.count("\n", 0, at) + 1, old, old[:shift] + put + old[shift + len(find) :], **about)


def read_lists(root: Path = ROOT) -> list[Mutant]:
    """Mutants that people wrote, in the order of the files."""
    found = []
    for path in sorted((root / LISTS).glob("*.yaml")):
        for file, mutants in (yaml.safe_load(path.read_text()) or {}).items():
            text = (root / file).read_text()
            found += [make_written(file, text, **one) for one in mutants]
    return found


def repair(root: Path) -> Iterator[str]:
    """Move what people wrote to the only file that has its text now, and drop what has no such file; a line of each."""
    paths = [path for place in PLACES for path in root.joinpath(place).rglob("*") if path.suffix in (".py", *SUFFIXES)]
    texts = {str(path.relative_to(root)): path.read_text() for path in sorted(paths)}
    for path in sorted((root / LISTS).glob("*.yaml")):
        moved: dict[str, list[dict[str, str]]] = {}
        for file, mutants in (yaml.safe_load(path.read_text()) or {}).items():
            for one in mutants:
                places = [other for other, text in texts.items() if text.count(one["find"]) == 1]
                if file not in places:
                    yield f"{file}: {one['find']!r} {f'goes to {places[0]}' if len(places) == 1 else 'is dropped'}"
                for place in [file] if file in places else places if len(places) == 1 else []:
                    moved.setdefault(place, []).append(one)
        head = "".join(line for line in path.read_text().splitlines(keepends=True) if line.startswith("#"))
        path.write_text(head + yaml.safe_dump(moved, sort_keys=False, allow_unicode=True, width=1000))


def tree_of(text: str) -> str | None:
    """The syntax tree of a text in Python without docstrings and annotations, which mypy checks; None if it is none."""
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            tree = ast.parse(text)
    except (SyntaxError, ValueError):
        return None
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            node.returns = None
        elif isinstance(node, ast.arg):
            node.annotation = None
        elif isinstance(node, ast.AnnAssign):
            node.annotation = ast.Name("")
        if isinstance(body := getattr(node, "body", None), list):
            body[:] = [one for one in body if not _does_nothing(one)]
    return None if _leaves_no_loop(tree) else ast.dump(tree)


def _does_nothing(node: ast.stmt) -> bool:
    return isinstance(node, ast.Pass) or (isinstance(node, ast.Expr) and isinstance(node.value, ast.Constant))


def _leaves_no_loop(node: ast.AST, inside: bool = False) -> bool:
    """Whether there is a ``break`` or a ``continue`` outside of any loop."""
    match node:
        case ast.Break() | ast.Continue():
            return not inside
        case ast.For() | ast.AsyncFor() | ast.While():
            inside = True
        case ast.FunctionDef() | ast.AsyncFunctionDef() | ast.ClassDef():
            inside = False
    return any(
        _leaves_no_loop(child, inside) for child in ast.iter_child_nodes(node) if not isinstance(child, ast.expr)
    )


def names_of(text: str) -> set[str]:
    """All names and attributes in a text in Python."""
    nodes = list(ast.walk(ast.parse(text)))
    return {node.id for node in nodes if isinstance(node, ast.Name)} | {
        node.attr for node in nodes if isinstance(node, ast.Attribute)
    }


class Operators:
    """The operators' bugs for a file, by line."""

    def __init__(self, root: Path, file: str) -> None:
        from universalmutator.mutator import mutants_regexp

        self.path, self.file = root / file, file
        self.text = self.path.read_text()
        self.lines = self.text.splitlines(keepends=True)
        rules = ["universal.rules", *(["python.rules"] if file.endswith(".py") else ["c_like.rules", "c.rules"])]
        self._made: dict[int, list[str]] = {}
        with contextlib.redirect_stdout(io.StringIO()):
            for line, new, _, _ in mutants_regexp(self.lines, rules, ignorePatterns=UNTOUCHED):
                self._made.setdefault(line, []).append(new)
        python = file.endswith(".py")
        self._tree = tree_of(self.text) if python else None
        self._names = {*dir(builtins), *names_of(self.text)} if python else set()

    def of_line(self, line: int) -> Iterator[Mutant]:
        """In the operators' order, whether they mean anything or not."""
        for new in self._made.get(line, ()):
            yield Mutant(self.file, line, self.lines[line - 1], new)

    def is_valid(self, mutant: Mutant) -> bool:
        """Whether it compiles, knows all its names, and is not obviously the same as the original."""
        text = plant(self.text, mutant)
        if not self.file.endswith(".py"):
            return is_c(self.path, text)
        tree = tree_of(text)
        return tree is not None and tree != self._tree and names_of(text) <= self._names


def draw(root: Path, rooms: Sequence[str], count: int, seed: int) -> list[Mutant]:
    """So many mutants of the files below these rooms, at most one of a line: lines by chance, then operators.

    A line's place in the draw depends on the seed, its file and its text, and on nothing else: fewer mutants are the
    first of more, and after a change the other lines keep theirs.
    """
    found: list[Mutant] = []
    of_file = cache(lambda file: Operators(root, file))
    for _, file, line in sorted(_lines(root, rooms, seed)):
        operators = of_file(file)
        by_chance = sorted(operators.of_line(line), key=lambda mutant: _chance(seed, file, mutant.old, mutant.new))
        if (first := next(filter(operators.is_valid, by_chance), None)) is not None:
            found.append(first)
        if len(found) >= count:
            break
    return found


def _lines(root: Path, rooms: Sequence[str], seed: int) -> Iterator[tuple[str, str, int]]:
    """Every line that is not empty: chance, file, number."""
    for room in rooms:
        for path in sorted(root.joinpath(room).rglob("*")) if (root / room).is_dir() else [root / room]:
            if path.suffix in (".py", *SUFFIXES):
                file = str(path.relative_to(root))
                seen = Counter[str]()
                for number, line in enumerate(path.read_text().splitlines(), start=1):
                    if text := line.strip():
                        seen[text] += 1
                        yield _chance(seed, file, text, str(seen[text])), file, number


def _chance(*words: object) -> str:
    return hashlib.sha256("\0".join(map(str, words)).encode()).hexdigest()
