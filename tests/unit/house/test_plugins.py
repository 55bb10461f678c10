"""Plugins of these tests: a marked file stays in one process, and a YAML text is parsed once for all."""

from __future__ import annotations

from pathlib import Path

import pytest
import yaml

from tests.support import yaml_once
from tests.support.groups import shares_runs

FILE = """
import os
import time
from pathlib import Path

import pytest

@pytest.mark.parametrize("number", range(4))
def test_it(number):
    with open(Path(__file__).parent / "workers.txt", "a") as file:
        print(Path(__file__).stem, os.environ["PYTEST_XDIST_WORKER"], file=file)
    time.sleep(0.05)  # so that nobody is through with all before the other has begun
"""
MARK = '\npytestmark = pytest.mark.xdist_group("they share a run")\n'


def test_a_file_is_a_group_if_it_says_so(tmp_path: Path) -> None:
    for name, text in (("marked.py", FILE + MARK), ("other.py", FILE)):
        (tmp_path / name).write_text(text)
    assert [shares_runs(tmp_path / name) for name in ("marked.py", "other.py", "none.py")] == [True, False, False]


@pytest.mark.long(like="test_a_file_is_a_group_if_it_says_so")
def test_a_group_stays_in_one_process_and_the_others_are_spread(pytester: pytest.Pytester) -> None:
    """Which xdist itself does not do with every version of pytest, and does not say so."""
    pytester.makepyfile(test_marked=FILE + MARK, test_also=FILE + MARK, test_others=FILE)
    words = ("-p", "tests.support.groups", "-n", "2", "--dist", "loadgroup")
    pytester.runpytest(*words).assert_outcomes(passed=12)
    found = [line.split() for line in (pytester.path / "workers.txt").read_text().splitlines()]
    workers = {name: {worker for one, worker in found if one == name} for name, _ in found}
    assert {name: len(where) for name, where in workers.items()} == {"test_marked": 1, "test_also": 1, "test_others": 2}


def test_who_changes_what_was_read_changes_nothing_for_others() -> None:
    assert yaml.load is yaml_once.load
    text = "a: [1, {b: 2}]\n"
    first = yaml.safe_load(text)
    first["a"][1]["b"] = 3
    assert yaml.safe_load(text) == {"a": [1, {"b": 2}]}


def test_a_file_that_was_changed_is_read_again(tmp_path: Path) -> None:
    for value in (1, 2):
        (tmp_path / "x.yaml").write_text(f"a: {value}\n")
        with (tmp_path / "x.yaml").open() as file:
            assert yaml.safe_load(file) == {"a": value}
