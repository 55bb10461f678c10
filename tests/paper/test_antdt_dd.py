"""AntDT-DD against its source: AntDT section VI-B, Eq. 4."""

from __future__ import annotations

from itertools import pairwise, product
from math import inf
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from runtime.core.job import ComputeOrder
from strategies.antdt.antdt_dd import AntDTDD
from strategies.antdt.micro_batches import DeviceLimits, solve, solve_anyhow
from strategies.antdt.profiling import Curve, DeviceSpec, profile_rounds
from strategies.basic.bsp import BSP
from strategies.protocol import Compute
from tests.support.examples import examples
from tests.support.faults import departures, random_outcome, random_seconds, restarts
from tests.support.harness import HeapRun, make_job, samples_of
from tests.support.laws import dead, played, unconserved, unlawful

FOUR_AND_FOUR = [0] * 4 + [1] * 4
"""Workers of Cluster-B: four V100, four P100."""


def device(name: str, speed: float, low: int = 1, high: int | None = None) -> DeviceLimits:
    return DeviceLimits(name, lambda samples: samples / speed, low, high)


def pair(low: int, high: int) -> list[DeviceLimits]:
    return [device("v100", 300, low, high), device("p100", 100, low, high)]


@pytest.mark.parametrize(
    ("low", "high", "most", "accum", "totals", "slowest_s"),
    [
        (32, 128, 1, (1, 1), (128, 64), 0.64),
        (32, 128, 5, (2, 1), (144, 48), 0.48),
        (64, 96, 1, (1, 1), (96, 96), 0.96),
        (64, 96, 5, (2, 1), (128, 64), 0.64),
    ],
)
def test_the_tables(
    low: int, high: int, most: int, accum: tuple[int, int], totals: tuple[int, int], slowest_s: float
) -> None:
    """Section VI-B, Eq. 4. B = 768 over V100 of 300 and P100 of 100 samples per second. DDP's even 96 take 0.96 s;
    with C = 1 the bounds are in the way; accumulation reaches B / sum v = 0.48 s."""
    plan = solve(768, pair(low, high), FOUR_AND_FOUR, range(1, most + 1))
    assert (plan.accum, plan.totals) == (accum, (totals[0],) * 4 + (totals[1],) * 4)
    assert plan.slowest_s == pytest.approx(slowest_s)


def test_ties_go_to_equal_sizes_and_the_fewest_micro_batches() -> None:
    """Eq. 4 asks for equal batches within a type: 4 B_1 + 4 B_2 = 770 has no whole solution. Totals per worker have
    one; on a flat F, too, they differ by a sample at most. Eq. 4 names no order among equals: of any C the least,
    and of two like types the first keeps one."""
    plan = solve(770, pair(32, 128), FOUR_AND_FOUR, range(1, 6))
    assert sum(plan.totals) == 770
    assert max(plan.totals[:4]) - min(plan.totals[:4]) <= 1
    flat = DeviceLimits("a", lambda samples: 1.0, 1, 4)
    assert solve(8, [flat], [0, 0, 0], range(1, 2)).totals == (3, 3, 2)
    assert solve(8, [device("a", 1)], [0, 0], range(1, 6)).accum == (1,)
    steep = DeviceLimits("c", lambda samples: 1.0, 1, 4)
    assert solve(12, [steep, steep], [0, 1], range(1, 6)).accum == (1, 2)


def every_plan(total: int, devices: list[DeviceLimits], types: list[int], accums: range) -> float:
    best = inf
    for accum in product(accums, repeat=len(devices)):
        bounds = [devices[kind].bounds(accum[kind]) for kind in types]
        for totals in product(*(range(low, (total if high is None else high) + 1) for low, high in bounds)):
            if sum(totals) == total:
                times = (devices[k].total_s(x, accum[k]) for k, x in zip(types, totals, strict=True))
                best = min(best, max(times))
    return best


@examples(20)
@given(
    speeds=st.lists(st.integers(1, 9), min_size=2, max_size=2),
    lows=st.lists(st.integers(1, 3), min_size=2, max_size=2),
    rooms=st.lists(st.integers(0, 4), min_size=2, max_size=2),
    flat=st.integers(0, 4),
    total=st.integers(3, 16),
)
def test_nothing_is_better(speeds: list[int], lows: list[int], rooms: list[int], flat: int, total: int) -> None:
    """Eq. 4 is a minimum. Against all choices of C and all splits, for three workers of two types whose time is flat
    at first."""
    devices = [
        DeviceLimits(f"type {k}", lambda samples, k=k: max(samples, flat) / speeds[k], lows[k], lows[k] + rooms[k])
        for k in range(2)
    ]
    types, accums = [0, 1, 1], range(1, 4)
    best = every_plan(total, devices, types, accums)
    if best == inf:
        with pytest.raises(ValueError, match=f"{total}"):
            solve(total, devices, types, accums)
        assert sum(solve_anyhow(total, devices, types, accums).totals) == total
        return
    plan = solve(total, devices, types, accums)
    assert plan.slowest_s == pytest.approx(best)
    assert sum(plan.totals) == total
    for kind, samples in zip(types, plan.totals, strict=True):
        assert plan.accum[kind] * lows[kind] <= samples <= plan.accum[kind] * (lows[kind] + rooms[kind])


def test_a_plan_below_saturation_is_reported() -> None:
    """Eq. 4 with a least batch. No C brings eight workers of at least 128 down to 768 samples: the least is then a
    single sample."""
    with pytest.raises(ValueError, match="sum to 1024"):
        solve(768, pair(128, 256), FOUR_AND_FOUR, range(1, 6))
    plan = solve_anyhow(768, pair(128, 256), FOUR_AND_FOUR, range(1, 6))
    assert plan.below_saturation
    assert plan.slowest_s == pytest.approx(0.48)


def test_a_curve_goes_through_the_medians_and_is_saturated_where_it_is_hardly_slower() -> None:
    """Section VI-B, the F of Eq. 4, measured: medians of each size, raised where a smaller size took longer.
    Section VI-B, algorithmic saturation. Bmin = largest size with F(B) <= 1.1 F(1)."""
    curve = Curve([(1, 0.08), (1, 0.3), (1, 0.07), (32, 0.079), (64, 0.086), (128, 0.16)])
    assert [curve.seconds(size) for size in (1, 32, 64, 96, 128, 256)] == pytest.approx(
        [0.08, 0.08, 0.086, 0.123, 0.16, 0.32]
    )
    flat_until_60 = Curve([(size, max(0.08, 0.02 + 0.001 * size)) for size in (1, 8, 16, 32, 64, 96, 128)])
    assert flat_until_60.saturation_samples == 64
    assert flat_until_60.samples_per_s == pytest.approx(96 / 0.116), "the median from there on"
    linear = Curve([(size, size / 100) for size in (1, 8, 16)])
    assert (linear.saturation_samples, linear.samples_per_s) == (1, pytest.approx(100))


@examples(20)
@given(
    num_workers=st.integers(1, 9),
    extra=st.integers(0, 400),
    sizes=st.lists(st.integers(1, 200), min_size=1, max_size=6),
    iters=st.integers(1, 3),
)
def test_profile_rounds_sum_to_the_batch_and_measure_every_size_that_fits(
    num_workers: int, extra: int, sizes: list[int], iters: int
) -> None:
    """Eq. 4, its constraint, holds during the profile, too."""
    total, workers = num_workers + extra, list(range(num_workers))
    rounds = profile_rounds(total, workers, sizes, iters, warmup_iters=2)
    assert all(sum(sizes.values()) == total and min(sizes.values()) >= 1 for sizes in rounds)
    assert all(sorted(sizes) == workers for sizes in rounds)
    for size in sizes:
        tried = [sum(one[worker] == size for one in rounds) for worker in workers]
        assert min(tried) >= iters or num_workers == 1 or total - size < num_workers - 1


def v100_p100(worker: int, order: ComputeOrder) -> float:
    """Four of 300, four of 100 samples per second; each micro-batch is one pass."""
    return samples_of(order) / (300 if worker < 4 else 100)


def cluster_b(strategy: Any, **changes: Any) -> HeapRun:
    fields = {"num_workers": 8, "global_batch_samples": 768, "num_samples": 10_000_000, "max_time_s": 120.0}
    return HeapRun(strategy, make_job(**{**fields, **changes}), v100_p100)


def orders(run: HeapRun) -> list[tuple[tuple[int, int], ...]]:
    """(samples, micro-batches) of everybody, round after round."""
    found = [tuple((c.num_samples, c.accum) for c in line.commands if isinstance(c, Compute)) for line in run.lines]
    return [sizes for sizes in found if sizes]


def specs(low: int, high: int) -> dict[str, DeviceSpec]:
    """What a configuration may say of both types."""
    return {
        name: DeviceSpec(samples_per_s=speed, min_batch_samples=low, max_batch_samples=high)
        for name, speed in (("v100", 300.0), ("p100", 100.0))
    }


TYPES = ("v100",) * 4 + ("p100",) * 4


def test_known_devices_need_no_profile() -> None:
    """Section VI-B, Eq. 4. From the first round on: V100 twice 72, P100 once 48, and 0.48 s an update against BSP's
    0.96 s."""
    run = cluster_b(AntDTDD(types=TYPES, devices=specs(32, 128))).run()
    assert set(orders(run)) == {((144, 2),) * 4 + ((48, 1),) * 4}
    assert run.updates == pytest.approx(120 / 0.48, abs=1)
    assert cluster_b(BSP()).run().updates == pytest.approx(120 / 0.96, abs=1)


@pytest.mark.few(2)
@pytest.mark.parametrize("sizes", [None, (1, 8, 16, 32, 64, 96, 128, 192)])
@pytest.mark.parametrize("curve", ["measured", "linear"])
def test_the_profile_finds_types_and_plan(curve: str, sizes: tuple[int, ...] | None) -> None:
    """Section VI-B: "only needs to be performed once since these stragglers are deterministic". Nothing is known but
    the memory, 128 samples: after the profile the same plan, once and for all."""
    run = cluster_b(AntDTDD(curve=curve, max_batch_samples=128, profile_sizes=sizes), max_time_s=400.0).run()
    found = orders(run)
    planned = ((144, 2),) * 4 + ((48, 1),) * 4
    # three rounds to warm up; two groups try each of the sizes five times (192: three workers at a time)
    rounds = 3 + 3 * 2 * 5 if sizes is None else 3 + (7 * 2 + 3) * 5
    assert found[rounds - 1] != planned
    assert set(found[rounds:]) == {planned}
    assert all(sum(samples for samples, _ in sizes) == 768 for sizes in found)
    assert all(samples <= 128 * accum for sizes in found for samples, accum in sizes)


@settings(max_examples=8)
@given(seed=st.integers(0, 10_000), num_workers=st.integers(1, 5))
def test_every_round_sums_to_the_global_batch(seed: int, num_workers: int) -> None:
    """Eq. 4, its constraint. In the profile and after it, also when workers restart, leave, and servers are lost."""
    total = 6 * num_workers + 1
    strategy = AntDTDD(profile_sizes=(1, 4, 8), profile_iters=1, warmup_iters=0, max_batch_samples=5)
    job = make_job(
        num_workers=num_workers, num_samples=25 * total, global_batch_samples=total, epochs=2, max_time_s=4000.0
    )
    plan = restarts(seed, num_workers) + (departures(seed, num_workers) if num_workers > 1 else [])
    run = HeapRun(strategy, job, random_seconds(seed), plan, random_outcome(seed))
    assert played(run) + unlawful(run) + dead(run) + unconserved(run) == []
    for line in run.lines:
        sizes = [command.num_samples for command in line.commands if isinstance(command, Compute)]
        if len(sizes) > 1:
            assert sum(sizes) == total


def base_and_samples(_: int, order: ComputeOrder) -> float:
    """A third of an iteration of 32 samples is fixed."""
    return 0.02 + 0.00125 * samples_of(order)


@pytest.mark.few(1)
@pytest.mark.parametrize("num_workers", [4, 64])
def test_the_profile_of_equal_workers_costs_at_most_three_percent(num_workers: int) -> None:
    """Section VI-B performs the profile once: no size is tried that would stop all workers for long."""
    job = make_job(num_workers=num_workers, global_batch_samples=32 * num_workers, num_samples=10**6, max_time_s=24.0)
    dd, bsp = (HeapRun(strategy, job, base_and_samples).run().updates for strategy in (AntDTDD(), BSP()))
    assert bsp >= 399
    assert dd >= bsp / 1.03


def test_a_cluster_whose_speeds_keep_changing_is_profiled_three_times_at_most() -> None:
    """Departure from section VI-B, where the profile is made once."""

    def seconds(worker: int, order: ComputeOrder) -> float:
        return base_and_samples(worker, order) * (2.0 if order.version // 130 % 2 else 1.0)

    job = make_job(num_workers=4, global_batch_samples=128, num_samples=10**6, max_time_s=200.0)
    states = [line.state for line in HeapRun(AntDTDD(), job, seconds).run().lines if line.state]
    lengths = [s["profile_rounds_left"] for s in states if isinstance(s["profile_rounds_left"], int)]
    begun = [now for before, now in pairwise(lengths) if now > before]
    assert begun == [59, 119], "twice and four times 30 rounds, the first of them under way"


@pytest.mark.parametrize(
    ("fields", "total", "why"),
    [
        ({"max_batch_samples": 8}, 321, r"max_batch_samples: the largest"),
        ({"accum_min": 2}, 15, r"accum_min: the least"),
        ({"types": TYPES, "devices": specs(128, 256)}, 768, r"devices: the least"),
        ({"types": TYPES, "devices": specs(8, 16)}, 768, r"devices: the largest"),
        ({"types": TYPES, "devices": specs(64, 65), "accum_max": 2}, 545, r"devices: no number of micro-batches"),
    ],
)
def test_bounds_that_make_the_equation_infeasible_are_named(fields: dict[str, Any], total: int, why: str) -> None:
    """Eq. 4 has no solution outside its bounds."""
    strategy = AntDTDD(**fields)
    strategy.validate(8)
    with pytest.raises(ValueError, match=why):
        strategy.validate_batch(8, total)
    with pytest.raises(ValueError, match=r"types=.*: 8 types for 4 workers"):
        AntDTDD(types=TYPES).validate(4)
