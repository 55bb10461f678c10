"""Tests here draw, and most of them are about something else; and no other load of the machine is theirs."""

import pytest

from tests.support.blank_figures import blank_figures  # noqa: F401


@pytest.fixture
def idle(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scripts that time runs find an idle machine, whatever else runs here."""
    monkeypatch.setattr("os.getloadavg", lambda: (0.0, 0.0, 0.0))
