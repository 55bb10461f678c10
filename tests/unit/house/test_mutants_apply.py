"""The mutants that people wrote hold: each has its place in the sources, and says what it breaks or why it does not."""

from __future__ import annotations

from collections import Counter
from functools import cache

import pytest

from scripts.compiling import SUFFIXES
from scripts.mutation.operators import make_written, one_line, plant, read_lists, tree_of
from tests.support.runs import ROOT

mutants = cache(read_lists)


def test_every_mutant_applies_and_is_python_or_c() -> None:
    """Whether it compiles, C says when it is planted."""
    assert len(mutants()) > 100
    for mutant in mutants():
        text = plant((ROOT / mutant.file).read_text(), mutant)
        if mutant.file.endswith(".py"):
            assert tree_of(text) is not None, mutant.name
        else:
            assert mutant.file.endswith(SUFFIXES), mutant.name
        assert bool(mutant.breaks) != bool(mutant.equivalent), mutant.name
    assert max(Counter((mutant.file, mutant.line, one_line(mutant.new)) for mutant in mutants()).values()) == 1


def test_a_text_that_is_gone_or_there_twice_is_refused() -> None:
    for text, times in (("y = 1\n", 0), ("x = 1\nx = 1\n", 2)):
        with pytest.raises(ValueError, match=rf"a\.py: 'x = 1' stands there {times} times; it must be once"):
            make_written("a.py", text, "x = 1", "x = 2")
    lost = make_written("a.py", "y = 0\nx = 1\n", "x = 1", "x = 2")
    with pytest.raises(ValueError, match=r"a\.py:2: x = 1  ->  x = 2: these lines are not there"):
        plant("y = 0\nx = 2\n", lost)
