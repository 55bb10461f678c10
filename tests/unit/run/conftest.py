"""Fixtures of tests of ``run.py`` as a program."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.blank_figures import blank_figures  # noqa: F401
from tests.support.prepared import Prepared


@pytest.fixture(scope="session")
def prepared() -> Iterator[Prepared]:
    """New interpreters without paying for the imports of each."""
    found = Prepared()
    yield found
    found.close()
