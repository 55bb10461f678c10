"""For all tests: chance that repeats itself, and the option that writes golden transcripts anew."""

from __future__ import annotations

import pytest
from hypothesis import settings

settings.register_profile("repeatable", derandomize=True, database=None, deadline=None)
settings.load_profile("repeatable")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest --rewrite``: look at the difference before you commit it."""
    parser.addoption("--rewrite", action="store_true", help="write the expected lines of tests/transcripts anew")
