"""A job whose time is up while somebody is lost: what that makes of its end."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import inputs
from tests.support.harness import Puppet, Rig, compute, make_job


def begun(stuck_after_s: float | None = 10.0, **changes: Any) -> Rig:
    """A job of 40 s whose four workers compute until the test says otherwise."""
    rig = Rig(Puppet(), make_job(stuck_after_s=stuck_after_s, **changes)).start()
    rig.say(*compute(0, 1, 2, 3))
    return rig


def end(rig: Rig) -> tuple[str | None, str]:
    rig.core.receive(40.0, inputs.TimerFired("runtime:limit"))
    assert rig.core.finished_s == 40.0
    return rig.core.status, rig.core.reason


@pytest.mark.parametrize("lost", ["worker:3", "server:0"])
def test_who_waits_for_somebody_lost_until_its_time_is_up_has_failed(lost: str) -> None:
    rig = begun()
    for worker in range(3):
        rig.arrive(worker)
    rig.lose(3, 12.0) if lost == "worker:3" else rig.lose_server(12.0)
    reason = "max_time_s=40 reached, and nothing was computed in the last 28.0 s; "
    assert end(rig) == ("failed", f"{reason}{lost} was lost at 12.0 s and is not back")


@pytest.mark.parametrize(("lost_s", "status"), [(30.0, "failed"), (31.0, "done")])
def test_a_restart_that_is_under_way_at_the_end_is_no_failure(lost_s: float, status: str) -> None:
    """Within the time for which a job may be idle."""
    rig = begun()
    rig.lose_server(lost_s)
    status_, reason = end(rig)
    assert status_ == status
    assert reason.startswith("max_time_s=40 reached")
    assert reason.endswith(f"; server:0 was lost at {lost_s:.1f} s and is not back")


def test_whoever_is_back_is_not_missing() -> None:
    rig = begun()
    for worker in range(3):
        rig.arrive(worker)
    rig.lose(3, 5.0)
    rig.join(3, 6.0)
    rig.say(*compute(3))
    rig.lose_server(8.0)
    rig.restore(9.0)
    rig.say(*compute(0))
    assert end(rig) == ("done", "max_time_s=40 reached")


def test_one_that_dies_again_before_it_is_back_has_been_away_since_the_first_time() -> None:
    rig = begun()
    for worker in range(3):
        rig.arrive(worker)
    rig.lose(3, 5.0)
    rig.core.receive(35.0, inputs.WorkerLost(3, 1, "killed", True))
    assert "in the last 35.0 s; worker:3 was lost at 5.0 s" in end(rig)[1]


def test_what_a_strategy_restarts_is_not_lost() -> None:
    rig = begun()
    news = inputs.ServerLost(0, 0, "restarted by the strategy", "restarted", True)
    rig.server_is_lost(5.0, news)
    assert rig.core.missing.since_s == {}
    assert end(rig) == ("done", "max_time_s=40 reached")
