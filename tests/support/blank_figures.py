"""Figures of tests that are about something else remain blank: painting one takes longer than everything else they do.

Everything is built as always: axes, labels, the CSV file. What is left out is what Matplotlib does when it saves, the
layout and the painting (80 % of the time of a report). Tests about a figure itself are marked ``painted``, if there are
not many alike; all others are painted where long tests run, too (:mod:`tests.support.long_tests`).
"""

from __future__ import annotations

from typing import Any, BinaryIO

import pytest
from matplotlib.figure import Figure

from tests.support.long_tests import runs_long

BLANK = b"\x89PNG\r\n\x1a\n"
"""What every PNG begins with."""


def save_blank(figure: Figure, file: BinaryIO, **_: Any) -> None:
    """In the place of ``Figure.savefig``."""
    file.write(BLANK)


@pytest.fixture(autouse=True)
def blank_figures(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Import it where tests draw. Fixtures of a whole file are made before it, and painted."""
    if not is_painted(request.node):
        monkeypatch.setattr(Figure, "savefig", save_blank)


def is_painted(item: pytest.Item) -> bool:
    return item.get_closest_marker("painted") is not None or runs_long(item)
