"""A job whose time is up while somebody is lost: what that makes of its end."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core import inputs
from strategies.protocol import NodeId
from tests.support.harness import Desk, Puppet, compute, make_job


def begun(stuck_after_s: float | None = 10.0, **changes: Any) -> Desk:
    """A job of 40 s whose four workers compute until the test says otherwise."""
    desk = Desk(Puppet(), make_job(stuck_after_s=stuck_after_s, **changes)).start()
    desk.say(*compute(0, 1, 2, 3))
    return desk


def settle(desk: Desk, *workers: int) -> None:
    for worker in workers:
        desk.arrive(worker)


def end(desk: Desk) -> tuple[str | None, str]:
    desk.core.receive(40.0, inputs.TimerFired("runtime:limit"))
    assert desk.core.finished_s == 40.0
    return desk.core.status, desk.core.reason


def test_who_waits_for_a_lost_worker_until_its_time_is_up_has_failed() -> None:
    desk = begun()
    settle(desk, 0, 1, 2)
    desk.lose(3, 12.0)
    assert end(desk) == (
        "failed",
        "max_time_s=40 reached, and nothing was computed in the last 28.0 s; "
        "worker:3 was lost at 12.0 s and is not back",
    )


def test_who_waits_for_a_lost_server_until_its_time_is_up_has_failed() -> None:
    desk = begun()
    desk.lose_server(12.0)
    assert end(desk) == (
        "failed",
        "max_time_s=40 reached, and nothing was computed in the last 28.0 s; "
        "server:0 was lost at 12.0 s and is not back",
    )


@pytest.mark.parametrize(("lost_s", "status"), [(30.0, "failed"), (31.0, "done")])
def test_a_restart_that_is_under_way_at_the_end_is_no_failure(lost_s: float, status: str) -> None:
    """Within the time for which a job may be idle."""
    desk = begun()
    desk.lose_server(lost_s)
    status_, reason = end(desk)
    assert status_ == status
    assert reason.startswith("max_time_s=40 reached")
    assert reason.endswith(f"; server:0 was lost at {lost_s:.1f} s and is not back")


@pytest.mark.parametrize(("lost_s", "status"), [(20.0, "failed"), (21.0, "done")])
def test_half_of_its_time_is_too_long_in_any_case(lost_s: float, status: str) -> None:
    desk = begun(stuck_after_s=1000.0)
    desk.lose_server(lost_s)
    assert end(desk)[0] == status


def test_it_can_be_switched_off() -> None:
    desk = begun(stuck_after_s=None)
    desk.lose_server(2.0)
    assert end(desk) == ("done", "max_time_s=40 reached; server:0 was lost at 2.0 s and is not back")


def test_others_that_compute_meanwhile_make_it_a_good_end() -> None:
    desk = begun()
    desk.lose(3, 12.0)
    assert end(desk) == ("done", "max_time_s=40 reached; worker:3 was lost at 12.0 s and is not back")


def test_whoever_is_back_is_not_missing() -> None:
    desk = begun()
    settle(desk, 0, 1, 2)
    desk.lose(3, 5.0)
    desk.join(3, 6.0)
    desk.say(*compute(3))
    desk.lose_server(8.0)
    desk.restore(9.0)
    desk.say(*compute(0))
    assert end(desk) == ("done", "max_time_s=40 reached")


def test_one_that_dies_again_before_it_is_back_has_been_away_since_the_first_time() -> None:
    desk = begun()
    settle(desk, 0, 1, 2)
    desk.lose(3, 5.0)
    desk.core.receive(35.0, inputs.WorkerLost(3, 1, "killed", True))
    assert "in the last 35.0 s; worker:3 was lost at 5.0 s" in end(desk)[1]


def test_one_that_nobody_waits_for_is_not_missing() -> None:
    desk = begun()
    desk.lose(3, 5.0, restarting=False)
    assert end(desk) == ("done", "max_time_s=40 reached")


def test_what_a_strategy_restarts_is_not_lost() -> None:
    desk = begun()
    news = inputs.ServerLost(0, 0, "restarted by the strategy", "restarted", True)
    desk.server_is_lost(5.0, news)
    assert desk.core.missing.since_s == {}
    assert end(desk) == ("done", "max_time_s=40 reached")


def test_a_few_of_those_who_are_missing_are_named() -> None:
    desk = begun(num_workers=8)
    for worker in range(6):
        desk.lose(worker, 5.0)
    assert set(desk.core.missing.since_s) == {NodeId.worker(worker) for worker in range(6)}
    assert desk.core.missing.words.endswith("worker:3 was lost at 5.0 s and is not back, and others")
