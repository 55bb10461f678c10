"""Long tests: ``--long`` runs all of them, and none is without a small case that runs every time."""

from __future__ import annotations

import subprocess

import pytest

from tests.support.long_tests import spread, without_small_case
from tests.support.runs import ROOT

GRID = """
import pytest

LONG = [pytest.param(number, marks=pytest.mark.long) for number in range(1, 60)]

@pytest.mark.parametrize("number", [0, *LONG])
def test_grid(number):
    pass

def test_short():
    pass
"""
LIKE = """
import pytest

@pytest.mark.long(like="test_small")
def test_large():
    pass

def test_small():
    pass
"""
FEW = """
import pytest

@pytest.mark.few(3)
@pytest.mark.parametrize("number", range(9))
def test_grid(number):
    pass

@pytest.mark.few(1)
@pytest.mark.parametrize("number", [pytest.param(0, marks=pytest.mark.long), 1, 2])
def test_other(number):
    pass
"""
ALL_LONG = """
import pytest

@pytest.mark.parametrize("number", [pytest.param(1, marks=pytest.mark.long)])
def test_grid(number):
    pass
"""


def run(pytester: pytest.Pytester, *words: str) -> set[str]:
    """Names of the tests that were run, each with its case."""
    result = pytester.inline_run("-p", "tests.support.long_tests", "-p", "no:cacheprovider", *words)
    passed, skipped, failed = result.listoutcomes()
    assert (skipped, failed) == ([], [])
    names = [report.nodeid.partition("::")[2] for report in passed]
    assert len(names) == len(set(names))
    return set(names)


def test_long_tests_run_when_they_are_asked_for(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(GRID)
    small = {"test_short", "test_grid[0]"}
    assert run(pytester) == small
    assert run(pytester, "--long") == small | {f"test_grid[{number}]" for number in range(1, 60)}


def test_of_a_test_with_few_cases_these_are_spread_evenly(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(FEW)
    small = {"test_grid[0]", "test_grid[4]", "test_grid[8]", "test_other[1]"}
    assert run(pytester) == small
    assert run(pytester, "--long") == small | {f"test_grid[{number}]" for number in range(9)} | {
        "test_other[0]",
        "test_other[2]",
    }
    assert [sorted(spread(5, always)) for always in (1, 2, 3, 9)] == [[0], [0, 4], [0, 2, 4], [0, 1, 2, 3, 4]]


def test_a_grid_without_a_small_case_is_refused(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(ALL_LONG)
    result = pytester.runpytest_inprocess("-p", "tests.support.long_tests", "-p", "no:cacheprovider", "--long")
    assert result.ret == pytest.ExitCode.USAGE_ERROR
    result.stderr.fnmatch_lines(["*test_grid: all of its cases are long; leave a small one, or name a test like it"])
    assert without_small_case([("a[1]", True, ""), ("a[2]", False, ""), ("b", True, "")]) == ["b"]


def test_a_long_test_may_name_one_like_it_that_runs_every_time(pytester: pytest.Pytester) -> None:
    pytester.makepyfile(LIKE)
    assert run(pytester) == {"test_small"}
    assert run(pytester, "--long") == {"test_large", "test_small"}
    others = [("f.py::test_small[1]", True, ""), ("g.py::test_small", False, "")]
    assert without_small_case([("f.py::test_large", True, "test_small"), *others]) == [
        "f.py::test_large",
        "f.py::test_small",
    ], "neither a long one nor one of another file takes its place"
    far = [("f.py::test_large", True, "g.py::test_small")]
    assert without_small_case([*far, ("g.py::test_small", False, "")]) == []
    assert without_small_case([*far, ("g.py::test_small", True, "")]) == ["f.py::test_large", "g.py::test_small"]
    assert without_small_case(far) == [], "the other file is not collected"


def test_ci_runs_them_all_whatever_the_commit() -> None:
    """The same words every time: no commit, date or number chooses a part."""
    script = [line for line in (ROOT / ".ci" / "run").read_text().splitlines() if "make test" in line]
    assert [line.partition("#")[0].strip() for line in script] == ["make test LONG=1"]
    words = ["make", "--dry-run", "--old-file", ".venv/.dev", "test", "LONG=1"]
    shown = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True).stdout
    commands = [line for line in shown.splitlines() if " -m pytest " in line]
    assert len(commands) == 3
    assert all(" --long --hypothesis-profile ci " in line for line in commands)
