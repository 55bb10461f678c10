"""Which iterations count, what is a worker's own of them, who is slow by it, and who will be by any predictor."""

from __future__ import annotations

import random
from typing import Any

import pytest

from predictors.stragglers import Observation
from runtime.live.transport import links as links_module
from strategies.basic.dynamic_x import OwnTimes
from strategies.lb_bsp.by_speed import Regaining
from strategies.lb_bsp.by_steps import Balancer, StepsSettings
from strategies.lb_bsp.forecast import Forecast
from strategies.parts.monitoring.alarms import Alarms
from strategies.parts.monitoring.base import Warmup, cluster_by_ratio
from strategies.protocol import Arrived, Lost, Ready, Started, Timings
from strategies.star.predicted import PredictedTimes
from strategies.sync_switch.flagged import SlowLately
from tests.contract.catalogue import make
from tests.support.grads import make_grad
from tests.support.harness import HeapRun, make_job
from tests.support.scanning import scanned_clusters
from tests.unit.live.test_datalink import GENERATION, Servers, pack, vector
from tests.unit.live.test_datalink import PARAMS as PARAMS_FRAME


def test_own_time_leaves_out_what_is_waited_for_others() -> None:
    received = Timings(wait_s=1.0, data_s=2.0, pull_s=4.0, recv_s=0.5, compute_s=8.0, send_s=16.0)
    assert (received.bpt_s, received.iter_s, received.own_s) == (10.0, 26.0, 26.5)


def test_live_waiting_for_a_header_is_waiting_for_the_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """A header that takes 10 s to come and a payload that takes 1: of two servers 2 s are the way's."""
    now_s, original = [0.0], links_module.receive_into

    def slowly(sock: object, view: memoryview, *look: object) -> None:
        now_s[0] += 10.0 if isinstance(view.obj, bytearray) else 1.0
        original(sock, view, *look)  # type: ignore[arg-type]

    monkeypatch.setattr(links_module, "receive_into", slowly)
    monkeypatch.setattr(links_module.time, "perf_counter", lambda: now_s[0])
    servers = Servers(32)
    try:
        for ticket in (5, 6):
            for sock in servers.theirs:
                sock.sendall(pack(PARAMS_FRAME, GENERATION, ticket, 9, 64) + vector(1.0, size=16).tobytes())
            servers.links.receive_params(ticket)
            assert servers.links.received_s == 2.0
    finally:
        servers.close()


STARTED = Started(t=0.0, workers=(0,), batch_samples=(8,), num_servers=1)


def arrived(t: float, worker: int, own_s: float, samples: int = 8) -> Arrived:
    timings = Timings(compute_s=own_s / 2, send_s=own_s / 4, recv_s=own_s / 4)
    return Arrived(t=t, grad=make_grad(worker, samples), timings=timings)


def test_the_window_slides_and_keeps_nothing_else() -> None:
    own = OwnTimes(2.0, warmup_iters=1)
    own.start(STARTED)
    for t in range(1, 1001):
        own.observe_event(arrived(float(t), 0, float(t)))
    assert own.expected_s(0, 1000.0) == 999.0
    assert own.expected_s(0, 1002.0) == 1000.0
    assert own.expected_s(0, 1003.0) is None
    assert len(own._records[0]) == 3
    own.observe_event(Lost(t=1000.0, worker=0, incarnation=0, reason="", restarting=True))
    assert own.expected_s(0, 1000.0) is None


def flags(times: list[tuple[float, int, float]], duration_s: float = 2.0) -> list[set[int]]:
    slow, found = SlowLately(0.2, duration_s), []
    for t, worker, seconds in times:
        slow.observe_duration(t, worker, seconds)
        found.append(set(slow.flagged))
    return found


def test_flags_of_those_that_are_slow_throughout() -> None:
    """Three at 1 s, one at 2 s from the start: at 2 s of its being slow it is flagged; of 2, 2, 1 the median is
    still 2, of 2, 1, 1 it is 1."""
    three = [(float(t), worker, 1.0) for t in range(12) for worker in (0, 1, 2)]
    fourth = [(t, 3, 2.0 if t < 6 else 1.0) for t in (0.5, 1.5, 2.5, 3.5, 4.5, 5.5, 6.5, 7.5, 8.5)]
    merged = sorted(three + fourth)
    found = {t: flagged for (t, worker, _), flagged in zip(merged, flags(merged), strict=True) if worker == 3}
    assert [t for t in sorted(found) if found[t]] == [2.5, 3.5, 4.5, 5.5, 6.5]
    times = [(float(t), worker, 9.0 if (t, worker) == (5, 3) else 1.0) for t in range(12) for worker in range(4)]
    assert set().union(*flags(times)) == set()
    # Of a usual second, 1.2 s are slow and the flag goes at a median of 1.1 s: 1.15 s keep it, 1.05 s end it
    for after_s, kept in ((1.15, {3}), (1.05, set())):
        three = [(float(t), worker, 1.0) for t in range(12) for worker in (0, 1, 2)]
        fourth = [(t + 0.5, 3, 2.0 if t < 4 else after_s) for t in range(11)]
        assert flags(sorted(three + fourth))[-1] == kept


@pytest.mark.parametrize("num_workers", [4, 64])
def test_noise_is_no_straggler(num_workers: int) -> None:
    """A tenth of noise: the fastest of 64 is 1.3 times as fast as the middle one, and nobody is slow."""
    draw = random.Random(num_workers)
    times = [(0.05 * t, worker, draw.lognormvariate(0.0, 0.13)) for t in range(150) for worker in range(num_workers)]
    assert set().union(*flags(times, 1.0)) == set()


def test_only_who_costs_more_than_it_contributes_is_left_out() -> None:
    """Rounds of n whose slowest takes T do n / T a second: (1, 1, 1, 1.3) 3.08 with all and 3 without the last;
    (1, 1, 1, 1.4) 2.86 and 3; (1, 1, 1, 1.4, 1.4) 3.57 and 3."""
    for seconds, left_out in (((1, 1, 1, 1.3), set()), ((1, 1, 1, 1.4), {3}), ((1, 1, 1, 1.4, 1.4), set())):
        slow = SlowLately(0.2, 1.0)
        for t in range(4):
            for worker, own_s in enumerate(seconds):
                slow.observe_duration(float(t), worker, own_s)
        assert slow.flagged == {worker for worker, own_s in enumerate(seconds) if own_s > 1.2}
        assert slow.not_worth_waiting_for() == left_out


def test_a_worker_that_was_slow_has_its_samples_back_within_a_few_rounds() -> None:
    """F = 20 ms + 1.25 ms a sample; worker 0 three times as slow for 200 rounds. The first step is a quarter of the
    share, a window 8 rounds: without memory of what it had the way back takes as many windows as the way there."""
    balancer, sizes, back = (
        Balancer(StepsSettings(window_iters=8, dead_band_frac=0.05, halving=True, unanimous=False), 8),
        dict.fromkeys(range(4), 32),
        [],
    )
    for number in range(400):
        factor = 3.0 if 100 <= number < 300 else 1.0
        times = {worker: (factor if worker == 0 else 1.0) * (0.02 + 0.00125 * size) for worker, size in sizes.items()}
        balancer.round_done(times, sizes)
        if move := balancer.move(sizes, [1] * 4, [None] * 4):
            sizes[move.leader] += move.samples
            sizes[move.straggler] -= move.samples
        if number == 299:
            assert sizes[0] < 16
        elif number >= 300 and sizes[0] >= 28:
            back.append(number - 299)
    assert back[0] <= 24
    assert sum(sizes.values()) == 128


def test_by_rounding_alone_nobody_keeps_one_sample() -> None:
    """One sample in 21 ms, eight in 30: a sixth of the speed, a share of 1.4 samples. It is given a second one; where
    that did not last, tries become rare."""
    speeds, before = [1 / 0.02125] + [8.47 / 0.0306] * 15, [1] + [9] * 7 + [8] * 8
    regaining = Regaining()
    found = [regaining.lows(128, range(16), speeds, before, before, [1] * 16)[0] for _ in range(40)]
    assert [number for number, low in enumerate(found) if low == 2] == [0, 1, 3, 7, 15, 31]
    equal = Regaining().lows(10, range(4), [1.0] * 4, [3, 3, 2, 2], [3, 3, 2, 2], [1] * 4)
    assert equal == [1] * 4, "an even share and a remainder is no rounding error"


def test_one_long_iteration_does_not_change_a_forecast() -> None:
    patient, published = Forecast("last", 0.2, 1, confirm_iters=2), Forecast("last", 0.2, 1)
    for forecast in (patient, published):
        forecast.start(STARTED)
    for own_s in (1.0, 1.0, 9.0):
        for forecast in (patient, published):
            forecast.arrived(arrived(0.0, 0, 2 * own_s))
    assert (patient.speeds([0]), published.speeds([0])) == ([8.0], [8 / 9])
    patient.arrived(arrived(0.0, 0, 18.0))
    assert patient.speeds([0]) == [8 / 9]


def an_iteration(incarnation: int = 0, samples: int = 4, compute_s: float = 1.0) -> Arrived:
    grad = make_grad(samples=samples, incarnation=incarnation, assigned_samples=4)
    return Arrived(t=1.0, grad=grad, timings=Timings(compute_s=compute_s), loss=None, sqr_norm=None)


def test_which_iterations_tell_how_fast_a_worker_is() -> None:
    warmup = Warmup(2)
    received = [warmup.tells(an_iteration(incarnation)) for incarnation in (0, 0, 0, 0, 1, 1, 1)]
    assert received == [False, False, True, True, False, False, True]
    warmup = Warmup(0)
    assert warmup.tells(an_iteration())
    assert not warmup.tells(an_iteration(samples=3))
    assert not warmup.tells(an_iteration(samples=0))
    assert not warmup.tells(an_iteration(compute_s=0.0))


def test_clusters() -> None:
    """Many values are equal, so that ties decide."""
    draw = random.Random(0)
    for _ in range(1000):
        values = [draw.choice([1.0, 1.5, 2.0, 3.0, draw.uniform(1, 4)]) for _ in range(draw.randrange(12))]
        ratio, at_most = draw.choice([1.0, 1.1, 1.5, 2.0]), draw.choice([None, 1, 2, 5])
        assert cluster_by_ratio(values, ratio, at_most) == scanned_clusters(values, ratio, at_most)


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


def restarts(seconds: list[float], min_slow_s: float = 2.0, **settings: Any) -> list[tuple[float, str]]:
    """When the watchdog restarts whom, in 30 s of workers that take so long; a restarted one is as slow as before."""
    given = {"detectors.alarms.predictor": "last_value", "detectors.alarms.warmup_iters": 0, **settings}
    given |= {"actions.kill_restart.min_slow_s": min_slow_s, "decide_every_s": 1.0}
    job = make_job(num_workers=len(seconds), global_batch_samples=2 * len(seconds), max_time_s=30.0)
    return [(t, node) for t, node, _ in HeapRun(make("watchdog", **given), job, seconds).run().restarts]


def test_who_is_tagged_for_long_enough_is_restarted_slowest_first() -> None:
    """Worker 1 takes twice as long; its first iteration ends at 1 s, its alarm is read from then on."""
    found = restarts([0.5, 1.0, 0.5])
    assert [node for _, node in found] == ["worker:1"] * len(found)
    assert 3.0 <= found[0][0] <= 4.0
    assert found[1][0] - found[0][0] >= 12.0, "cooldown_s"
    # Not the one with the lowest number
    assert restarts([0.1, 0.2, 0.4, 0.1], min_slow_s=0.0)[0][1] == "worker:2"


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        ({"predictor": "oracle"}, "predictor=oracle: reads the plan"),
        ({"predictor": "nvrx", "settings": {"treshold": 1}}, "predictor=nvrx:treshold=1: no such setting"),
        ({"warmup_iters": -1}, "warmup_iters=-1"),
    ],
)
def test_an_impossible_detector_is_refused_by_name(settings: dict[str, Any], said: str) -> None:
    with pytest.raises(ValueError, match=said):
        Alarms(**settings)
