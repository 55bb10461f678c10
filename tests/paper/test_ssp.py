"""SSP against its source: Ho et al., "More effective distributed ML via a stale synchronous parallel parameter server",
NeurIPS 2013."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.basic.ssp import SSP
from strategies.protocol import Arrived, Compute, Restored
from tests.support.harness import HeapRun, make_job
from tests.support.rough import rough


@pytest.mark.parametrize(
    ("bound", "clocks"), [(0, [10, 10, 10, 10]), (1, [11, 11, 11, 10]), (2, [12, 12, 12, 10]), (None, [40, 40, 40, 10])]
)
def test_the_fastest_worker_is_at_most_the_bound_ahead(bound: int | None, clocks: list[int]) -> None:
    """Ho et al., section 2. A worker more than s clocks ahead of the slowest is made to wait: iterations done after 40
    s with 1, 1, 1, 4 s per iteration and s = 0, 1, 2 and no bound."""
    run = HeapRun(SSP(bound=bound), make_job(), [1, 1, 1, 4]).run()
    assert [run.arrivals(worker) for worker in range(4)] == clocks


@settings(max_examples=20)
@given(seed=st.integers(0, 10_000), num_workers=st.integers(2, 6), bound=st.integers(0, 4))
def test_clocks_never_differ_by_more_than_the_bound_plus_one(seed: int, num_workers: int, bound: int) -> None:
    """Ho et al., section 2, bounded staleness: the largest clock is always at most s + 1 above the smallest (s when the
    iteration that just ended began). Workers that restart keep their clock and block the others."""
    run, clock = rough(SSP(bound=bound), seed, num_workers), dict.fromkeys(range(num_workers), 0)
    assert max(run.staleness) <= (num_workers - 1) * (2 * bound + 1), "updates of others during one iteration"
    for line in run.lines:
        if isinstance(line.event, Restored):
            clock = dict.fromkeys(line.event.workers, 0)
        elif isinstance(line.event, Arrived):
            clock[line.event.grad.worker] += 1
            assert max(clock.values()) - min(clock.values()) <= bound + 1
        for command in line.commands:
            if isinstance(command, Compute):
                assert clock[command.worker] - min(clock.values()) <= bound
