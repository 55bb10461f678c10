"""OptiReduce against its source: Warraich et al., NSDI 2025 (arXiv 2310.06993), and its patch of Gloo
(github.com/OptiReduce/benchmark, ``gloo_uhc.patch``): Transpose AllReduce, and a sum that ends in time."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.core.collectives.known import Summing, schedule_of
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.tasks.collective_sum import CollectiveSum
from strategies.basic.bsp import BSP
from tests.contract.test_virtual import different
from tests.support.virtual_runs import VirtualRun, draw_host_ring_world

LINK_BYTES_PER_S, PART_BYTES = 1024.0, 256
PART_S = PART_BYTES / LINK_BYTES_PER_S


def sum_of(rates: list[float], bound_s: float | None) -> tuple[list[float], int]:
    """When hosts whose links have these parts of the rate end a sum, and the bytes that it has lost."""
    clock, size = new_clock(), len(rates)
    sites = {f"w{rank}": Site(f"host:{rank}", 1.0, LINK_BYTES_PER_S * rate) for rank, rate in enumerate(rates)}
    summing, lost, ended_s = Summing("transpose", bound_s=bound_s), list[int](), [0.0] * size
    machines, floats = ModelledMachines(clock, sites), size * PART_BYTES // 4
    made = CollectiveSum(machines, Costs(), list(sites), floats, summing, lost=lost.append)

    def end(rank: int) -> None:
        ended_s[rank] = clock.now

    for rank in range(size):
        clock.at(0.0, MACHINE, made.join, rank, lambda rank=rank: end(rank))
    while made.waiting:
        clock.step()
    assert sum(lost) == made.lost_bytes
    return ended_s, made.lost_bytes


@pytest.mark.parametrize("size", [2, 5, 8])
def test_parts_go_to_the_rank_that_sums_them_and_back(size: int) -> None:
    """Published code, ``transpose``: rank r sends chunk j to rank j, then its own sum, chunk r, to all."""
    rounds = schedule_of("transpose", size).rounds
    scatter, gather = rounds[: size - 1], rounds[size - 1 :]
    assert {(one.source, one.target, one.lo) for way in scatter for one in way} == {
        (rank, other, other) for rank in range(size) for other in range(size) if rank != other
    }
    assert {(one.source, one.target, one.lo) for way in gather for one in way} == {
        (rank, other, rank) for rank in range(size) for other in range(size) if rank != other
    }


def test_without_a_late_message_nothing_is_lost_and_nothing_changes() -> None:
    """Abstract (bounded completion times): four equal hosts need 6 messages of a quarter of a second. With a longer
    bound it is the sum without one, to the bit."""
    assert sum_of([1.0] * 4, None) == ([6 * PART_S] * 4, 0)
    uneven = [1.0, 0.3, 0.7, 0.9]
    assert sum_of(uneven, 1e9) == sum_of(uneven, None)


def test_a_late_message_is_lost_and_no_other() -> None:
    """Abstract: two hosts, one with a third of the rate. Both messages each way take 0.75 s: in 1.4 s each is late by
    0.05 s, in 1.6 s none is."""
    assert sum_of([1.0, 1 / 3], 1.6) == (pytest.approx([1.5, 1.5]), 0)
    ended_s, lost_bytes = sum_of([1.0, 1 / 3], 1.4)
    assert (ended_s, lost_bytes) == (pytest.approx([1.4, 1.4]), 4 * PART_BYTES)


def test_what_goes_through_the_slow_link_is_lost_and_little_else() -> None:
    """Abstract: eight hosts, one with a tenth of the rate. A message through it takes ten rounds: all that it sends and
    receives is late, 2 x 14 of 112 messages; of others the few that meet an early one at their target."""
    bound_s = 1.2 * 14 * PART_S
    ended_s, lost_bytes = sum_of([1.0] * 7 + [0.1], bound_s)
    assert max(ended_s) <= bound_s + 1e-9
    assert 28 <= lost_bytes / PART_BYTES <= 28 + 4
    assert max(sum_of([1.0] * 7 + [0.1], None)[0]) > 5 * bound_s, "negative control: without a bound all wait"


@given(rates=st.lists(st.floats(0.05, 1.0), min_size=2, max_size=6), bound_s=st.floats(0.5, 5.0))
def test_a_sum_ends_in_time_whatever_the_links(rates: list[float], bound_s: float) -> None:
    """Abstract: completion times are bounded, and a bound that every message keeps changes nothing."""
    ended_s, lost_bytes = sum_of(rates, bound_s)
    free_s, _ = sum_of(rates, None)
    assert max(ended_s) <= bound_s + 1e-9
    messages = 2 * (len(rates) - 1)
    assert lost_bytes <= messages * len(rates) * PART_BYTES
    if max(free_s) <= bound_s / messages:
        assert (ended_s, lost_bytes) == (free_s, 0)


@pytest.mark.parametrize("seed", range(2))
def test_a_job_whose_sums_have_time_is_the_job_without_a_bound(seed: int) -> None:
    """Beyond the paper, on hosts, with losses and rollbacks: the same events at the same times to the bit."""
    without, ample = (
        VirtualRun(draw_host_ring_world(4, seed), BSP(), summing=Summing("transpose", bound_s=bound_s))
        for bound_s in (None, 1e6)
    )
    assert different(without, ample) == []
