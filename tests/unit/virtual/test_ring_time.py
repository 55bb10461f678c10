"""What a sum around a ring takes undisturbed: by hand, against brute force, and against the model of hosts."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence

import pytest

from runtime.cluster.hosts import Host
from runtime.virtual.cluster.ring_time import ring_s
from runtime.virtual.cluster.undisturbed import Gang
from runtime.virtual.costs import Costs
from runtime.virtual.machines import quotas
from tests.support.reference_rings import RingCase, ends_of_rings
from tests.unit.virtual.test_virtual_ring_sum import Rings

FREE = Costs()
LINKS = [10e6 / 8 * 10**power for power in range(5)]
"""10 Mbit/s to 100 Gbit/s."""


def host(*, cores: float | None = None, latency_s: float = 0.0) -> Host:
    return Host(
        number=0,
        cores=cores,
        link_bytes_per_s=None,
        latency_s=latency_s,
        memory_bytes=None,
        device=None,
        tasks=(),
        gpus=None,
    )


def ring_of(workers: Sequence[int], num_bytes: float) -> RingCase:
    hosts = tuple(number for number, count in enumerate(workers) for _ in range(count))
    return RingCase(hosts, (0.0,) * len(hosts), num_bytes)


def drawn_workers(chance: random.Random) -> tuple[int, ...]:
    size = chance.randint(2, 12)
    return Gang.packed(size, 0, math.ceil(size / chance.randint(1, min(6, size)))).workers


@pytest.mark.parametrize(
    ("workers", "crossings"), [((12,), 0), ((6, 6), 4), ((4, 4, 4), 6), ((2, 2), 3), ((1, 1), 2), ((1,) * 5, 8)]
)
def test_a_message_crosses_as_often_as_it_leaves_a_machine(workers: tuple[int, ...], crossings: int) -> None:
    """2 (n - 1) hops that follow one another are two rounds less two: of n machines with a worker each all cross."""
    assert ring_s(FREE, host(latency_s=0.01), workers, 4.0) == pytest.approx(crossings * 0.02)


def test_a_worker_alone_sums_nothing() -> None:
    assert ring_s(FREE, host(latency_s=1.0), (1,), 4000.0, link_bytes_per_s=1.0) == 0.0


@pytest.mark.few(20)
@pytest.mark.parametrize("seed", range(200))
def test_links_and_latencies_are_those_of_a_ring_followed_flow_by_flow(seed: int) -> None:
    chance = random.Random(f"ring time {seed}")
    workers, num_bytes, rate = drawn_workers(chance), 4.0 * chance.randint(1, 10**6), chance.choice(LINKS)
    latency_s = chance.choice((0.0, 1e-4, 1e-3, 5e-3, 20e-3))
    [ends] = ends_of_rings([ring_of(workers, num_bytes)], [rate] * len(workers), 2 * latency_s)
    found = ring_s(FREE, host(latency_s=latency_s), workers, num_bytes, link_bytes_per_s=rate)
    assert found == pytest.approx(max(ends), rel=1e-9)


def drawn_costs(chance: random.Random, *, carry: bool) -> Costs:
    return Costs(
        latency_s=chance.choice((0.0, 1.3e-4)),
        ring_step_s=chance.choice((0.0, 4e-4)),
        ring_per_byte_s=chance.choice((0.0, 1e-10, 2e-9)),
        carry_per_byte_s=chance.choice((1.4e-9, 5.4e-9)) if carry else 0.0,
        carry_within_per_byte_s=chance.choice((None, 2.9e-10)) if carry else None,
    )


@pytest.mark.few(10)
@pytest.mark.parametrize("seed", range(80))
@pytest.mark.parametrize("carry", [False, True], ids=["links", "carried"])
def test_it_is_that_of_the_model_of_hosts(seed: int, carry: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Exactly with enough cores where nothing is carried.

    Carrying by the same cores is taken to be always at once, so that may take less, by up to a third; and a little more
    where adding interrupts it. Quotas are held at every moment: one of a period lets a short ring use what was saved.
    """
    monkeypatch.setattr(quotas, "depth_s", lambda cores, period_s: 0.0)
    chance = random.Random(f"ring model {seed}")
    workers, num_bytes, rate = drawn_workers(chance), 64.0 * chance.randint(64, 65536), chance.choice(LINKS)
    costs, latency_s = drawn_costs(chance, carry=carry), chance.choice((0.0, 1e-4, 1e-3, 5e-3, 20e-3))
    cores = chance.choice((math.inf, 0.4, 2.0) if carry else (math.inf, 12.0))
    rings = Rings(
        [ring_of(workers, num_bytes)], [rate] * len(workers), costs, host_latency_s=latency_s, cores=cores
    ).run()
    its = host(latency_s=latency_s, cores=None if cores == math.inf else cores)
    found = ring_s(costs, its, workers, num_bytes, link_bytes_per_s=rate)
    if carry:
        assert 0.85 * max(rings[0]) < found < 1.55 * max(rings[0])
    else:
        assert found == pytest.approx(max(rings[0]), rel=1e-9)
