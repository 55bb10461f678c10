"""The exit code of a run says what its record says."""

from __future__ import annotations

import signal

import pytest

from runtime.api import RunStatus
from runtime.run.ending import ending_of


@pytest.mark.parametrize(
    ("status", "interrupted_by", "exit_code"),
    [
        ("done", 0, 0),
        ("done", signal.SIGTERM, 0),
        ("interrupted", signal.SIGTERM, 143),
        ("interrupted", signal.SIGINT, 130),
        ("failed", signal.SIGINT, 1),
        ("disk_full", 0, 74),
    ],
)
def test_who_is_done_has_ended_well_whoever_asked_for_the_end(
    status: RunStatus, interrupted_by: int, exit_code: int
) -> None:
    assert ending_of(status, interrupted_by) == (exit_code, interrupted_by)
