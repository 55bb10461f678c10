"""The last line of a record says what is missing of a run that is done all the same."""

from __future__ import annotations

import pytest

from runtime.api import Outcome, outcome_of
from tests.support.harness import Desk, Puppet, make_job


def outcome(strategy: Puppet, *, unscored: bool, interrupted: bool = False) -> Outcome:
    desk = Desk(strategy, make_job()).start()
    desk.core.finish(40.0, "done", "max_time_s=40 reached")
    about = {"failure": None, "t": 40.0, "parameters_sha256": "", "num_parameters": 1}
    return outcome_of(desk.core, unscored=unscored, interrupted=interrupted, **about)  # type: ignore[arg-type]


@pytest.mark.parametrize(("unscored", "warning"), [(False, ""), (True, "the final parameters were not evaluated")])
def test_final_parameters_without_a_score_are_a_warning(unscored: bool, warning: str) -> None:
    ended = outcome(Puppet(), unscored=unscored)
    assert (ended.status, ended.warning) == ("done", warning)


def test_after_a_signal_they_are_the_reason() -> None:
    ended = outcome(Puppet(), unscored=True, interrupted=True)
    assert (ended.status, ended.warning) == ("interrupted", "")
    assert ended.reason == "max_time_s=40 reached; the final parameters were not evaluated"
