"""A docstring says something: public code has one, none only repeats the name, and paper tests cite their paper."""

from __future__ import annotations

import ast
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import NamedTuple

import pytest

from tests.support.runs import ROOT

PACKAGES = ["analysis", "injectors", "predictors", "reading", "runtime", "strategies", "workloads"]
FRAMEWORK = {"call", "forward"}
"""What Keras and PyTorch document: a layer's computation, whose shapes its class states."""
INFORMATIVE_ROOMS = [*PACKAGES, "scripts", "stragglab", "tests"]
MIN_WORDS = 4


def definitions(tree: ast.AST) -> Iterator[ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef]:
    """Classes and functions, wherever they stand; most nodes of a tree are expressions, which have none."""
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, ast.ClassDef | ast.FunctionDef | ast.AsyncFunctionDef):
            yield node
        if isinstance(node, ast.stmt | ast.excepthandler | ast.match_case):
            yield from definitions(node)


def documented_methods(trees: list[ast.Module]) -> set[str]:
    """Names of the methods that some class with a docstring for them defines."""
    return {
        node.name
        for tree in trees
        for one in definitions(tree)
        if isinstance(one, ast.ClassDef)
        for node in one.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and ast.get_docstring(node)
    }


def undocumented(tree: ast.Module, documented: set[str]) -> list[str]:
    """Public methods without a docstring that implement no documented method of that name."""
    return [
        f"{one.name}.{node.name}"
        for one in tree.body
        if isinstance(one, ast.ClassDef) and not one.name.startswith("_")
        for node in one.body
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef)
        and not node.name.startswith("_")
        and not ast.get_docstring(node)
        and node.name not in documented
        and not (one.bases and node.name in FRAMEWORK)
    ]


SHORT = re.compile(r':(?:  #.*)?\n +"""(.*?)"""$', re.MULTILINE)
"""A docstring of one line, as formatted: of so few words, it is of one. Parsing all tests would take seconds."""


def empty_words(text: str) -> list[str]:
    """Docstrings of fewer than ``MIN_WORDS`` words."""
    return [found for found in SHORT.findall(text) if len(found.split()) < MIN_WORDS]


class Room(NamedTuple):
    """What one reading of a folder's files finds: parsing takes most of the time, and the trees much memory."""

    documented: set[str]
    undocumented: list[tuple[str, str]]
    """(file, method), whatever other rooms document."""


@cache
def read(folder: str) -> Room:
    room = Room(set(), [])
    for path in sorted((ROOT / folder).rglob("*.py")):
        name, tree = str(path.relative_to(ROOT)), ast.parse(path.read_text())
        room.documented.update(documented_methods([tree]))
        room.undocumented.extend((name, one) for one in undocumented(tree, set()))
    return room


def test_public_methods_are_documented_where_they_are_declared() -> None:
    rooms = [read(package) for package in PACKAGES]
    documented = set().union(*(room.documented for room in rooms))
    assert {"handle", "plan"} <= documented
    missing = [(name, one) for room in rooms for name, one in room.undocumented]
    assert not [f"{name}: {one}" for name, one in missing if one.rpartition(".")[2] not in documented]


@pytest.mark.parametrize("room", INFORMATIVE_ROOMS)
def test_no_docstring_is_a_mere_word(room: str) -> None:
    found = {str(path): empty_words(path.read_text()) for path in sorted((ROOT / room).rglob("*.py"))}
    assert found
    assert {name: words for name, words in found.items() if words} == {}


def test_what_is_not_documented_is_found() -> None:
    """Negative control: an implementation passes, a new public method and an empty phrase do not."""
    text = (
        'class A:\n    """A class with methods."""\n    def update(self): ...\n    def novel(self): ...\n'
        '    def __post_init__(self):\n        """Check it."""\n    def _inner(self): ...\n'
    )
    assert undocumented(ast.parse(text), {"update"}) == ["A.novel"]
    assert empty_words(text) == ["Check it."]


def test_every_room_exists() -> None:
    assert all((ROOT / room).is_dir() for room in INFORMATIVE_ROOMS)


CITATION = re.compile(
    r"[Ss]ections? [\"IVX\d]|\bEqs?\. \d|Algorithms? \d|Figures? \d|figure \d|Tables? [IVX\d]|Theorem|Lemma|Example \d"
    r"|[Ss]lides? \d|[Dd]efinition of|[Aa]bstract|[Pp]ublished code|[Dd]eparture|[Nn]egative control|Beyond the paper"
)
"""Where in its paper a test's claim stands, or that it is about something the paper leaves open."""


def uncited(tree: ast.Module) -> list[str]:
    """Names of the tests whose docstring names no place in a paper."""
    return [
        node.name
        for node in ast.walk(tree)
        if isinstance(node, ast.FunctionDef)
        and node.name.startswith("test_")
        and not CITATION.search(ast.get_docstring(node) or "")
    ]


@pytest.mark.parametrize("path", sorted((ROOT / "tests/paper").glob("test_*.py")), ids=lambda path: path.stem)
def test_paper_tests_cite_their_paper(path: Path) -> None:
    assert uncited(ast.parse(path.read_text())) == []


def test_a_paper_test_without_a_citation_is_found() -> None:
    """Negative control: a number worked by hand is no citation."""
    planted = ast.parse(
        'def test_a():\n    """Section VI-A: the mean."""\ndef test_b():\n    """4 s."""\ndef test_c(): ...\n'
    )
    assert uncited(planted) == ["test_b", "test_c"]
