"""A verb costs little: few production files spell out an event or a command (CONTRIBUTING.md has the recipe)."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import get_args

import pytest

from strategies.protocol import AnyCommand, AnyEvent

ROOT = Path(__file__).parents[3]
MAX_FILES = 12
OLDER = {"Arrived": 13, "Restored": 14, "ServerLost": 14, "Launch": 13}
"""As many as there were; three of the files of ``Restored`` mean the recovery's effect of that name."""
ORDERS = {"restart": 2, "launch": 4, "retire": 1, "repartition": 1, "suspend": 1, "allocate": 6}
"""Methods of runtime that are named like an order about nodes. Such an order passes through no forwarders: it is a
value (:mod:`runtime.core.node_orders`), and each runtime has one method that carries all of them out."""
ROOMS = ("strategies/protocol", "runtime", "analysis")
"""Strategies themselves use the vocabulary; they are not what an addition costs."""
VERBS = sorted(kind.__name__ for kind in (*get_args(AnyEvent), *get_args(AnyCommand)))


def names_in(source: str) -> set[str]:
    """Everything that code names: not what comments and docstrings say."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        match node:
            case ast.Name(id=name) | ast.Attribute(attr=name) | ast.alias(name=name) | ast.ClassDef(name=name):
                found.add(name)
    return found


@pytest.fixture(scope="module")
def named() -> dict[str, set[str]]:
    files = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    return {str(path.relative_to(ROOT)): names_in(path.read_text()) for path in files}


@pytest.mark.parametrize("verb", VERBS)
def test_few_files_spell_it_out(verb: str, named: dict[str, set[str]]) -> None:
    files = sorted(name for name, names in named.items() if verb in names)
    assert len(files) <= OLDER.get(verb, MAX_FILES), files


@pytest.mark.parametrize("name", sorted(ORDERS))
def test_few_methods_are_named_like_an_order_about_nodes(name: str) -> None:
    found = [
        str(path.relative_to(ROOT))
        for path in sorted((ROOT / "runtime").rglob("*.py"))
        for node in ast.walk(ast.parse(path.read_text()))
        if isinstance(node, ast.FunctionDef) and node.name == name
    ]
    assert 0 < len(found) <= ORDERS[name], found


def test_what_code_names_is_found() -> None:
    source = '"""Observed."""\nfrom a import Woke\nclass Lost: ...\nmatch x:\n    case inputs.Joined(): Apply()\n'
    assert names_in(source) >= {"Woke", "Lost", "Joined", "Apply"}
    assert "Observed" not in names_in(source)
