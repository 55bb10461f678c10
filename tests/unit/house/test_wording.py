"""Prose in the rooms that have been edited is plain English in the field's terms; a planted sentence is caught."""

from __future__ import annotations

import ast
import io
import re
import tokenize
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

from tests.support.runs import ROOT

ROOMS = [
    *("README.md", "CONTRIBUTING.md", "DESIGN.md", "Makefile"),
    *("analysis", "conf", "docs", "injectors", "predictors", "reading", "run.py", "scripts", "stragglab", "strategies"),
    *("tests", "workloads"),
    *("runtime/__init__.py", "runtime/api.py", "runtime/errors.py", "runtime/version.py"),
    *(f"runtime/{room}" for room in ("backends", "cluster", "config", "containment", "core", "live")),
    *(f"runtime/{room}" for room in ("record", "run", "training", "virtual")),
    "runtime/fitted/__init__.py",
]
"""Fitted models are left as they are: records name them by the hash of their bytes, comments included."""

TURNS = {
    r"anew|afresh": "again",
    r"beside": "next to, in addition to",
    r"of (no|any) use|be of use": "invalid, useless, useful",
    r"st(an|oo)ds? still|standing still": "paused, stopped",
    r"who (is|are) there|(is|are) there already|that (is|are) there": "current, existing, present",
    r"comes? to know": "learns",
    r"(parameters|figure|scale|rate|round|code) of now": "current",
    r"befall\w*": "happen to",
    r"told": "notified, reported, given; receives",
    r"g(o|oes|oing) on": "continues",
    r"g(o|oes|oing) back( |,|;|\.)": "return, roll back",
    r"forese\w*|foret[eo]l\w*": "predict",
    r"slip of the \w+": "typo",
    r"says nothing of": "does not mention",
    r"speaks? of": "is about, applies to",
    r"signs? of life": "heartbeat",
    r"machine alone": "keep the machine idle",
    r"to and fro": "back and forth",
    r"taken for dead": "declared lost",
    r"mend(s|ed|ing)?": "fix",
    r"weighs? up": "weighted sum",
    r"assess\w*": "evaluate",
    r"dearer": "slower, more expensive",
    r"in vain": "discarded, wasted",
    r"somebody else's": "reused, another one's",
    r"held against": "compared with",
    r"what (it|they) comes? to": "the result, the outcome",
    r"so that its numbers are not judged": "so its numbers are not judged",
    r"cannot be had|can be had": "is not available",
    r"is no (number|text|image|list|file|part)\b": "is not a",
    r"the (slowest|fastest|last) but one": "the second slowest, the last but one",
    r"stands? in for": "represents, emulates",
    r"by heart": "overfitted",
    r"at hand": "available",
    r"strangers?": "unauthenticated peers",
    r"(the|a) board": "shared buffers",
    r"entrance": "acceptor",
    r"leftovers|crash ledger|ledger of runs": "crash registry",
    r"crews?|hired?|hires|hiring": "workers, start",
    r"befalls?|befell": "happen to",
    r"(came|coming) to know": "learns",
    r"hears? of|heard of": "receives, is notified of",
    r"of (no )?more use": "void, no longer needed",
    r"for ever": "forever",
}
"""A turn of phrase, as a regular expression over whole words, and what to write instead."""
ANY_TURN = "|".join(f"(?:{turn})" for turn in TURNS)

QUOTED = {
    "workloads/datasets/adult.py": "the census' own words",
    "tests/unit/house/test_wording.py": "the replaced turns",
}
"""Files of which strings are data."""


def files(room: str) -> Iterator[Path]:
    path = ROOT / room
    if path.is_file():
        yield path
    else:
        yield from (one for one in sorted(path.rglob("*")) if one.suffix in (".py", ".md", ".yaml", ".toml"))


def prose(path: Path, text: str) -> Iterator[tuple[int, str]]:
    """(line number, text) of everything that people read: comments, docstrings and messages of code, all of a page."""
    if path.suffix != ".py":
        for number, line in enumerate(text.splitlines(), 1):
            if line == "## Glossary":  # names the replaced words
                return
            if not line.startswith("|") or path.parent.name != "paper":
                yield number, re.sub(r"`[^`]*`|[\w/]+\.py\b", "", line)  # nor are names of files prose
        return
    suspect = any("#" in line and whole(ANY_TURN).search(line) for line in text.splitlines())  # tokens take a while
    for token in tokenize.generate_tokens(io.StringIO(text).readline) if suspect else ():
        if token.type == tokenize.COMMENT:
            yield token.start[0], token.string
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Constant) and isinstance(node.value, str) and " " in node.value:
            for offset, line in enumerate(node.value.splitlines()):
                yield node.lineno + offset, re.sub(r"``[^`]*``", "", line)


@cache
def whole(turn: str) -> re.Pattern[str]:
    """The expression of a turn that is found as whole words only, capitals or not."""
    return re.compile(rf"(?<![\w-])(?:{turn})(?![\w-])", re.IGNORECASE)


def turns(path: Path, text: str) -> list[str]:
    """Every banned turn in a file, with its line and the replacement."""
    found = []
    for number, line in prose(path, text):
        for turn, better in TURNS.items() if whole(ANY_TURN).search(line) else ():
            for hit in whole(turn).finditer(line):
                found.append(f"{path.name}:{number}: {hit.group().strip()!r} (write: {better})")
    return found


@pytest.mark.parametrize("room", ROOMS)
def test_a_native_reader_need_not_guess(room: str) -> None:
    wrong = [
        f"{path.relative_to(ROOT)}: {one}"
        for path in files(room)
        if str(path.relative_to(ROOT)) not in QUOTED
        for one in turns(path, path.read_text())
    ]
    assert not wrong, "\n".join(wrong)


def test_every_room_has_files() -> None:
    assert all(list(files(room)) for room in ROOMS)


@pytest.mark.parametrize(
    ("name", "text", "turn"),
    [
        ("code.py", '"""What the strategy is told."""\n', "told"),
        ("code.py", "x = 1  # the models are made anew\n", "anew"),
        ("code.py", 'raise ValueError("x: of no use here")\n', "of no use"),
        ("code.py", 'f"{one} stands still"\n', "stands still"),
        ("page.md", "Training goes on with the parameters of now.\n", "goes on"),
        ("page.md", "| a cell | beside it |\n", "beside"),
        ("some.yaml", "a: 1  # who is there\n", "who is there"),
    ],
)
def test_a_planted_turn_is_caught(name: str, text: str, turn: str) -> None:
    assert any(repr(turn) in one for one in turns(Path(name), text))


def test_plain_words_and_code_in_quotes_are_not_caught() -> None:
    text = '"""Continue with the current parameters; ``told`` is an old name."""\nbesides, unfold, retold = 1, 2, 3\n'
    assert turns(Path("code.py"), text) == []
    assert turns(Path("page.md"), "`told()` besides\n") == []
    assert turns(Path("some.yaml"), "file: rooms/beside.py\n") == []
