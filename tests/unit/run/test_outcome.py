"""The last line of a record says what is missing of a run that is done all the same, and its exit code the same."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from runtime.api import Outcome, RunStatus, outcome_of
from runtime.run.elsewhere import FILE, SWEEP, FailedElsewhere, Failure, ask, hand_back, note, noted, tell
from runtime.run.ending import ending_of
from tests.support.harness import Puppet, Rig, make_job


def outcome(strategy: Puppet, *, unscored: bool = False, interrupted: bool = False, unsaved: bool = False) -> Outcome:
    rig = Rig(strategy, make_job()).start()
    rig.core.finish(40.0, "done", "max_time_s=40 reached")
    about = {"failure": None, "t": 40.0, "parameters_sha256": "", "num_parameters": 1}
    return outcome_of(rig.core, unscored=unscored, interrupted=interrupted, unsaved=unsaved, **about)  # type: ignore[arg-type]


def test_final_parameters_without_a_score_are_a_warning_and_after_a_signal_the_reason() -> None:
    said = "the final parameters were not evaluated"
    for unscored, warning in ((False, ""), (True, said)):
        ended = outcome(Puppet(), unscored=unscored)
        assert (ended.status, ended.warning) == ("done", warning)
    ended = outcome(Puppet(), unscored=True, interrupted=True)
    assert (ended.status, ended.warning, ended.reason) == ("interrupted", "", f"max_time_s=40 reached; {said}")


@pytest.mark.parametrize(("interrupted", "status"), [(False, "failed"), (True, "interrupted")])
def test_a_job_whose_parameters_were_to_be_saved_and_are_not_has_not_done_what_it_should(
    interrupted: bool, status: str
) -> None:
    ended = outcome(Puppet(), unsaved=True, unscored=True, interrupted=interrupted)
    assert (ended.status, ended.warning) == (status, "")
    assert ended.reason.startswith("max_time_s=40 reached; save_parameters=true: the final parameters were not saved")


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
