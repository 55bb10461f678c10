"""Which iterations count, what is a worker's own of them, and who is slow by it."""

from __future__ import annotations

import random

import pytest

from runtime.live.transport import links as links_module
from strategies.basic.dynamic_x import OwnTimes
from strategies.lb_bsp.by_speed import Regaining
from strategies.lb_bsp.by_steps import Balancer, StepsSettings
from strategies.lb_bsp.forecast import Forecast
from strategies.parts.monitoring.base import Warmup, cluster_by_ratio
from strategies.protocol import Arrived, Lost, Started, Timings
from strategies.sync_switch.flagged import SlowLately
from tests.support.grads import make_grad
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
    times = [(0.05 * t, worker, draw.lognormvariate(0.0, 0.13)) for t in range(400) for worker in range(num_workers)]
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
