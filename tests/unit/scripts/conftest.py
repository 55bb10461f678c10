"""Tests here draw, and most of them are about something else; and no other load of the machine is theirs."""

from collections.abc import Iterator

import pytest

from tests.support.blank_figures import blank_figures  # noqa: F401


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts that time runs find an idle machine, whatever else runs here."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))


@pytest.fixture(scope="module")
def same_code() -> Iterator[None]:
    """The hash of all code, which takes longer to read than these tests; tests/unit/scripts/test_times_only.py does."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("stragglab.grids.times.sha256_of_all", lambda: "a" * 64)
        patch.setattr("stragglab.grids.rows.sha256_of_run", lambda *_: "a" * 64)
        yield
