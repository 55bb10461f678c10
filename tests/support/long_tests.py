"""A plugin: long tests. CI runs all tests that take too long for every commit at a developer's rig, with every push.

``make test`` leaves out the tests that are marked ``long``; ``--long`` (CI, ``make slow``) adds all of them. A test
that is named in full, ``test_file.py::test_name[its case]``, is run in any case. The selection does not depend on the
commit, the date or chance: the marks in the files decide it.

A function all of whose cases are long would be run by nobody for days: it is refused, unless it names a test of the
same file that is not long and would notice most of what it notices, ``@pytest.mark.long(like="test_name")`` (of another
file: ``path::test_name``, which counts wherever that file is collected, too).

``@pytest.mark.few(3)`` leaves three of the cases of a test for every commit, spread evenly, and the others are long.
"""

from __future__ import annotations

from collections.abc import Iterable

import pytest


def runs_long(item: pytest.Item) -> bool:
    """Whether pytest was asked for long tests, too."""
    return bool(item.config.getoption("long"))


def without_small_case(items: Iterable[tuple[str, bool, str]]) -> list[str]:
    """Functions (ids without a case) all of whose tests are long, as is what they name in their place, if anything.

    ``items``: id of a test, whether it is long, and the name of the test like it (or nothing).
    """
    small: dict[str, bool] = {}
    like: dict[str, str] = {}
    for node_id, long, name in items:
        function = node_id.partition("[")[0]
        small[function] = small.get(function, False) or not long
        like[function] = name if "::" in name else f"{function.rpartition('::')[0]}::{name}"
    files = {function.partition("::")[0] for function in small}
    elsewhere = {function for function, name in like.items() if name.partition("::")[0] not in {*files, ""}}
    return [
        function
        for function, one in small.items()
        if not one and function not in elsewhere and not small.get(like[function], False)
    ]


def spread(count: int, always: int) -> set[int]:
    """Which of so many cases are for every commit: the first, the last, and others between them at equal distances."""
    always = min(always, count)
    return {round(number * (count - 1) / max(1, always - 1)) for number in range(always)}


def mark_the_others_of_few(items: Iterable[pytest.Item]) -> None:
    """Of a function that is marked ``few``, all cases but so many become long."""
    cases: dict[str, list[pytest.Item]] = {}
    for item in items:
        if item.get_closest_marker("few") is not None and item.get_closest_marker("long") is None:
            cases.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for found in cases.values():
        marker = found[0].get_closest_marker("few")
        kept = spread(len(found), *marker.args)
        for number, item in enumerate(found):
            if number not in kept:
                item.add_marker(pytest.mark.long)


def long_after(values: Iterable[object], always: int) -> list[object]:
    """Values of a parameter: the first few are for every commit, the others are long."""
    return [
        value if number < always else pytest.param(value, marks=pytest.mark.long) for number, value in enumerate(values)
    ]


def rows_long_after(rows: Iterable[tuple[object, ...]], always: int) -> list[object]:
    """Likewise, of several parameters at once: one value for each in a row."""
    return [row if number < always else pytest.param(*row, marks=pytest.mark.long) for number, row in enumerate(rows)]


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.getgroup("long tests").addoption(
        "--long", action="store_true", help="run the tests that are marked long, too"
    )


def pytest_configure(config: pytest.Config) -> None:
    """Register the markers ``long`` and ``few``."""
    config.addinivalue_line("markers", "long: one of many cases: for CI and `make slow`")
    config.addinivalue_line("markers", "few: so many of its cases are for every commit, the others are long")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave the long ones out, unless they were asked for."""
    mark_the_others_of_few(items)
    named = {argument for argument in config.args if "[" in argument}
    long = {item for item in items if item.get_closest_marker("long")}
    if not any("::" in argument for argument in config.args):
        whole = without_small_case((item.nodeid, item in long, _like(item)) for item in items)
        if whole:
            raise pytest.UsageError(f"{whole[0]}: all of its cases are long; leave a small one, or name a test like it")
    waiting = [item for item in items if item in long and not runs_long(item) and item.nodeid not in named]
    if waiting:
        out = set(waiting)
        items[:] = [item for item in items if item not in out]
        config.hook.pytest_deselected(items=waiting)


def _like(item: pytest.Item) -> str:
    """The test that a long one names as like it."""
    return next((str(marker.kwargs["like"]) for marker in item.iter_markers("long") if "like" in marker.kwargs), "")
