"""The list of mutants holds: every bug has its place in the sources, a sentence, and existing tests."""

from __future__ import annotations

import ast
import shlex
from collections import Counter
from functools import cache

import pytest

from scripts.compiling import SUFFIXES
from scripts.mutant_lists import Mutant, planted, read_lists
from tests.support.runs import ROOT

mutants = cache(read_lists)
AREAS = {"strategies", "core", "virtual", "injectors", "analysis"}


def test_there_are_enough_everywhere() -> None:
    counts = Counter(mutant.area for mutant in mutants())
    assert counts.total() >= 200
    assert all(counts[area] >= 20 for area in AREAS), counts


def test_every_mutant_applies_exactly_once_and_is_python_or_c() -> None:
    """Whether it compiles, C says when it is planted."""
    sources = {file: (ROOT / file).read_text() for file in {mutant.file for mutant in mutants()}}
    for mutant in mutants():
        text = planted(sources[mutant.file], mutant)
        assert text != sources[mutant.file], mutant.name
        if mutant.file.endswith(".py"):
            ast.parse(text)
        else:
            assert mutant.file.endswith(SUFFIXES), mutant.name


def test_no_two_are_the_same() -> None:
    assert max(Counter((mutant.file, mutant.find, mutant.put) for mutant in mutants()).values()) == 1


def test_every_mutant_says_what_it_breaks_and_who_should_notice() -> None:
    for mutant in mutants():
        assert mutant.breaks.endswith("."), mutant.name
        assert mutant.equivalent == "" or mutant.equivalent.endswith("."), mutant.name
        assert mutant.tests, mutant.name
        assert [words for words in mutant.tests if not (ROOT / shlex.split(words)[0]).exists()] == []


def test_a_text_that_is_gone_or_there_twice_is_refused() -> None:
    lost = Mutant("core", "a.py", "Nothing.", "x = 1", "x = 2", ("tests",))
    for text, times in (("y = 1\n", 0), ("x = 1\nx = 1\n", 2)):
        with pytest.raises(ValueError, match=rf"a\.py: 'x = 1' stands there {times} times; it must be once"):
            planted(text, lost)
