"""A plugin: long tests by turns. What takes too long for every commit is run a part at a time, chosen by the commit.

``make test`` leaves the tests that are marked ``long`` out. ``--turn COMMIT`` (what CI runs) adds the share whose turn
it is, so that within some dozens of commits each has had its turn; ``--long`` (``make slow``) adds all of them. A test
that is named in full, ``test_file.py::test_name[its case]``, is run in any case.

A function all of whose cases are long would be run by nobody for days, so it is refused: a small case has to stay.
"""

from __future__ import annotations

from collections.abc import Iterable
from zlib import crc32

import pytest

TURNS = 16


def turn_of(node_id: str) -> int:
    """The share that a test belongs to; the same on every machine."""
    return crc32(node_id.encode()) % TURNS


def turn_of_commit(commit: str) -> int:
    """The share whose turn it is with a commit, given by its hash (or any number in hexadecimal digits)."""
    return int(commit[:12], 16) % TURNS


def without_small_case(items: Iterable[tuple[str, bool]]) -> list[str]:
    """Functions (ids without a case) all of whose tests, given as (id, whether it is long), are long."""
    small: dict[str, bool] = {}
    for node_id, long in items:
        function = node_id.partition("[")[0]
        small[function] = small.get(function, False) or not long
    return [function for function, one in small.items() if not one]


def pytest_addoption(parser: pytest.Parser) -> None:
    group = parser.getgroup("long tests")
    group.addoption("--long", action="store_true", help="run the tests that are marked long, too")
    group.addoption("--turn", metavar="COMMIT", help="of these, run those whose turn it is with this commit")


def pytest_configure(config: pytest.Config) -> None:
    """Announce the marker; refuse a turn that is none."""
    config.addinivalue_line("markers", "long: one of many cases: `make slow`, and in CI when it is its turn")
    try:
        turn_of_commit(config.getoption("turn") or "0")
    except ValueError:
        raise pytest.UsageError(f"--turn {config.getoption('turn')}: must be the hash of a commit") from None


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out the long ones whose turn it is not."""
    named = {argument for argument in config.args if "[" in argument}
    long = {item for item in items if item.get_closest_marker("long")}
    if not any("::" in argument for argument in config.args):
        whole = without_small_case((item.nodeid, item in long) for item in items)
        if whole:
            raise pytest.UsageError(f"{whole[0]}: all of its cases are long; leave a small one for `make test`")
    if config.getoption("long"):
        return
    turn = config.getoption("turn")
    now = None if turn is None else turn_of_commit(turn)
    waiting = [item for item in items if item in long and turn_of(item.nodeid) != now and item.nodeid not in named]
    if waiting:
        out = set(waiting)
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=waiting)
