"""SSP against its source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
NeurIPS 2013."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from strategies.basic.asp import ASP
from strategies.basic.bsp import BSP
from strategies.basic.ssp import SSP
from strategies.protocol import Arrived, Compute, Lost, Restored
from tests.support.faults import Crash, departures
from tests.support.harness import HeapRun, Rig, make_job
from tests.support.rough import leaving, parted, rough

BOUNDLESS = 10**9


@pytest.mark.parametrize(
    ("bound", "clocks"), [(0, [10, 10, 10, 10]), (1, [11, 11, 11, 10]), (2, [12, 12, 12, 10]), (None, [40, 40, 40, 10])]
)
def test_the_fastest_worker_is_at_most_the_bound_ahead(bound: int | None, clocks: list[int]) -> None:
    """Ho et al., section 2. A worker more than s clocks ahead of the slowest is made to wait: iterations done after 40
    s with 1, 1, 1, 4 s per iteration and s = 0, 1, 2 and no bound.
    """
    run = HeapRun(SSP(bound=bound), make_job(), [1, 1, 1, 4]).run()
    assert [run.arrivals(worker) for worker in range(4)] == clocks


@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6), bound=st.integers(0, 4))
def test_clocks_never_differ_by_more_than_the_bound_plus_one(seed: int, num_workers: int, bound: int) -> None:
    """Ho et al., section 2, bounded staleness: the largest clock is always at most s + 1 above the smallest (s when the
    iteration that just ended began). Workers that restart keep their clock and block the others.
    """
    clock = dict.fromkeys(range(num_workers), 0)
    for line in rough(SSP(bound=bound), seed, num_workers).lines:
        if isinstance(line.event, Restored):
            clock = dict.fromkeys(line.event.workers, 0)
        elif isinstance(line.event, Arrived):
            clock[line.event.grad.worker] += 1
            assert max(clock.values()) - min(clock.values()) <= bound + 1
        for command in line.commands:
            if isinstance(command, Compute):
                assert clock[command.worker] - min(clock.values()) <= bound


@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6), bound=st.integers(0, 4))
def test_staleness_is_bounded(seed: int, num_workers: int, bound: int) -> None:
    """Ho et al., section 2. While one iteration runs, each of the N - 1 others finishes at most 2 s + 1: so many
    updates it may miss.
    """
    run = rough(SSP(bound=bound), seed, num_workers)
    assert max(run.staleness) <= (num_workers - 1) * (2 * bound + 1)


def test_a_worker_that_left_blocks_no_other() -> None:
    """Beyond the paper: the slowest leaves at 6 s with its clock at 1; the others continue at once, at 1 s per
    iteration.
    """
    run = HeapRun(SSP(bound=2), make_job(max_time_s=16.0), [1, 1, 1, 4], [Crash(6.0, 3, None)]).run()
    assert [run.arrivals(worker) for worker in range(4)] == [14, 14, 14, 1]


def test_a_worker_that_restarts_blocks_the_others() -> None:
    """Beyond the paper: it is away from 6 to 26 s and repeats its iteration until 30 s; no other exceeds the bound
    meanwhile.
    """
    run = HeapRun(SSP(bound=2), make_job(max_time_s=29.5), [1, 1, 1, 4], [Crash(6.0, 3, 20.0)]).run()
    assert [run.arrivals(worker) for worker in range(4)] == [4, 4, 4, 1]


@pytest.mark.long(like="test_bound_zero_is_bsp_also_when_workers_leave")
@given(seed=st.integers(0, 10_000), num_workers=st.integers(1, 6), data=st.sampled_from(["dynamic", "even"]))
def test_bound_zero_is_bsp(seed: int, num_workers: int, data: str) -> None:
    """Ho et al., section 2. With s = 0 everybody waits at every clock: event for event the transcript of BSP, also with
    restarted workers, failed Computes and restored parameters.
    """
    one = rough(SSP(bound=0, data=data), seed, num_workers)
    assert parted(one, rough(BSP(data=data), seed, num_workers)) == ""


@pytest.mark.long(like="test_no_bound_is_asp_also_when_workers_leave")
@given(seed=st.integers(0, 10_000), num_workers=st.integers(1, 6), data=st.sampled_from(["dynamic", "even"]))
def test_no_bound_is_asp(seed: int, num_workers: int, data: str) -> None:
    """Ho et al., section 2. Without a bound nobody ever waits: event for event the transcript of ASP; so does a bound
    that is never met.
    """
    asp = rough(ASP(data=data), seed, num_workers)
    for bound in (None, BOUNDLESS):
        assert parted(rough(SSP(bound=bound, data=data), seed, num_workers), asp) == ""


@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6))
def test_no_bound_is_asp_also_when_workers_leave(seed: int, num_workers: int) -> None:
    """Beyond the paper. A bound that is never met, with workers that leave for good."""
    one = rough(SSP(bound=BOUNDLESS), seed, num_workers, departures)
    assert parted(one, rough(ASP(data="dynamic"), seed, num_workers, departures)) == ""


@pytest.mark.parametrize("num_workers", [2, 3, 4, 5])
def test_bound_zero_is_bsp_also_when_workers_leave(num_workers: int) -> None:
    """Beyond the paper. The same with workers that leave for good, some of them while they restart."""
    for seed in range(12):
        one = rough(SSP(bound=0), seed, num_workers, leaving)
        assert parted(one, rough(BSP(), seed, num_workers, leaving)) == ""
        assert one.core.shards.finished


def test_a_round_that_a_departure_completes_is_an_update() -> None:
    """Beyond the paper: s = 0. Worker 0 has delivered and restarts; worker 1 leaves. The round is complete, although no
    worker can continue.
    """
    rig = Rig(SSP(bound=0), make_job(num_workers=2, global_batch_samples=2)).start()
    rig.arrive(0)
    rig.lose(0)
    rig.lose(1, restarting=False)
    assert isinstance(rig.events[-1], Lost)
    assert rig.updates == 1
