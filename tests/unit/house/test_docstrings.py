"""A docstring says something: public code has one, and none only repeats the name in four words."""

from __future__ import annotations

import ast
from collections.abc import Iterator

import pytest

from tests.support.runs import ROOT

PACKAGES = ["analysis", "injectors", "predictors", "runtime", "strategies", "workloads"]
FRAMEWORK = {"call", "forward"}
"""What Keras and PyTorch document: a layer's computation, whose shapes its class states."""
INFORMATIVE_ROOMS = [
    *("analysis", "injectors", "predictors", "scripts", "workloads"),
    *(f"runtime/{room}" for room in ("backends", "cluster", "containment", "fitted", "record", "training")),
]
"""Rooms whose docstrings have been edited; the others follow."""
MIN_WORDS = 4


def sources(*folders: str) -> Iterator[tuple[str, ast.Module]]:
    for folder in folders:
        for path in sorted((ROOT / folder).rglob("*.py")):
            yield str(path.relative_to(ROOT)), ast.parse(path.read_text())


def documented_methods(trees: list[ast.Module]) -> set[str]:
    """Names of the methods that some class with a docstring for them defines."""
    return {
        node.name
        for tree in trees
        for one in ast.walk(tree)
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


def empty_words(tree: ast.Module) -> list[str]:
    """Docstrings of fewer than ``MIN_WORDS`` words."""
    found = []
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef):
            text = ast.get_docstring(node)
            if text is not None and len(text.split()) < MIN_WORDS:
                found.append(f"{node.name}: {text}")
    return found


def test_public_methods_are_documented_where_they_are_declared() -> None:
    trees = dict(sources(*PACKAGES))
    documented = documented_methods(list(trees.values()))
    wrong = [f"{name}: {one}" for name, tree in trees.items() for one in undocumented(tree, documented)]
    assert not wrong


@pytest.mark.parametrize("room", INFORMATIVE_ROOMS)
def test_no_docstring_is_a_mere_word(room: str) -> None:
    wrong = [f"{name}: {one}" for name, tree in sources(room) for one in empty_words(tree)]
    assert not wrong


def test_what_is_not_documented_is_found() -> None:
    """Negative control: an implementation passes, a new public method and an empty phrase do not."""
    planted = ast.parse(
        'class A:\n    """A class with methods."""\n    def update(self): ...\n    def novel(self): ...\n'
        '    def __post_init__(self):\n        """Check it."""\n    def _inner(self): ...\n'
    )
    assert undocumented(planted, {"update"}) == ["A.novel"]
    assert empty_words(planted) == ["__post_init__: Check it."]


def test_every_room_exists() -> None:
    assert all((ROOT / room).is_dir() for room in INFORMATIVE_ROOMS)
