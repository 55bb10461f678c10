"""Optimus, models and growth, and as the strategy of a job: Peng et al., EuroSys 2018, sections 3 and 4.1, as public
re-implementations write them; increments of DLRover section 6.3."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache
from itertools import product
from math import inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.quota import Quota
from strategies.elastic.optimus import Optimus
from strategies.elastic.optimus.planner import Increments, Rate, Step, next_step
from strategies.elastic.optimus.remaining import MAX_POINTS, LossCurve, Remaining, fit_loss
from strategies.elastic.optimus.speed import Measured, SpeedModel, Speedometer, first_sizes, fit_speed
from strategies.protocol import Started
from tests.support.examples import examples
from tests.support.faults import Outage
from tests.support.growing import GrowingRun, numbers
from tests.support.laws import dead, played, unconserved

WORKED = SpeedModel(coefficients=(0.5, 0.2, 0.01, 0.03))
SIZES = [(1, 1), (1, 4), (2, 4), (4, 8), (2, 8), (4, 4)]


def measured(model: SpeedModel, sizes: list[tuple[int, int]]) -> list[Measured]:
    return [Measured(servers=p, workers=w, steps_per_s=model.rate(p, w)) for p, w in sizes]


coefficients = st.floats(0.001, 1.0)


@given(st.tuples(*[coefficients] * 4), st.integers(1, 3), st.integers(1, 5))
def test_the_first_sizes_tell_all_coefficients(chosen: tuple[float, ...], more_servers: int, more_workers: int) -> None:
    """Section 3.2: a job is profiled at a few sizes before it is planned for."""
    model = SpeedModel(coefficients=chosen)
    found = fit_speed(measured(model, first_sizes(1, 1, more_servers, more_workers)))
    for p, w in product((1, 3, 8), (1, 4, 16)):
        assert found.rate(p, w) == pytest.approx(model.rate(p, w), rel=1e-4)


@given(st.lists(st.floats(0.1, 10), min_size=6, max_size=6))
def test_no_coefficient_is_negative(speeds: list[float]) -> None:
    """Section 3.2: non-negative least squares: contradictory measurements make no speed negative or infinite."""
    rows = [Measured(servers=p, workers=w, steps_per_s=speed) for (p, w), speed in zip(SIZES, speeds, strict=True)]
    model = fit_speed(rows)
    assert min(model.coefficients) >= 0
    assert 0 < model.rate(3, 7) < inf


@pytest.mark.parametrize(
    ("sizes", "message"),
    [
        ([], "0 measured sizes tell 0 of 4"),
        (SIZES[:3], "3 measured sizes tell 3 of 4"),
        ([(1, 1), (1, 2), (1, 4), (1, 8), (1, 16)], "5 measured sizes tell 2 of 4"),
    ],
)
def test_sizes_that_do_not_tell_are_refused(sizes: list[tuple[int, int]], message: str) -> None:
    """Beyond the paper: at one number of servers, w/p and w cannot be distinguished."""
    with pytest.raises(ValueError, match=message):
        fit_speed(measured(WORKED, sizes))
    with pytest.raises(ValueError, match="above zero"):
        fit_speed([Measured(servers=1, workers=1, steps_per_s=0.0)])


CURVE = LossCurve(b0=0.002, b1=0.5, b2=0.3)


@examples(20)
@given(st.floats(1e-5, 0.1), st.floats(0.05, 5.0), st.floats(0.0, 3.0))
def test_a_curve_is_recovered_from_its_points(b0: float, b1: float, b2: float) -> None:
    """Section 3.1: over steps in which the loss falls by half or more."""
    curve = LossCurve(b0=b0, b1=b1, b2=b2)
    steps = np.linspace(0, 4 * b1 / b0, 20)
    found = fit_loss(list(steps), [curve.loss(k) for k in steps])
    later = 8 * b1 / b0
    assert found.loss(later) == pytest.approx(curve.loss(later), rel=1e-3)


def test_noise_moves_a_prediction_little() -> None:
    """Section 3.1: losses of single batches vary; 2 % of noise moves the convergence by less than 10 %."""
    generator = np.random.default_rng(0)
    steps = np.arange(0, 2000, 20)
    losses = [CURVE.loss(k) * (1 + 0.02 * generator.standard_normal()) for k in steps]
    found = fit_loss(list(steps), losses).steps_until_flat(100, 0.01)
    assert found == pytest.approx(CURVE.steps_until_flat(100, 0.01), rel=0.1)


@given(st.integers(1, 10_000), st.floats(1e-5, 0.5))
def test_an_epoch_at_the_end_lowers_the_loss_by_the_threshold(steps_per_epoch: int, least: float) -> None:
    """Section 3.1: a job has converged once the loss falls by less than a threshold from epoch to epoch."""
    assert LossCurve(b0=0.0, b1=0.5, b2=0.3).steps_until_flat(steps_per_epoch, least) == 0, "it has stopped learning"
    end = CURVE.steps_until_flat(steps_per_epoch, least)
    decrease = CURVE.loss(end) - CURVE.loss(end + steps_per_epoch)
    assert decrease <= least * (1 + 1e-6)
    if end > 0:
        assert decrease == pytest.approx(least, rel=1e-6)


@pytest.mark.parametrize(
    ("steps", "losses", "message"),
    [
        ([1, 2, 3], [3, 2, 1], "3 losses"),
        ([1, 1, 1, 1], [4, 3, 2, 1], "1 losses"),
        ([1, 2, 3, 4], [1, 1, 0, 1], "zero"),
    ],
)
def test_points_without_a_curve_are_refused(steps: list[float], losses: list[float], message: str) -> None:
    """Beyond the paper: three coefficients need four losses above zero."""
    with pytest.raises(ValueError, match=message):
        fit_loss(steps, losses)


BY = Increments(cores_total=64, server_cores=16, worker_cores=3)


def growth(rate: Rate, steps_left: float, by: Increments, servers: int = 1, workers: int = 1) -> Iterator[Step]:
    """All increments from here, until nothing more fits or helps."""
    while (step := next_step(rate, steps_left, servers, workers, by)) is not None:
        yield step
        servers, workers = step.servers, step.workers


def test_gains_per_cost_at_the_start() -> None:
    """Sections 3.2 and 4.1: f(p, w) = w / (a0 + a1 w/p + a2 w + a3 p), (Q / f(p, w) - Q / f(p', w')) / cost = 70 s / 16
    cores against 265 s / 3 cores."""
    assert (WORKED.rate(1, 1), WORKED.rate(2, 10)) == pytest.approx((1 / 0.74, 6.0241), abs=5e-5)
    step = next_step(WORKED.rate, 1000, 1, 1, BY)
    assert step is not None
    assert step.gain_server == pytest.approx(4.375)
    assert step.gain_worker == pytest.approx(88.333, abs=5e-4)
    assert step.role == "worker"


def test_ties_no_gains_and_what_does_not_fit() -> None:
    """Beyond the paper: equal gains. Section 4.1: until no gain is above zero. Section 4.1: until the capacity is
    exhausted, for each role."""
    by = Increments(cores_total=10, server_cores=2, worker_cores=2)
    step = next_step(lambda p, w: float(p + w), 100, 1, 1, by)
    assert step is not None
    assert (step.role, step.servers, step.workers) == ("server", 2, 1)
    assert next_step(lambda p, w: 1.0, 100, 1, 1, BY) is None
    assert list(growth(lambda p, w: 1 / (p + w), 100, BY)) == []
    by = Increments(cores_total=20, server_cores=16, worker_cores=2)
    step = next_step(lambda p, w: float(p * p + w), 100, 1, 1, by)
    assert step == Step(
        role="worker", servers=1, workers=2, gain_server=None, gain_worker=pytest.approx((50 - 100 / 3) / 2)
    )


models = st.builds(SpeedModel, coefficients=st.tuples(*[st.floats(0.0001, 1.0)] * 4))


@given(models, st.integers(20, 60))
def test_every_increment_fits_helps_and_helps_most_per_core(model: SpeedModel, total: int) -> None:
    """Section 4.1: no allocation exceeds the capacity, every step has a gain, and brute force finds none larger."""
    by = Increments(cores_total=total, server_cores=8, worker_cores=3)
    p = w = 1
    for step in growth(model.rate, 1000, by):
        lawful = [(q, v) for q, v in ((p + 1, w), (p, w + 1)) if by.cores(q, v) <= total]
        gains = [
            (1000 / model.rate(p, w) - 1000 / model.rate(q, v)) / (by.cores(q, v) - by.cores(p, w)) for q, v in lawful
        ]
        taken = (step.servers, step.workers)
        assert gains[lawful.index(taken)] == pytest.approx(max(gains))
        assert max(gains) > 0
        p, w = taken


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


@cache
def profiled(seamless: bool) -> GrowingRun:
    return grown(profile=PROFILE, seamless=seamless)


@pytest.mark.parametrize("seamless", [False, True])
def test_it_grows_by_the_larger_gain_per_core(seamless: bool) -> None:
    """Section 4.1: five workers, a server, four workers: then neither fits into 64 cores."""
    job = profiled(seamless)
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
    stopped, seamless = profiled(False), profiled(True)
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


@pytest.mark.long(like="test_what_is_denied_is_not_asked_for_again")
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
    assert remaining.updates_left() is None, "no loss is known"
    for step in range(1000):
        remaining.observe_loss(curve.loss(step))
        remaining.count()
    assert remaining.updates_left() == pytest.approx(curve.steps_until_flat(100, 0.01) - 1000, rel=0.02)
    assert len(remaining._losses) < MAX_POINTS
    remaining = Remaining()
    remaining.start(Started(t=0.0, workers=(0, 1), batch_samples=(2, 2), num_servers=1, total_samples=101))
    for _ in range(20):
        remaining.count()
    assert remaining.updates_left() == 51 - 20, "an update uses the batch of one worker"
    remaining.roll_back(5)
    assert remaining.updates_left() == 51 - 5
    curve, remaining = LossCurve(b0=0.002, b1=0.5, b2=0.3), Remaining(flat_steps=100, flat_loss=0.01)
    remaining.start(Started(t=0.0, workers=(0,), batch_samples=(1,), num_servers=1))
    for step in range(1000):
        remaining.observe_loss(curve.loss(step) if step < 500 else 9.0)
        remaining.count()
    remaining.roll_back(500)
    assert remaining.updates_left() == pytest.approx(curve.steps_until_flat(100, 0.01) - 500, rel=0.02)


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
