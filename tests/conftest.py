"""For all tests: chance that repeats itself, and the option that writes golden transcripts anew."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest --rewrite``: look at the difference before you commit it."""
    parser.addoption("--rewrite", action="store_true", help="write the expected lines of tests/transcripts anew")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """With ``-n 2 --dist loadgroup``: what starts processes stays together, and so does each file of the rest.

    Two live tests at once would measure and strike each other; files share what they have computed once.
    """
    if config.pluginmanager.hasplugin("xdist"):
        for item in items:
            alone = any(item.get_closest_marker(name) for name in ("live", "chaos", "root"))
            item.add_marker(pytest.mark.xdist_group("live" if alone else str(item.path)))
