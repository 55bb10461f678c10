"""Strategies that are others at the ends of their range, and what they owe anywhere within it, in rough jobs."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.basic.asp import ASP
from strategies.basic.backup_workers import BackupWorkers
from strategies.basic.bsp import BSP
from strategies.basic.first_k import FirstK
from strategies.basic.ssp import SSP
from strategies.basic.static_x import StaticX
from strategies.lgc import LGC
from strategies.protocol import Strategy
from strategies.sync_switch import SyncSwitch
from tests.paper.test_dynamic_x import Fixed, alone, eager
from tests.paper.test_star_h import eager as star_h
from tests.paper.test_sync_switch import greedy
from tests.support.faults import restarts
from tests.support.rough import leaving, parted, rough

BOUNDLESS = 10**9
Make = Callable[[int, str], Strategy]
LIMITS: dict[str, tuple[Make, type[BSP | ASP]]] = {
    "backup_workers (Chen et al., Algorithm 3), b = 0": (lambda n, data: BackupWorkers(num_backup=0, data=data), BSP),
    "first_k (Chen et al., Algorithm 3), b = 0": (lambda n, data: FirstK(k=n, data=data), BSP),
    "lgc (STAR, V-A), K = N": (lambda n, data: LGC(k_fastest=n, data=data), BSP),
    "ssp (Ho et al., 2), s = 0": (lambda n, data: SSP(bound=0, data=data), BSP),
    "ssp (Ho et al., 2), no bound": (lambda n, data: SSP(bound=None, data=data), ASP),
    "ssp (Ho et al., 2), a bound that is never met": (lambda n, data: SSP(bound=BOUNDLESS, data=data), ASP),
    "static_x (STAR, IV-C), x = N": (lambda n, data: StaticX(x=n, data=data), BSP),
    "static_x (STAR, IV-C), x = 1": (lambda n, data: StaticX(x=1, data=data), ASP),
    "dynamic_x (STAR, IV-B), one cluster": (lambda n, data: eager(tolerance_frac=1e9, data=data), BSP),
    "dynamic_x (STAR, IV-B), clusters of one": (lambda n, data: Fixed(alone, data), ASP),
    "sync_switch (STAR, V-A), without a policy": (lambda n, data: greedy(straggler_policy="none", data=data), BSP),
    "sync_switch (STAR, V-A), greedy": (lambda n, data: greedy(duration_s=1e6, data=data), BSP),
    "sync_switch (STAR, V-A), elastic": (
        lambda n, data: greedy(duration_s=1e6, straggler_policy="elastic", data=data),
        BSP,
    ),
    "sync_switch (Li et al., abstract), all asynchronous": (lambda n, data: SyncSwitch(bsp_frac=0.0, data=data), ASP),
    "star_h (STAR, IV-A), without stragglers": (lambda n, data: star_h(straggler_frac=1e9, data=data), BSP),
}
"""What it is, event for event, also with restarted workers, failed Computes, restored parameters and departures."""
COMMON = {"seed": st.integers(0, 10_000), "num_workers": st.integers(1, 6), "data": st.data()}


@pytest.mark.parametrize("name", LIMITS)
@settings(max_examples=6)
@given(**COMMON)
def test_at_the_end_of_its_range_it_is_another(name: str, seed: int, num_workers: int, data: st.DataObject) -> None:
    """Each row cites its section, STAR's section V-A for its baselines, and Algorithm 3 of Chen et al.; departures of
    workers are beyond the papers."""
    make, other = LIMITS[name]
    plan = data.draw(st.sampled_from([restarts, leaving])) if num_workers > 1 else restarts
    policy = data.draw(st.sampled_from(["dynamic", "even"])) if plan is restarts else "dynamic"
    one = rough(make(num_workers, policy), seed, num_workers, plan)
    assert parted(one, rough(other(data=policy), seed, num_workers, plan)) == ""
    assert one.core.shards.finished


@settings(max_examples=10)
@given(**COMMON)
def test_two_that_differ_in_a_name_alone(seed: int, num_workers: int, data: st.DataObject) -> None:
    """Chen et al., Algorithm 4: all but K are backups; only the size of the batches differs. LGC, abstract:
    compensation is the only difference to First-K, as long as no worker leaves."""
    k = data.draw(st.integers(1, num_workers))
    first = rough(FirstK(k=k), seed, num_workers)
    assert parted(rough(BackupWorkers(num_backup=num_workers - k, enlarge=False), seed, num_workers), first) == ""
    assert parted(rough(LGC(k_fastest=k, max_delay_versions=0), seed, num_workers), first) == ""
