"""Short cuts are switched off one by one, and a misspelt one is refused before anything starts."""

from __future__ import annotations

from pathlib import Path

import pytest

from runtime.virtual.short_cuts import SHORT_CUTS, WITHOUT, is_without
from tests.support.cli import run_cli


def test_they_can_be_switched_off_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv(WITHOUT, raising=False)
    assert not any(map(is_without, SHORT_CUTS))
    monkeypatch.setenv(WITHOUT, SHORT_CUTS[0])
    assert [name for name in SHORT_CUTS if is_without(name)] == [SHORT_CUTS[0]]
    monkeypatch.setenv(WITHOUT, ",".join(SHORT_CUTS))
    assert all(map(is_without, SHORT_CUTS))


def test_one_that_does_not_exist_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(WITHOUT, "event_loop,jumpin")
    done = run_cli("runtime=virtual", "backend=none", "workload=ledger", f"hydra.run.dir={tmp_path}/run")
    assert done.exit_code == 2
    assert "STRAGGLAB_WITHOUT=event_loop,jumpin: jumpin is none of event_loop" in done.err
