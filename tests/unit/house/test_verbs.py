"""A verb costs little: few production files spell out an event or a command (CONTRIBUTING.md has the recipe)."""

from __future__ import annotations

import ast
import re
from pathlib import Path
from typing import get_args

from strategies.protocol import AnyCommand, AnyEvent

ROOT = Path(__file__).parents[3]
MAX_FILES = 12
OLDER = {"Arrived": 13, "Restored": 14, "ServerLost": 14, "Launch": 13}
"""As many as there were; three of the files of ``Restored`` mean the recovery's effect of that name."""
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


def test_few_files_spell_it_out() -> None:
    """A text that has the word is parsed where there are too many such: a comment does not count."""
    files = [path for room in ROOMS for path in sorted((ROOT / room).rglob("*.py"))]
    texts = {str(path.relative_to(ROOT)): path.read_text() for path in files}
    words = {name: {*re.findall(r"\b[A-Z]\w+", text)} for name, text in texts.items()}
    for verb in VERBS:
        most, found = OLDER.get(verb, MAX_FILES), [name for name, has in words.items() if verb in has]
        if len(found) > most:
            found = [name for name in found if verb in names_in(texts[name])]
        assert len(found) <= most, (verb, found)


def test_what_code_names_is_found() -> None:
    source = '"""Observed."""\nfrom a import Woke\nclass Lost: ...\nmatch x:\n    case inputs.Joined(): Apply()\n'
    assert names_in(source) >= {"Woke", "Lost", "Joined", "Apply"}
    assert "Observed" not in names_in(source)
