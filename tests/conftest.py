"""For all tests: chance, long tests, the end of what they start, and golden transcripts written again.

Chance repeats itself (profiles ``dev`` and ``ci``), so that a failure is the same for everybody; ``nightly`` (``make
slow``) draws other examples, and many more, and keeps what it found in ``.hypothesis``.
"""

from __future__ import annotations

import pytest
from hypothesis import settings

pytest_plugins = [
    "pytester",
    "tests.support.collector",
    "tests.support.grammars_once",
    "tests.support.groups",
    "tests.support.reaper",
    "tests.support.long_tests",
    "tests.support.yaml_once",
]

settings.register_profile("dev", max_examples=50, derandomize=True, database=None, deadline=None)
settings.register_profile("ci", max_examples=100, derandomize=True, database=None, deadline=None, print_blob=True)
settings.register_profile("nightly", max_examples=1000, deadline=None, print_blob=True)
settings.load_profile("dev")


def pytest_addoption(parser: pytest.Parser) -> None:
    """``pytest --rewrite``: look at the difference before you commit it."""
    parser.addoption("--rewrite", action="store_true", help="write the expected lines of tests/transcripts again")
