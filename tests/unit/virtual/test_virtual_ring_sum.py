"""A ring between hosts: closed forms where nobody disturbs it, brute force where links are shared and unequal."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from functools import partial

import pytest

from runtime.core.collectives.known import Summing
from runtime.virtual.clock import MACHINE
from runtime.virtual.costs import Costs
from runtime.virtual.machines.kernel import new_clock
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import Site
from runtime.virtual.tasks.collective_sum import CollectiveSum
from tests.support.reference_rings import RingCase, ends_of_rings

FREE = Costs()


class Rings:
    """Sums around rings of tasks, each task on the host of this number."""

    def __init__(
        self,
        rings: Sequence[RingCase],
        links: Sequence[float],
        costs: Costs = FREE,
        *,
        host_latency_s: float = 0.0,
        cores: float = math.inf,
    ) -> None:
        self.clock = new_clock()
        hosts = [Site(f"host:{number}", cores, rate, host_latency_s) for number, rate in enumerate(links)]
        names = [
            [f"worker:{100 * number + rank}" for rank in range(len(ring.hosts))] for number, ring in enumerate(rings)
        ]
        sites = {
            name: hosts[host]
            for ring, own in zip(rings, names, strict=True)
            for name, host in zip(own, ring.hosts, strict=True)
        }
        self.machines = ModelledMachines(self.clock, sites, others=hosts)
        self.ends: list[list[float]] = [[math.inf] * len(ring.hosts) for ring in rings]
        for number, (ring, own) in enumerate(zip(rings, names, strict=True)):
            floats = round(ring.part_bytes) // 4 * len(own)
            made = CollectiveSum(self.machines, costs, own, floats, Summing())
            for rank, start_s in enumerate(ring.start_s):
                self.clock.at(start_s, MACHINE, made.join, rank, partial(self._ended, number, rank))

    def _ended(self, number: int, rank: int) -> None:
        self.ends[number][rank] = self.clock.now

    def run(self) -> list[list[float]]:
        while math.isfinite(self.clock.next_s):
            self.clock.step()
        return self.ends


def ring_of(*hosts: int, part_bytes: float = 64.0, start_s: float = 0.0) -> RingCase:
    return RingCase(hosts, (start_s,) * len(hosts), part_bytes)


def test_a_ring_on_one_host_uses_no_link_and_shares_its_cores() -> None:
    """Four threads on one core, which costs less there."""
    costs = Costs(carry_per_byte_s=1 / 16, carry_within_per_byte_s=1 / 1024)
    made = Rings([ring_of(0, 0, 0, 0)], [1.0], costs)
    assert made.run() == [[pytest.approx(6 * 2 * 64 / 1024)] * 4]
    assert made.machines.bytes_of("host:0") == (0.0, 0.0)


def drawn_case(seed: int) -> tuple[list[RingCase], list[float], float]:
    """Up to three rings, whose members share a few hosts with unequal links, and come at different times."""
    chance = random.Random(f"rings {seed}")
    count = chance.randint(2, 5)
    links = [chance.choice((128.0, 200.0, 512.0, 700.0)) for _ in range(count)]
    rings = []
    for _ in range(chance.randint(1, 3)):
        size = chance.randint(2, 6)
        hosts = tuple(chance.randrange(count) for _ in range(size))
        late = chance.random() < 0.5
        start_s = tuple(chance.uniform(0, 1) if late else 0.25 for _ in range(size))
        rings.append(RingCase(hosts, start_s, 64.0 * chance.randint(1, 4)))
    return rings, links, chance.choice((0.0, 0.03))


@pytest.mark.few(4)
@pytest.mark.parametrize("seed", range(60))
def test_rings_that_share_links_end_as_by_brute_force(seed: int) -> None:
    rings, links, latency_s = drawn_case(seed)
    ends = Rings(rings, links, host_latency_s=latency_s / 2).run()
    assert ends == [pytest.approx(own, rel=1e-9) for own in ends_of_rings(rings, links, latency_s)]
