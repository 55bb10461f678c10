"""Figures are painted where a test is about them, and everywhere when long tests run, too."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.blank_figures import BLANK

TESTS = """
import pytest
from pathlib import Path
from matplotlib.figure import Figure
from tests.support.blank_figures import blank_figures

def draw():
    with Path("figure.png").open("wb") as file:
        Figure().savefig(file, format="png", dpi=10)

def test_other():
    draw()

@pytest.mark.painted
def test_figure():
    draw()
"""


@pytest.mark.parametrize(
    ("name", "words", "painted"),
    [
        ("test_other", [], False),
        ("test_figure", [], True),
        ("test_other", ["--long"], True),
    ],
)
def test_only_figures_that_are_the_subject_are_painted(
    name: str, words: list[str], painted: bool, pytester: pytest.Pytester
) -> None:
    pytester.makepyfile(test_it=TESTS)
    pytester.makeini("[pytest]\nmarkers = painted")
    words = ["-p", "tests.support.long_tests", "-p", "no:cacheprovider", f"test_it.py::{name}", *words]
    pytester.inline_run(*words).assertoutcome(passed=1)
    image = Path(pytester.path, "figure.png").read_bytes()
    assert image.startswith(BLANK)
    assert (len(image) > len(BLANK)) == painted
