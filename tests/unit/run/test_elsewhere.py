"""Failures of jobs in other processes than the one that asked for them."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from runtime.run.elsewhere import FILE, SWEEP, FailedElsewhere, Failure, ask, hand_back, note, noted, tell


@pytest.fixture(autouse=True)
def nobody_asks(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWEEP, "")
    monkeypatch.delenv(SWEEP)


def test_the_process_that_asked_knows_already(tmp_path: Path) -> None:
    """Notes of an earlier sweep do not count."""
    (tmp_path / FILE).write_text("2 out/1_bsp\n")
    for asked in (False, True):
        if asked:
            ask(tmp_path)
            assert noted(tmp_path) == []
        hand_back(1)
        note(1, tmp_path / "0_bsp", tmp_path)
    assert noted(tmp_path) == []


def test_another_process_raises_or_notes_what_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWEEP, str(os.getpid() + 1))
    hand_back(0)
    note(0, tmp_path / "0_bsp", tmp_path)
    assert noted(tmp_path) == []
    with pytest.raises(FailedElsewhere, match=r"^2$"):
        hand_back(2)
    note(2, tmp_path / "1_of mine", tmp_path)
    note(1, tmp_path / "3_ssp", tmp_path)
    assert noted(tmp_path) == [Failure(2, f"{tmp_path}/1_of mine"), Failure(1, f"{tmp_path}/3_ssp")]


def test_failures_are_named_in_one_line() -> None:
    failed = [Failure(2, "out/1_bsp"), Failure(1, "out/3_ssp")]
    assert [tell(failed[:count]) for count in range(3)] == [
        "",
        "1 job failed: 1_bsp (exit code 2)",
        "2 jobs failed: 1_bsp (exit code 2), 3_ssp (exit code 1)",
    ]
