"""Optimus as a strategy of a running job: after Peng et al., EuroSys 2018, sections 3 and 4.1, and DLRover (Wang et
al., arXiv:2304.01468) section 6.3, which compares with it."""

from __future__ import annotations

from typing import Any

import pytest

from runtime.core.quota import Quota
from strategies.elastic.optimus import Optimus
from strategies.elastic.optimus.remaining import MAX_POINTS, LossCurve, Remaining
from strategies.elastic.optimus.speed import SpeedModel, Speedometer
from strategies.protocol import Started
from tests.support.faults import Outage
from tests.support.growing import GrowingRun, numbers
from tests.support.laws import dead, played, unconserved

WORKED = SpeedModel(coefficients=(0.5, 0.2, 0.01, 0.03))
PROFILE = tuple((p, w, WORKED.rate(p, w)) for p, w in [(1, 1), (1, 4), (2, 4), (4, 8), (2, 8), (4, 4)])
"""Six measured sizes of a job whose iteration takes .5 + .2 w/p + .01 w + .03 p seconds."""
CORES = {"cores_total": 64, "server_cores": 16, "worker_cores": 3}


def optimus(**changes: Any) -> Optimus:
    """A third of the comparison's times: a size is measured for 20 s, and an increment is added every 60 s."""
    return Optimus(**{**CORES, "sample_s": 20.0, "adjust_every_s": 60.0, **changes})


def grown(max_time_s: float = 900.0, run: dict[str, Any] | None = None, **changes: Any) -> GrowingRun:
    """A job that has grown for so long; nothing was refused."""
    job = GrowingRun(optimus(**changes), WORKED.rate, max_time_s=max_time_s, **(run or {}))
    assert played(job) == []
    return job


@pytest.mark.few(1)
@pytest.mark.parametrize("seamless", [False, True])
def test_it_grows_by_the_larger_gain_per_core(seamless: bool) -> None:
    """Section 4.1: five workers, a server, four workers: then neither fits into 64 cores."""
    job = grown(profile=PROFILE, seamless=seamless)
    assert job.asked == "WWWWWPWWWW"
    assert job.size == (2, 10)
    assert "stays" in job.decisions[-1]
    assert job.lines[-1].event.t > 0
    last = [line.state for line in job.lines if line.state][-1]
    assert (last["cores"], last["steps_per_s"]) == (62, pytest.approx(6.0241, rel=0.02))


def test_without_a_profile_the_job_tries_sizes_itself() -> None:
    """Section 3.2: four sizes tell the four coefficients; growth from there ends at the same size."""
    job = grown()
    tried = [one.split(":")[0].split(", ", 1)[1] for one in job.decisions if " try, " in one]
    assert tried == ["1 servers, 2 workers", "2 servers, 1 workers", "2 servers, 2 workers"]
    assert job.size == (2, 10)
    last = numbers(job.decisions[-1])
    assert [last[f"a{i}"] for i in range(4)] == pytest.approx(list(WORKED.coefficients), abs=0.02)


def test_a_stop_and_restart_restarts_every_worker() -> None:
    """DLRover section 6.3: each adjustment initialises training again; a seamless one restarts nobody."""
    stopped, seamless = grown(profile=PROFILE), grown(profile=PROFILE, seamless=True)
    first = stopped.launches[0][0]
    assert [node for t, node, _ in stopped.restarts if t == first] == ["worker:0"]
    assert len(stopped.restarts) == (1 + 2 + 3 + 4 + 5) + 6 + (6 + 7 + 8 + 9), "all present workers"
    assert seamless.restarts == []


def test_what_is_denied_is_not_asked_for_again() -> None:
    """Beyond the paper: a cluster that has no second server; workers are added instead, as far as they fit."""
    job = grown(profile=PROFILE, run={"scheduler": Quota(cores_total=45)})
    assert job.asked == "WWWWWWWW"
    assert job.size == (1, 9)
    assert job.denied == ["server:1", "worker:9"]
    assert "stays" in job.decisions[-1]


@pytest.mark.parametrize(
    ("after_s", "seamless"),
    [(1.25, True), *(pytest.param(*row, marks=pytest.mark.long) for row in ((0.75, False), (2.5, True)))],
)
def test_a_server_that_is_lost_during_a_switch(after_s: float, seamless: bool) -> None:
    """Beyond the paper: the switch continues or is given up; every sample is used once, and the job grows on."""
    asked_s = next(t for t, order in grown(profile=PROFILE, seamless=seamless).launches if "server" in order.node)
    outage = Outage(asked_s + after_s, 2.0)
    job = grown(3000.0, profile=PROFILE, seamless=seamless, run={"faults": [outage], "samples": 2500})
    assert job.happened == [outage]
    assert dead(job) + unconserved(job) == []
    assert job.size[1] >= 9


def test_the_loss_tells_how_many_updates_are_left_and_a_rollback_takes_them_back() -> None:
    """Section 3.1: the updates until the loss falls by less than a threshold, from the fitted curve. Beyond the
    paper: what was observed after the stored parameters is not on the curve of those that follow."""
    curve, remaining = LossCurve(b0=0.002, b1=0.5, b2=0.3), Remaining(flat_steps=100, flat_loss=0.01)
    remaining.start(Started(t=0.0, workers=(0,), batch_samples=(1,), num_servers=1))
    assert remaining.left() is None, "no loss is known"
    for step in range(1000):
        remaining.observe_loss(curve.loss(step))
        remaining.count()
    assert remaining.left() == pytest.approx(curve.steps_until_flat(100, 0.01) - 1000, rel=0.02)
    assert len(remaining._losses) < MAX_POINTS
    remaining = Remaining()
    remaining.start(Started(t=0.0, workers=(0, 1), batch_samples=(2, 2), num_servers=1, total_samples=101))
    for _ in range(20):
        remaining.count()
    assert remaining.left() == 51 - 20, "an update uses the batch of one worker"
    remaining.rolled_back(5)
    assert remaining.left() == 51 - 5
    curve, remaining = LossCurve(b0=0.002, b1=0.5, b2=0.3), Remaining(flat_steps=100, flat_loss=0.01)
    remaining.start(Started(t=0.0, workers=(0,), batch_samples=(1,), num_servers=1))
    for step in range(1000):
        remaining.observe_loss(curve.loss(step) if step < 500 else 9.0)
        remaining.count()
    remaining.rolled_back(500)
    assert remaining.left() == pytest.approx(curve.steps_until_flat(100, 0.01) - 500, rel=0.02)


def test_speeds_are_measured_after_a_change_and_over_whole_intervals() -> None:
    """DLRover section 6.3: a sample begins after launch and initialisation; two updates a second, skipping 5 s.
    Beyond the paper: four workers in step, an update of each every two seconds, are two a second."""
    speedometer = Speedometer(sample_s=10.0, skip_s=5.0)
    speedometer.begin(100.0)
    for half in range(220, 232):
        speedometer.count(half / 2)
    assert speedometer.rate(114.9) is None, "neither 10 s nor the first five count"
    assert speedometer.rate(115.0) == pytest.approx(2.0)
    speedometer.begin(116.0)
    assert speedometer.rate(200.0) is None, "nothing has arrived since"
    speedometer = Speedometer(sample_s=4.0)
    for t in (1.0, 3.0, 5.0):
        for _ in range(4):
            speedometer.count(t)
    assert speedometer.rate(5.0) == pytest.approx(2.0)


@pytest.mark.parametrize("rows", [[[1, 1]], [[0, 1, 2.0]], "many", [[1, 1, -2.0]]])
def test_a_profile_is_checked(rows: Any) -> None:
    """Beyond the paper: settings are refused by name."""
    with pytest.raises(ValueError, match="profile="):
        Optimus(profile=rows)
