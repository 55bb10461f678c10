"""The exact min-max split against brute force and a greedy; prevention's shares by other programs and its laws."""

from __future__ import annotations

import math
from collections.abc import Mapping
from itertools import product
from math import inf

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.optimize import brentq

from strategies.cluster.prevention.shares import fair_shares, held_shares, reductions
from strategies.cluster.prevention.star import StarPrevention
from strategies.parts.load.allocation import relax, split_by_time, split_min_max
from strategies.protocol import RESOURCES, Asked, Demand, Grant, HostRoom, JobLoad, Resource, TaskLoad
from tests.support.examples import examples

High = int | None


def slowest(sizes: list[int], speeds: list[float]) -> float:
    return max(size / speed for size, speed in zip(sizes, speeds, strict=True))


@st.composite
def instances(draw: st.DrawFn, most: int = 4, largest: int = 12) -> tuple[int, list[float], list[int], list[High]]:
    """(total, speeds, lows, highs) that have a solution; speeds are often equal or multiples of each other."""
    count = draw(st.integers(1, most))
    speeds = draw(st.lists(st.one_of(st.integers(1, 20), st.floats(0.01, 100)), min_size=count, max_size=count))
    lows = draw(st.lists(st.integers(0, 3), min_size=count, max_size=count))
    rooms = draw(st.lists(st.one_of(st.none(), st.integers(0, largest)), min_size=count, max_size=count))
    highs = [None if room is None else low + room for low, room in zip(lows, rooms, strict=True)]
    top = sum(largest if high is None else high for high in highs)
    total = draw(st.integers(sum(lows), max(top, sum(lows))))
    return total, [float(speed) for speed in speeds], lows, highs


def brute_force(total: int, speeds: list[float], lows: list[int], highs: list[High]) -> float:
    ranges = [range(low, (total if high is None else high) + 1) for low, high in zip(lows, highs, strict=True)]
    lawful = (list(sizes) for sizes in product(*ranges) if sum(sizes) == total)
    return min((slowest(sizes, speeds) for sizes in lawful), default=inf)


@settings(max_examples=20)
@given(instances(most=3))
def test_nothing_is_better(instance: tuple[int, list[float], list[int], list[High]]) -> None:
    total, speeds, lows, highs = instance
    sizes = split_min_max(total, speeds, lows, highs)
    assert sum(sizes) == total
    assert all(
        low <= size <= (inf if high is None else high) for low, size, high in zip(lows, sizes, highs, strict=True)
    )
    assert slowest(sizes, speeds) == brute_force(total, speeds, lows, highs)


@settings(max_examples=20)
@given(instances(most=12, largest=200))
def test_the_seed_saves_time_and_changes_nothing(instance: tuple[int, list[float], list[int], list[High]]) -> None:
    """The greedy from the lower bounds on, sample by sample, gives the very same sizes."""
    total, speeds, lows, highs = instance
    times = [lambda samples, speed=speed: samples / speed for speed in speeds]
    assert split_min_max(total, speeds, lows, highs) == split_by_time(total, times, lows, highs)


@examples(20)
@given(st.lists(st.lists(st.integers(0, 4), min_size=8, max_size=8), min_size=1, max_size=3), st.integers(0, 7))
def test_any_time_that_does_not_fall(steps: list[list[int]], total: int) -> None:
    """F_i with flat parts and jumps, as a device below and above its saturation; sums of random steps."""
    curves = [[sum(step[: samples + 1]) for samples in range(8)] for step in steps]
    times = [lambda samples, curve=curve: float(curve[samples]) for curve in curves]
    sizes = split_by_time(total, times, [0] * len(steps), [7] * len(steps))
    best = min(
        max(curve[size] for curve, size in zip(curves, tried, strict=True))
        for tried in product(range(8), repeat=len(steps))
        if sum(tried) == total
    )
    assert sum(sizes) == total
    assert max(curve[size] for curve, size in zip(curves, sizes, strict=True)) == best


@pytest.mark.parametrize(
    ("total", "speeds", "lows", "highs", "why"),
    [
        (5, [1, 1], [3, 3], [None, None], "lower bounds sum to 6 samples, more than the 5"),
        (9, [1, 1], [0, 0], [4, 4], "upper bounds sum to 8 samples, less than the 9"),
        (9, [1, 1], [0, 5], [None, 4], "worker 1: lower bound of 5 samples above its upper bound of 4"),
        (9, [1, 0], [0, 0], [None, None], "speed 0 of worker 1: must be positive"),
    ],
)
def test_the_bound_in_the_way_is_named(
    total: int, speeds: list[float], lows: list[int], highs: list[High], why: str
) -> None:
    with pytest.raises(ValueError, match=why):
        split_min_max(total, speeds, lows, highs)


@pytest.mark.parametrize(
    ("total", "lows", "highs", "expected"),
    [
        (10, [8, 4, 1], [None] * 3, ([5, 4, 1], [None] * 3)),
        (2, [4, 4, 4], [None] * 3, ([0, 0, 0], [None] * 3)),
        (12, [1, 1], [4, 2], ([1, 1], [8, 4])),
        (10, [4, 3, 3], [None] * 3, ([4, 3, 3], [None] * 3)),
    ],
)
def test_bounds_give_way_lower_ones_first(
    total: int, lows: list[int], highs: list[High], expected: tuple[list[int], list[High]]
) -> None:
    assert relax(total, lows, highs) == expected


@examples(20)
@given(st.integers(1, 500), st.lists(st.tuples(st.integers(0, 50), st.integers(0, 50)), min_size=1, max_size=8))
def test_whatever_gave_way_there_is_a_split(total: int, bounds: list[tuple[int, int]]) -> None:
    lows, highs = [low for low, _ in bounds], [low + room for low, room in bounds]
    sizes = split_min_max(total, [1.0] * len(bounds), *relax(total, lows, highs))
    assert sum(sizes) == total


def test_a_thousand_workers_take_no_more_steps_than_workers() -> None:
    """From the seed on the greedy hands out at most one sample per worker and bound, however large the batch."""
    chance = np.random.default_rng(0)
    speeds = [float(speed) for speed in chance.uniform(1, 100, 1000)]
    calls = 0

    class Counted(float):
        def __rtruediv__(self, other: float) -> float:
            nonlocal calls
            calls += 1
            return other / float(self)

    sizes = split_min_max(4_000_000, [Counted(speed) for speed in speeds], [1] * 1000, [None] * 1000)
    assert sum(sizes) == 4_000_000
    assert calls <= 3000


Task = tuple[str, str]
AMOUNTS = st.floats(0.01, 10.0)


def keyed(values: list[float]) -> dict[Task, float]:
    return {(f"j{number}", "worker:0"): value for number, value in enumerate(values)}


@examples(20)
@given(st.lists(AMOUNTS, min_size=1, max_size=6), st.floats(0.01, 40.0))
def test_max_min_fair_is_one_level_for_all_who_get_less(wanted: list[float], capacity: float) -> None:
    """The level at which everybody with min(wanted, level) fills the host, by Brent's method."""
    expected = wanted
    if sum(wanted) > capacity:
        level = brentq(lambda level: sum(min(one, level) for one in wanted) - capacity, 0.0, max(wanted))
        expected = [min(one, level) for one in wanted]
    assert list(fair_shares(capacity, keyed(wanted)).values()) == pytest.approx(
        [one for _, one in sorted(zip(wanted, expected, strict=True))], rel=1e-6
    )


@examples(20)
@given(st.lists(st.tuples(AMOUNTS, AMOUNTS), min_size=1, max_size=6), st.floats(0.01, 40.0))
def test_reductions_are_in_proportion_up_to_the_most(pairs: list[tuple[float, float]], missing: float) -> None:
    """The factor at which min(most, factor x weight) sums to what is missing, by Brent's method."""
    weights, most = keyed([weight for weight, _ in pairs]), keyed([most for _, most in pairs])
    expected = [most for _, most in pairs]
    if sum(most.values()) > missing:
        whole = max(most / weight for weight, most in pairs)
        factor = brentq(lambda x: sum(min(most, x * weight) for weight, most in pairs) - missing, 0.0, whole)
        expected = [min(most, factor * weight) for weight, most in pairs]
    assert list(reductions(missing, weights, most).values()) == pytest.approx(expected, rel=1e-6, abs=1e-9)


def test_granted_shares_come_before_the_others() -> None:
    fixed = {("a", "server:0"): 1.5}
    assert held_shares(2.0, keyed([1.0, 0.2]), fixed) == {**keyed([0.3, 0.2]), **fixed}


@st.composite
def questions(draw: st.DrawFn) -> Asked:
    """Two hosts, up to four jobs of which the first asks, workers with and without others that they wait for."""
    rooms = tuple(
        HostRoom(
            host=f"host:{number}",
            cpu_cores=draw(st.none() | st.floats(0.5, 4.0)),
            link_bytes_per_s=draw(st.none() | st.floats(1.0, 50.0)),
        )
        for number in range(2)
    )
    jobs = []
    for number in range(draw(st.integers(1, 4))):
        tasks = [task_of(draw, f"worker:{worker}") for worker in range(draw(st.integers(1, 3)))]
        tasks.append(task_of(draw, "server:0", serves=True))
        together = tuple(task.node for task in tasks[:-1])
        groups = draw(st.sampled_from([(together,), (), (together[:1], together[1:])]))
        gain = draw(st.floats(0.0, 2.0))
        model = draw(st.sampled_from(["", "vgg16", "resnet20"]))
        jobs.append(JobLoad(job=f"j{number}", tasks=tuple(tasks), groups=groups, gain=gain, model=model))
    demands = tuple(
        Demand(node=node, cpu_cores=draw(st.floats(0.0, 1.0)), link_bytes_per_s=draw(st.floats(0.0, 20.0)))
        for node in ("server:0", "worker:0")
    )
    worth_s = draw(st.floats(-0.5, 3.0))
    return Asked(job="j0", demands=demands, worth_s=worth_s, jobs=tuple(jobs), hosts=rooms)


def task_of(draw: st.DrawFn, node: str, *, serves: bool = False) -> TaskLoad:
    cpu_s, sent_bytes = draw(st.floats(0.0, 1.0)), draw(st.floats(0.0, 10.0))
    cores, rate = draw(st.floats(0.1, 1.0)), draw(st.floats(1.0, 50.0))
    own_s = draw(st.floats(0.0, 0.5)) + cpu_s / cores + sent_bytes / rate
    return TaskLoad(
        node=node,
        host=f"host:{draw(st.integers(0, 1))}",
        cpu_cores=cores,
        link_bytes_per_s=rate,
        cpu_s=cpu_s,
        sent_bytes=sent_bytes,
        iter_s=None if serves else max(own_s, 1e-3),
    )


def before(asked: Asked, resource: Resource) -> dict[str, dict[Task, float]]:
    """What every task holds before the answer, by host."""
    found = dict[str, dict[Task, float]]()
    for room in asked.hosts:
        wanted = {
            (job.job, task.node): getattr(task, resource)
            for job in asked.jobs
            for task in job.tasks
            if task.host == room.host
        }
        if (capacity := getattr(room, resource)) is not None:
            found[room.host] = fair_shares(capacity, wanted)
    return found


def after(held: Mapping[Task, float], grant: Grant, resource: Resource) -> dict[Task, float]:
    changed = {task: getattr(share, resource) for task, share in grant.shares.items()}
    return {task: share if changed.get(task) is None else changed[task] for task, share in held.items()}


@settings(max_examples=20)
@given(questions(), st.sampled_from(["sensitivity", "equal"]))
def test_what_holds_of_every_answer(asked: Asked, reduce_by: str) -> None:
    """Nothing is given twice, nobody is left with less than the floor, and no more is taken than is missing."""
    grant = StarPrevention(reduce_by=reduce_by, floor_frac=0.1).answer(asked)
    assert grant == StarPrevention(reduce_by=reduce_by, floor_frac=0.1).answer(asked)
    assert grant.ok or (not grant.shares and grant.reason)
    demands = {demand.node: demand for demand in asked.demands}
    for resource in RESOURCES:
        for room in asked.hosts:
            if (held := before(asked, resource).get(room.host)) is None:
                continue
            capacity, now = getattr(room, resource), after(held, grant, resource)
            assert math.fsum(now.values()) <= capacity * (1 + 1e-9)
            own = {task for task in held if task[0] == asked.job}
            extra = sum(getattr(demands[task[1]], resource) for task in own if task[1] in demands)
            taken = sum(held[task] - now[task] for task in held.keys() - own)
            missing = max(0.0, extra - (capacity - math.fsum(held.values())))
            assert taken <= missing + 1e-9 * capacity
            assert all(now[task] >= 0.1 * held[task] * (1 - 1e-9) for task in held.keys() - own)
            if grant.ok:
                assert taken == pytest.approx(missing, abs=1e-9 * capacity)
                gained = {task: now[task] - held[task] for task in own}
                assert all(
                    gained[task] == pytest.approx(getattr(demands[task[1]], resource), abs=1e-9 * capacity)
                    for task in own
                    if task[1] in demands
                )


def seconds(job: JobLoad, grant: Grant) -> float:
    """Seconds per global batch with the shares of the answer, written down again from the definition."""
    own: dict[str, float] = {}
    servers = 0.0
    for task in job.tasks:
        longer = 0.0
        share = grant.shares.get((job.job, task.node))
        for resource, work in (("cpu_cores", task.cpu_s), ("link_bytes_per_s", task.sent_bytes)):
            new = None if share is None else getattr(share, resource)
            if new is not None and new < getattr(task, resource):
                longer += work / new - work / getattr(task, resource)
        if task.iter_s is None:
            servers = max(servers, longer)
        else:
            own[task.node] = task.iter_s + longer
    groups = [group for group in job.groups if group]
    groups += [(node,) for node in own if not any(node in group for group in groups)]
    return len(own) / sum(len(group) / max(own[node] for node in group) for group in groups) + servers


@settings(max_examples=20)
@given(questions())
def test_it_is_granted_only_if_it_pays(asked: Asked) -> None:
    """Who gives anything loses less in sum than the job wins; the sum is the one that the answer says."""
    grant = StarPrevention().answer(asked)
    if not grant.ok:
        return
    nothing = Grant(ok=True)
    others = [job for job in asked.jobs if job.job != asked.job]
    added_s = sum(seconds(job, grant) - seconds(job, nothing) for job in others)
    assert grant.added_s == pytest.approx(added_s, abs=1e-9)
    if any(task[0] != asked.job for task in grant.shares):
        assert added_s < asked.worth_s + 1e-9
