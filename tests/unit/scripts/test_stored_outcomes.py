"""The stored outcomes of jobs: hashes that depend on a machine are compared on that machine only."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from scripts.measure import snapshot

HERE, ELSEWHERE = {"cpu": "here"}, {"cpu": "elsewhere"}
QUIET = Console(quiet=True)


def job(jct_s: float, parameters: str) -> dict[str, Any]:
    return {"jct_s": jct_s, "parameters_sha256": parameters}


@pytest.fixture
def written_elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(snapshot, "FOLDER", tmp_path)
    monkeypatch.setattr(snapshot, "machine", lambda: ELSEWHERE)
    snapshot.keep({"old": job(1.0, "a")})
    monkeypatch.setattr(snapshot, "machine", lambda: HERE)
    return tmp_path / "outcomes.json"


def test_hashes_of_another_machine_do_not_count_and_all_else_does(written_elsewhere: Path) -> None:
    kept = snapshot.read_stored()
    assert snapshot.compare({"old": job(1.0, "b")}, kept, QUIET) == 0
    assert snapshot.compare({"old": job(2.0, "a")}, kept, QUIET) == 1
    snapshot.keep({"old": job(1.0, "b")})  # all jobs: they are this machine's then
    assert json.loads(written_elsewhere.read_text()) == {"machine": HERE, "jobs": {"old": job(1.0, "b")}}
    assert snapshot.compare({"old": job(1.0, "a")}, snapshot.read_stored(), QUIET) == 1


def test_a_job_that_is_added_elsewhere_does_not_claim_the_others_hashes(
    written_elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    snapshot.keep({"new": job(3.0, "b")})
    kept = snapshot.read_stored()
    assert kept == {"machine": ELSEWHERE, "jobs": {"old": job(1.0, "a"), "new": {"jct_s": 3.0}}}
    monkeypatch.setattr(snapshot, "machine", lambda: ELSEWHERE)
    assert snapshot.compare({"old": job(1.0, "a"), "new": job(3.0, "c")}, kept, QUIET) == 0
    assert snapshot.compare({"old": job(1.0, "b")}, kept, QUIET) == 1
    assert snapshot.compare({"new": job(4.0, "c")}, kept, QUIET) == 1
