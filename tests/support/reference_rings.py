"""Sums around rings that share links, by brute force: every flow's max-min rate after every event, nothing cleverer.

Written from the paper (Patarasuk and Yuan, JPDC 2009) and from what a TCP connection does, not from the model: member r
of n sends 2 (n - 1) messages of 1/n of the vector to the next one, each as soon as it has received as many as it has
sent and its last one has left.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import inf
from typing import NamedTuple

import msgspec

from tests.support.reference_fluid import Demand, fair_rates


class RingCase(NamedTuple):
    """``hosts[r]`` is where member r lives, and ``start_s[r]`` when it comes to the sum of ``part_bytes`` each."""

    hosts: tuple[int, ...]
    start_s: tuple[float, ...]
    part_bytes: float


class Sender(msgspec.Struct):
    """One member of a ring."""

    sent: int = 0
    received: int = 0
    left: float | None = None
    """Bytes of the message under way; None: there is none."""
    end_s: float = inf


Key = tuple[int, int]


def ends_of_rings(rings: Sequence[RingCase], link_bytes_per_s: Sequence[float], latency_s: float) -> list[list[float]]:
    """When every member of every ring is done; ``link_bytes_per_s`` of every host, each way."""
    capacities = {f"{way} {host}": rate for host, rate in enumerate(link_bytes_per_s) for way in ("up", "down")}
    senders = [[Sender() for _ in ring.hosts] for ring in rings]
    arrivals: list[tuple[float, Key]] = []
    now = 0.0
    while True:
        for number, rank in _keys(rings):
            _begin(senders[number][rank], rings[number], rank, now)
        users = {
            (number, rank): _links(rings[number].hosts, rank)
            for number, rank in _keys(rings)
            if senders[number][rank].left is not None
        }
        rates = dict(zip(users, fair_rates(capacities, [Demand(uses) for uses in users.values()]), strict=True))
        ends = [now + (senders[n][r].left or 0.0) / rates[n, r] for n, r in users]
        starts = [start_s for ring in rings for start_s in ring.start_s if start_s > now]
        following = min([*ends, *starts, *(at_s for at_s, _ in arrivals)], default=inf)
        if following == inf:
            return [[sender.end_s for sender in ring] for ring in senders]
        for (number, rank), end_s in zip(users, ends, strict=True):
            sender, size = senders[number][rank], len(rings[number].hosts)
            assert sender.left is not None
            sender.left -= rates[number, rank] * (following - now) if rates[number, rank] < inf else sender.left
            if end_s <= following * (1 + 1e-14):
                sender.left, sender.sent = None, sender.sent + 1
                own_s = latency_s if users[number, rank] else 0.0
                arrivals.append((following + own_s, (number, (rank + 1) % size)))
        now = following
        for at_s, (number, rank) in [one for one in arrivals if one[0] <= now]:
            arrivals.remove((at_s, (number, rank)))
            senders[number][rank].received += 1
        for number, rank in _keys(rings):
            sender, last = senders[number][rank], 2 * (len(rings[number].hosts) - 1)
            if sender.sent == sender.received == last and now >= rings[number].start_s[rank]:
                sender.end_s = min(sender.end_s, now)


def _keys(rings: Sequence[RingCase]) -> Iterator[Key]:
    for number, ring in enumerate(rings):
        for rank in range(len(ring.hosts)):
            yield number, rank


def _begin(sender: Sender, ring: RingCase, rank: int, now: float) -> None:
    last = 2 * (len(ring.hosts) - 1)
    if now >= ring.start_s[rank] and sender.left is None and sender.received >= sender.sent < last:
        sender.left = ring.part_bytes


def _links(hosts: tuple[int, ...], rank: int) -> tuple[str, ...]:
    here, there = hosts[rank], hosts[(rank + 1) % len(hosts)]
    return (f"up {here}", f"down {there}") if here != there else ()
