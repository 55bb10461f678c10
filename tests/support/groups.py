"""A plugin: test files that share a run stay in one process of xdist (``--dist loadgroup``), the others are spread.

xdist 3.8 hands groups on in the ids of tests, which pytest 9.2 no longer lets it change (pytest-xdist, issue 1386): it
says nothing and spreads the groups, too, so that every process made the shared runs again. Here a file is a group when
its text has the marker ``xdist_group`` in it.
"""

from __future__ import annotations

from functools import cache
from pathlib import Path

import pytest
from xdist.scheduler import LoadScopeScheduling

MARKER = "pytest.mark.xdist_group("


@cache
def shares_runs(path: Path) -> bool:
    """Whether the tests of a file are marked as a group."""
    return path.is_file() and MARKER in path.read_text()


class SharedRuns(LoadScopeScheduling):
    """Hands out whole groups, the largest first, and then one test at a time."""

    def _split_scope(self, nodeid: str) -> str:
        path = nodeid.partition("::")[0]
        return path if shares_runs(self.config.rootpath / path) else nodeid


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: object) -> SharedRuns | None:
    """In the place of xdist's own ``loadgroup``."""
    return SharedRuns(config, log) if config.getoption("dist") == "loadgroup" else None
