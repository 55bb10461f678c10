"""A plugin: Python's garbage collector does not look again and again at what stays until the end.

The tests themselves, the libraries and the runs that several tests share are some millions of objects; a full
collection goes through all of them, and copies them in every fork (:mod:`tests.support.cli`).
"""

from __future__ import annotations

import gc
from collections.abc import Generator

import pytest

YOUNG = 20_000
"""New objects until the collector looks at them; Python's 700 are meant for programs with less to look at."""


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """While tests and libraries are imported, nothing is garbage."""
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()


def pytest_collection_finish() -> None:
    gc.set_threshold(YOUNG, 10, 10)
    gc.collect()
    gc.freeze()


@pytest.hookimpl(trylast=True)
def pytest_runtest_teardown(item: pytest.Item, nextitem: pytest.Item | None) -> None:
    """What a file of tests has left in caches stays, too."""
    if nextitem is None or nextitem.path != item.path:
        gc.collect()
        gc.freeze()
