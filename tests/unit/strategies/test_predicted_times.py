"""Predicted iteration times and stragglers, by any predictor."""

from __future__ import annotations

from typing import Any

import pytest

from predictors.stragglers import Observation
from strategies.protocol import Arrived, Lost, Ready, Started, Timings
from strategies.star.predicted import PredictedTimes
from tests.support.grads import make_grad


def detector(**settings: Any) -> PredictedTimes:
    found = PredictedTimes(**{"predictor": "last_value", "warmup_iters": 0, **settings})
    found.start(Started(t=0.0, workers=(0, 1, 2), batch_samples=(1, 1, 1), num_servers=1))
    return found


def arrive(of: PredictedTimes, worker: int, seconds: float, t: float = 1.0, samples: int = 4) -> None:
    grad = make_grad(worker, samples, assigned_samples=4)
    of.observe_event(Arrived(t=t, grad=grad, timings=Timings(compute_s=seconds - 0.01, recv_s=0.01)))


def lose(of: PredictedTimes, worker: int, restarting: bool) -> None:
    of.observe_event(Lost(t=2.0, worker=worker, incarnation=0, reason="", restarting=restarting))


def told(of: PredictedTimes, workers: tuple[int, ...] = (0, 1, 2), **more: float) -> tuple[list[float], set[int]]:
    outlook = of.outlook(workers, 2.0, **more)
    assert outlook is not None
    return [round(time_s, 6) for time_s in outlook.times_s], set(outlook.tagged)


def test_own_times_are_predicted_and_slow_workers_tagged() -> None:
    of = detector()
    for worker, seconds in enumerate((1.0, 1.2, 1.21)):
        arrive(of, worker, seconds)
    assert told(of) == ([1.0, 1.2, 1.21], {2})
    of = detector()
    arrive(of, 0, 1.0)
    arrive(of, 1, 3.0)
    assert told(of) == ([1.0, 3.0, 2.0], {1})
    # Three iterations of a second, then one of 60: at most five times as long is believed
    of = detector()
    for worker, seconds in ((0, 1.0), (1, 1.0), (1, 1.0), (1, 1.0), (1, 60.0)):
        arrive(of, worker, seconds)
    assert told(of, (0, 1)) == ([1.0, 5.0], {1})


def test_without_sending_an_iteration_ends_when_its_gradient_is_ready() -> None:
    """Of sums, which have no times, nothing else is known."""
    of = detector(with_sending=False)
    for worker, seconds in enumerate((1.0, 1.5)):
        timings = Timings(compute_s=seconds)
        of.observe_event(Ready(t=1.0, grad=make_grad(worker, 4), timings=timings, num_bytes=8))
        arrive(of, worker, 9.0)
    assert told(of, (0, 1)) == ([1.0, 1.5], {1})


def test_one_worker_straggles_behind_nobody() -> None:
    of = detector()
    assert of.outlook((0, 1), 1.0) is None
    arrive(of, 0, 1.0)
    assert of.outlook((0, 1), 1.0) is None
    arrive(of, 1, 4.0, samples=1)
    assert of.outlook((0, 1), 1.0) is None, "a short batch tells nothing"


def test_a_restarting_worker_keeps_its_time_and_one_that_left_does_not() -> None:
    of = detector()
    for worker, seconds in enumerate((1.0, 1.0, 4.0)):
        arrive(of, worker, seconds)
    told(of)
    lose(of, 2, restarting=True)
    assert told(of) == ([1.0, 1.0, 4.0], {2})
    arrive(of, 2, 1.0)
    assert told(of) == ([1.0, 1.0, 1.0], set())
    arrive(of, 1, 4.0)
    lose(of, 1, restarting=False)
    assert told(of) == ([1.0, 1.0, 1.0], set())


def test_tags_without_times_come_with_the_last_times() -> None:
    """Slow for two seconds."""
    of = detector(predictor="fixed_duration", settings={"duration_s": 2.0})
    for t in (1.0, 2.0, 3.0):
        arrive(of, 0, 1.0, t)
        assert of.outlook((0, 1), t) is None or told(of, (0, 1)) == ([1.0, 4.0], set())
        arrive(of, 1, 4.0, t)
    assert told(of, (0, 1)) == ([1.0, 4.0], {1})


class Rising:
    """A predictor of several iterations: worker 1 becomes a tenth of a second slower with each."""

    def update(self, observation: Observation) -> None:
        return None

    def forget(self, worker: int) -> None:
        return None

    def tags(self, t: float) -> frozenset[int]:
        raise AssertionError("times tell")

    def seconds_ahead(self, first: int, last: int) -> dict[int, tuple[float, ...]]:
        steps = range(first, last + 1)
        return {0: (1.0,) * len(steps), 1: tuple(1.0 + 0.1 * step for step in steps)}


def test_a_predictor_may_tell_later_iterations_apart(monkeypatch: pytest.MonkeyPatch) -> None:
    """Over three iterations: 1.1, 1.2 and 1.3 s, of which the last straggles. Two seconds are two iterations."""
    monkeypatch.setattr(PredictedTimes, "_predictor", lambda _: Rising())
    of = detector(horizon_iters=3)
    for worker in (0, 1):
        arrive(of, worker, 1.0)
    assert told(of, (0, 1)) == ([1.0, 1.2], {1})
    assert told(of, (0, 1), lead_s=2.0) == ([1.0, 1.4], {1})
    short = detector(horizon_iters=2)
    for worker in (0, 1):
        arrive(short, worker, 1.0)
    assert told(short, (0, 1)) == ([1.0, 1.15], set())


@pytest.mark.parametrize("bad", [0.0, -1.0, float("nan"), float("inf")])
def test_nothing_is_decided_by_what_is_no_time(bad: float, monkeypatch: pytest.MonkeyPatch) -> None:
    of = detector()
    for worker in (0, 1):
        arrive(of, worker, 1.0)
    monkeypatch.setattr(of._of, "seconds", lambda: {0: 1.0, 1: bad})
    assert of.outlook((0, 1), 2.0) is None


def test_what_an_iteration_received_is_passed_to_the_predictor(monkeypatch: pytest.MonkeyPatch) -> None:
    """0.3 processor seconds in 2 s, half of which it slept, and 8 MB in 0.2 s."""
    of = PredictedTimes(warmup_iters=0)
    of.start(Started(t=0.0, workers=(0, 1), batch_samples=(4, 4), num_servers=1, model_bytes=8_000_000))
    seen: list[Observation] = []
    monkeypatch.setattr(of._of, "update", seen.append)
    grad = make_grad(samples=4, iteration=5)
    timings = Timings(compute_s=1.8, send_s=0.2, injected_s=1.0, cpu_s=0.3, recv_s=0.1)
    of.observe_event(Arrived(t=1.0, grad=grad, timings=timings))
    assert seen[0].cpu_frac == pytest.approx(0.15)
    assert seen[0].bytes_per_s == pytest.approx(4e7)
    assert (seen[0].samples, seen[0].iteration, seen[0].iter_s) == (4.0, 5, pytest.approx(2.1))
