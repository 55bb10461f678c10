"""Sliding windows over what nodes have reported."""

from __future__ import annotations

import math
from statistics import fmean
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.antdt.monitor import Monitor, MonitorSettings, Span, Window, check_windows
from strategies.protocol import Arrived, Joined, Lost, NodeId, Restored, ServerLost, Started, Timings, Updated, Woke
from tests.support.examples import examples
from tests.support.grads import make_grad


def monitor(**changes: Any) -> Monitor:
    """Two workers and two servers that were there at 0 s, with windows of 10 and 20 s."""
    windows_s = {"short_window_s": 10.0, "long_window_s": 20.0}
    settings = {"report_iters": 1, "min_records": 1, "warmup_iters": 0, "times": "bpt", **changes}
    made = Monitor(MonitorSettings(**{**windows_s, **settings}))
    made.observe_event(Started(t=0.0, workers=(0, 1), batch_samples=(64, 64), num_servers=2))
    return made


def mean_bpt_s(seen: Monitor, worker: int, span: Span) -> float | None:
    """Of the records in a worker's window."""
    own = seen.records(worker, span)
    return fmean(seconds for _, seconds in own) if own else None


def arrived(
    t: float, bpt_s: float, samples: int = 64, worker: int = 0, incarnation: int = 0, assigned: int | None = None
) -> Arrived:
    assigned = samples if assigned is None else assigned
    grad = make_grad(worker, samples, incarnation=incarnation, assigned_samples=assigned)
    return Arrived(t=t, grad=grad, timings=Timings(wait_s=9.0, data_s=bpt_s / 4, compute_s=bpt_s * 3 / 4, send_s=5.0))


def updated(t: float, busy_s: float, updates: int = 10, server: int = 0) -> Updated:
    return Updated(t=t, server=server, version=0, updates=updates, busy_s=busy_s, injected_s=0.0)


RECORDS = st.lists(st.tuples(st.floats(0, 3), st.floats(0.01, 100), st.floats(0.01, 100)), min_size=1, max_size=60)


@examples(20)
@given(steps=RECORDS, length_s=st.floats(0.1, 10), later_s=st.floats(0, 12))
def test_a_window_holds_what_is_not_older_than_it_is_long(
    steps: list[tuple[float, float, float]], length_s: float, later_s: float
) -> None:
    window, t, all_of = Window(length_s), 0.0, []
    for step, x, y in steps:
        t += step
        window.push(t, x, y)
        all_of.append((t, x, y))
    now = t + later_s
    kept = [record for record in all_of[:-2] if record[0] >= now - length_s] + all_of[-2:]
    assert window.expire(now) == len(kept)
    assert window.sum_x == pytest.approx(math.fsum(x for _, x, _ in kept), abs=1e-9)
    assert window.sum_y == pytest.approx(math.fsum(y for _, _, y in kept), abs=1e-9)


def test_throughput_is_the_mean_of_ratios() -> None:
    """Records (64, 1.0 s), (64, 2.0 s), (32, 0.5 s): 53.33 samples/s. The ratio of the sums would be 45.71, the last
    batch over the mean time 27.43 (AntDT section VI-A: throughput is aggregated over the window)."""
    seen = monitor()
    for t, (samples, bpt_s) in enumerate([(64, 1.0), (64, 2.0), (32, 0.5)]):
        seen.observe_event(arrived(float(t), bpt_s, samples))
    assert seen.speeds_samples_per_s()[0] == pytest.approx(53.33, abs=5e-3)
    assert mean_bpt_s(seen, 0, "short") == pytest.approx(3.5 / 3)


@pytest.mark.parametrize(("times", "mean_s"), [("bpt", 0.4), ("iter", 5.4)])
def test_waiting_is_no_part_of_it_and_sending_where_it_is_asked_for(times: str, mean_s: float) -> None:
    """A barrier makes all workers look alike to whoever counts the waiting; who has a slow link computes like all."""
    seen = monitor(times=times)
    seen.observe_event(arrived(1.0, 0.4))
    assert mean_bpt_s(seen, 0, "short") == pytest.approx(mean_s)


def test_a_server_s_mean_update_once_it_is_mature() -> None:
    """10 updates in 0.1 s and 30 in 0.9 s are 40 in 1.0 s."""
    seen = monitor()
    seen.observe_event(updated(0.5, 0.1, 10))
    seen.observe_event(updated(1.0, 0.9, 30))
    seen.observe_event(updated(1.5, 0.0, 0))
    assert seen.mean_update_s(0) == pytest.approx(0.025)
    assert seen.mean_update_s(1) is None
    seen = monitor(min_records=2)
    for t in (5.0, 15.9, 16.0):
        seen.observe_event(updated(t, 0.1))
        assert seen.mature(NodeId.server(0), "long") == (t == 16.0)
    assert seen.mature_updates_s() == pytest.approx({0: 0.01})


def test_a_window_is_mature_after_four_fifths_of_its_length_with_enough_records() -> None:
    seen = monitor(min_records=3)
    for t in (2.0, 4.0, 6.0, 7.9):
        seen.observe_event(arrived(t, 1.0))
        assert not seen.mature(NodeId.worker(0), "short")
    seen.observe_event(Woke(t=8.0, tag="x"))
    assert (seen.mature(NodeId.worker(0), "short"), seen.mature(NodeId.worker(0), "long")) == (True, False)
    assert not seen.mature(NodeId.worker(1), "short"), "it has said nothing"
    assert not seen.mature(NodeId.worker(9), "short"), "it is unknown"
    assert (seen.mature_workers("short"), mean_bpt_s(seen, 0, "short")) == ([0], 1.0)
    seen.observe_event(Woke(t=15.0, tag="x"))
    assert seen.mature(NodeId.worker(0), "short"), "the two that are left reach back over half of the window"


def test_windows_with_two_records_where_there_cannot_be_more_are_mature() -> None:
    """Iterations of a minute: a window of ten seconds keeps the newest two."""
    seen = monitor(report_iters=2, min_records=5)
    seen.observe_event(arrived(60.0, 59.0))
    assert not seen.mature(NodeId.worker(0), "short")
    seen.observe_event(arrived(120.0, 59.0))
    seen.observe_event(updated(60.0, 1.0, 1))
    seen.observe_event(updated(120.0, 1.0, 1))
    assert seen.mature(NodeId.worker(0), "short")
    assert seen.mature(NodeId.server(0), "long")
    assert seen.speeds_samples_per_s() == pytest.approx({0: 64 / 59})
    assert seen.update_times_s(0) == [1.0, 1.0]
    # After an outage there are few as well, but they say nothing about the window
    seen = monitor(report_iters=2, min_records=5)
    for t in (20.0, 20.1, 20.2, 20.3):
        seen.observe_event(arrived(t, 0.1))
    assert not seen.mature(NodeId.worker(0), "short")


def fed() -> Monitor:
    """Both workers and both servers known well at 20 s."""
    seen = monitor()
    for t in range(21):
        for node in (0, 1):
            seen.observe_event(arrived(float(t), 1.0 + node, worker=node))
            seen.observe_event(updated(float(t), 0.1 * (1 + node), server=node))
    return seen


def test_a_dead_incarnation_is_forgotten_and_all_others_remembered() -> None:
    seen = fed()
    seen.observe_event(Lost(t=20.0, worker=0, incarnation=0, reason="", restarting=True))
    assert (seen.mature_workers("long"), mean_bpt_s(seen, 1, "long")) == ([1], 2.0)
    seen.observe_event(Joined(t=25.0, worker=0, incarnation=1))
    for t in (26.0, 30.0, 33.0):
        seen.observe_event(arrived(t, 0.5, incarnation=1))
        seen.observe_event(arrived(t, 2.0, worker=1))
        assert mean_bpt_s(seen, 0, "long") == 0.5
        assert seen.mature(NodeId.worker(0), "short") == (t == 33.0)
        assert seen.mature(NodeId.worker(1), "long")


def test_a_worker_that_was_replaced_while_everything_stood_still_is_known_by_its_incarnation() -> None:
    """Its ``Lost`` and its ``Joined`` are not notified then."""
    seen = fed()
    seen.observe_event(ServerLost(t=20.0, server=1, incarnation=0, reason=""))
    seen.observe_event(Restored(t=22.0, version=0, workers=(0, 1)))
    assert seen.mature(NodeId.worker(0), "long")
    seen.observe_event(arrived(23.0, 0.5, incarnation=1))
    assert mean_bpt_s(seen, 0, "long") == 0.5
    assert not seen.mature(NodeId.worker(0), "short")
    assert seen.mature(NodeId.worker(1), "long")


def test_a_server_begins_anew_when_it_is_restored_and_the_other_does_not() -> None:
    seen = fed()
    seen.observe_event(ServerLost(t=20.0, server=1, incarnation=0, reason=""))
    assert seen.mean_update_s(1) is None
    seen.observe_event(Restored(t=22.0, version=0, workers=(0,)))
    seen.observe_event(updated(23.0, 0.3, server=1))
    assert seen.mean_update_s(1) == pytest.approx(0.03)
    assert (seen.mature(NodeId.server(0), "long"), seen.mature(NodeId.server(1), "short")) == (True, False)
    assert mean_bpt_s(seen, 1, "long") is None, "worker 1 is not among those that live"


def test_windows_that_can_never_hold_what_is_needed_are_refused() -> None:
    check_windows(300, 600, 300, 5)
    with pytest.raises(ValueError, match=r"^long_window_s=5: must be at least short_window_s \(6 s\)"):
        check_windows(6, 5, 3, 5)
    with pytest.raises(ValueError, match=r"^short_window_s=6: must be at least decide_every_s \(7 s\)"):
        check_windows(6, 12, 7, 5)
    with pytest.raises(ValueError, match=r"^long_window_s=2: must be at least 2.5 s to hold min_records=5 reports"):
        check_windows(1, 2, 1, 5)
