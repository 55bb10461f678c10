"""Parts of AntDT: who is slow, who may be restarted, sizes with a base, types of devices and their drifts."""

from __future__ import annotations

from statistics import median
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.antdt.adjust_bs import speeds_of
from strategies.antdt.detector import CENTERS, MOST_BASE, Base, StragglerDetector, bounds, fit_base, slow, still_slow
from strategies.antdt.kill_restart import KillRestart
from strategies.antdt.profiling import Drifts, find_devices
from strategies.parts.load.allocation import round_sizes, slowest_s
from strategies.protocol import NodeId, Started
from tests.support.examples import examples

Seconds = st.dictionaries(st.integers(0, 50), st.floats(0.01, 100), min_size=2, max_size=12)


@examples(20)
@given(seconds=Seconds)
def test_the_median_is_that_of_the_others(seconds: dict[int, float]) -> None:
    found = bounds(seconds, 2.0, "median_others")
    for node in seconds:
        others = [taken for other, taken in seconds.items() if other != node]
        assert found[node] == pytest.approx(2.0 * median(others))


def test_who_takes_so_many_times_as_long_is_slow_slowest_first() -> None:
    assert slow({3: 9.0, 1: 8.0, 2: 9.0, 0: 1.0, 4: 1.0, 5: 1.0}, 1.5) == [2, 3, 1]
    assert slow({0: 2.0, 1: 2.0, 2: 2.0, 3: 3.0}, 1.5, "median_others") == [3]
    assert slow({0: 2.0, 1: 2.0, 2: 2.0, 3: 2.9}, 1.5, "median_others") == []


@examples(20)
@given(seconds=Seconds, ratio=st.sampled_from([1.2, 1.5, 3.0]), center=st.sampled_from(CENTERS), share=st.floats(0, 1))
def test_who_would_be_slow_with_another_time_is_asked_of_each_by_itself(
    seconds: dict[int, float], ratio: float, center: str, share: float
) -> None:
    shorter = {node: taken * share for node, taken in seconds.items() if node % 2}
    expected = {node for node, own_s in shorter.items() if node in slow({**seconds, node: own_s}, ratio, center)}
    assert still_slow(shorter, seconds, ratio, center) == expected


def test_a_ratio_that_nobody_can_reach_is_refused() -> None:
    StragglerDetector(slowness_ratio=1.5).validate(2)
    StragglerDetector(slowness_ratio=4.0, center="median_others").validate(2)
    with pytest.raises(ValueError, match=r"^slowness_ratio=2.0: must be less than the number of workers \(2\)"):
        StragglerDetector(slowness_ratio=2.0).validate(2)
    with pytest.raises(ValueError, match=r"^center=median_others: needs 2 workers or more$"):
        StragglerDetector(slowness_ratio=1.5, center="median_others").validate(1)


def test_sizes_of_newcomers_of_unknown_speeds_and_with_a_base() -> None:
    assert round_sizes(240, (0, 1, 2, 3), {0: 10.0, 1: 20.0, 2: 30.0}) == {0: 30, 1: 60, 2: 90, 3: 60}
    assert round_sizes(256, (0, 1, 2, 3), {0: 100.0, 2: 100.0, 3: 50.0}, {1}) == {0: 77, 1: 64, 2: 77, 3: 38}
    # Worker 1 three times as slow, 128 samples, a base of 16: 3 (16 + b) = 16 + b' gives 3.2 and 41.6
    sizes = round_sizes(128, range(4), {0: 1.0, 1: 1 / 3, 2: 1.0, 3: 1.0}, base_samples=16.0)
    assert sizes == {0: 42, 1: 3, 2: 42, 3: 41}
    assert slowest_s(sizes, {0: 1.0, 1: 1 / 3}, 16.0) == 58.0


@examples(20)
@given(
    total=st.integers(0, 3000),
    speeds=st.lists(st.one_of(st.none(), st.floats(0.001, 1e5)), min_size=1, max_size=12),
    new=st.sets(st.integers(0, 11)),
)
def test_sizes_sum_to_the_batch_whoever_is_there(total: int, speeds: list[float | None], new: set[int]) -> None:
    known = {worker: speed for worker, speed in enumerate(speeds) if speed is not None}
    sizes = round_sizes(total, range(len(speeds)), known, new & set(range(len(speeds))))
    assert sum(sizes.values()) == total
    assert min(sizes.values()) >= (1 if total >= len(speeds) else 0)


@pytest.mark.parametrize(
    ("own", "found"),
    [
        ([9.0, 9.0, 9.0, 9.0], [2]),
        ([1.0, 1.0, 1.0, 9.0], []),  # a single pause
        ([9.0, 9.0, 9.0, 1.0, 1.0], []),  # it has recovered
        ([9.0], [2]),
        ([1.0, 9.0], []),  # of few records all must be slow
    ],
)
def test_a_straggler_is_slow_in_most_records_and_in_the_newest(
    own: list[float], found: list[int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Times of the others are 1; the mean of all four is at most 3, and the slow one must have 1.5 times as much."""
    min_records = 3 if len(own) < 3 else 2
    detector = StragglerDetector(min_records=min_records)
    detector.monitor = SimpleNamespace(min_records=min_records)  # type: ignore[assignment]
    records = {0: [1.0] * 4, 1: [1.0] * 4, 2: own, 3: [1.0] * 4}
    monkeypatch.setattr(StragglerDetector, "paces", lambda self, span: records)
    assert detector.stragglers("short") == found


@examples(20)
@given(
    st.lists(st.tuples(st.floats(1, 100), st.floats(0.01, 10)), min_size=2, max_size=20, unique_by=lambda pair: pair[0])
)
def test_the_base_is_that_of_numpys_least_squares(records: list[tuple[float, float]]) -> None:
    sizes, seconds = zip(*records, strict=True)
    found = fit_base(records)
    if max(sizes) < 1.1 * min(sizes):
        assert found is None
        return
    slope, intercept = np.polyfit(sizes, seconds, 1)
    if slope > 1e-6:
        most = MOST_BASE * float(np.mean(sizes))
        assert found == pytest.approx(min(most, max(0.0, intercept / slope)), rel=1e-4, abs=1e-4)


def test_stragglers_are_asked_only_where_there_is_nobody_else() -> None:
    """A straggler that recovers while its batch shrinks seems to have no base at all."""
    misleading, right = [(32.0, 0.12), (13.0, 0.036)], [(32.0, 0.06), (38.0, 0.0675)]
    base = Base()
    assert base.samples == 0.0
    base.learn({1: misleading}, stragglers=[1])
    assert base.samples == 0.0
    base.learn({0: right, 1: misleading, 2: [(32.0, 0.06)]}, stragglers=[1])
    assert base.samples == pytest.approx(16.0)


def test_noise_is_no_difference() -> None:
    """Whoever is within three standard errors of the median counts as fast as it, and nobody else means even sizes."""
    noisy = {worker: [1.0, 1.3, 0.7, 1.1 + worker / 5] for worker in range(4)}
    assert speeds_of(noisy) == {}
    speeds = speeds_of({**noisy, 4: [2.0] * 4})
    assert speeds[4] == 0.5
    assert len({speeds[worker] for worker in range(4)}) == 1
    assert speeds_of({}) == {}


@examples(20)
@given(st.lists(st.integers(1, 60), min_size=2, max_size=6), st.lists(st.floats(0.1, 10), min_size=6, max_size=6))
def test_sizes_that_return_never_leave_the_way_to_the_even_split(now: list[int], speeds: list[float]) -> None:
    workers, total = range(len(now)), sum(now)
    even = round_sizes(total, workers, {})
    given_s = dict(zip(workers, speeds, strict=False))
    back = round_sizes(total, workers, given_s, returning=dict(zip(workers, now, strict=True)))
    assert sum(back.values()) == total
    for worker in workers:
        low, high = sorted((now[worker], even[worker]))
        assert low <= back[worker] <= high


def started(max_restarts: int, cooldown_s: float, min_slow_s: float) -> KillRestart:
    made = KillRestart(max_restarts=max_restarts, cooldown_s=cooldown_s, min_slow_s=min_slow_s)
    made.start(Started(t=0.0, workers=(0, 1, 2), batch_samples=(8, 8, 8), num_servers=2))
    return made


def test_the_first_that_may_is_taken_and_why_others_may_not_is_said() -> None:
    restarts, said = started(max_restarts=2, cooldown_s=10.0, min_slow_s=0.0), list[str]()
    assert restarts.pick(0.0, [NodeId.worker(1)], said) == NodeId.worker(1)
    assert restarts.pick(9.0, [NodeId.worker(1), NodeId.worker(2)], said) == NodeId.worker(2)
    assert restarts.pick(10.0, [NodeId.worker(1)], said) == NodeId.worker(1)
    assert restarts.pick(99.0, [NodeId.worker(1)], said) is None
    assert said == [
        "KILL_RESTART worker:1",
        "worker:1 stays: cools down",
        "KILL_RESTART worker:2",
        "KILL_RESTART worker:1",
        "worker:1 stays: restarted 2 times",
    ]
    assert restarts.log_state() == {"restarts": 3}


def test_a_worker_must_have_been_slow_at_every_decision_for_so_long() -> None:
    restarts, said = started(max_restarts=2, cooldown_s=0.0, min_slow_s=5.0), list[str]()
    for t, flagged in ((0.0, True), (3.0, False), (6.0, True), (9.0, True)):
        restarts.watch(t, [NodeId.worker(1)] * flagged)
        assert restarts.pick(t, [NodeId.worker(1)] * flagged, said) is None
    assert said[-1] == "worker:1 stays: slow for 3 s only"
    restarts.watch(11.0, [NodeId.worker(1)])
    assert restarts.pick(11.0, [NodeId.worker(1)], said) == NodeId.worker(1)
    assert restarts.pick(11.0, [NodeId.server(0)], said) == NodeId.server(0), (
        "that is said of transient stragglers, of workers"
    )


FAST, SLOW = [(32.0, 0.1), (64.0, 0.2)], [(32.0, 0.4), (64.0, 0.8)]


def settings(**given: Any) -> Any:
    about = {"types": None, "devices": None, "type_ratio": 1.2, "curve": "measured", "max_batch_samples": None}
    return SimpleNamespace(**about | given)


def test_devices_that_were_not_measured_or_have_little_memory() -> None:
    devices, kinds = find_devices(settings(), {0: FAST, 1: SLOW}, [0, 1, 2])
    assert kinds[2] == kinds[1] != kinds[0]
    assert [devices[kind].seconds(64) for kind in kinds] == [0.2, 0.8, 0.8]
    saturated = [(8.0, 0.1), (64.0, 0.1)]
    [device], _ = find_devices(settings(), {0: saturated}, [0])
    assert device.low_samples == 64
    [device], _ = find_devices(settings(max_batch_samples=16), {0: saturated}, [0])
    assert (device.low_samples, device.high_samples) == (16, 16)


PROFILE = {0: [(10.0, 1.0), (20.0, 2.0)], 1: [(10.0, 1.0)]}


@pytest.mark.parametrize(("factor", "found"), [(0.7, True), (0.9, False), (1.0, False), (1.19, False), (1.3, True)])
def test_the_median_of_so_many_times_over_the_profile_decides(factor: float, found: bool) -> None:
    drifts = Drifts(num_iters=3, ratio=1.2)
    drifts.begin(PROFILE)
    for seconds in (1.5 * factor, 9.0, 1.5 * factor):
        assert not drifts.has_drifted()
        drifts.tell(0, 15.0, seconds)
    assert drifts.has_drifted() is found


def test_every_check_begins_with_nothing() -> None:
    drifts = Drifts(num_iters=2, ratio=1.2)
    drifts.begin(PROFILE)
    for _ in range(2):
        for seconds in (1.0, 1.0):
            drifts.tell(1, 10.0, seconds)
        assert not drifts.has_drifted()
    for seconds in (2.0, 2.0):
        drifts.tell(1, 10.0, seconds)
    assert drifts.has_drifted()
