"""Bipartite graphs: an edge is between an active worker, which asks for averages, and a passive one, which answers."""

from __future__ import annotations

from functools import cache

GRAPHS = ("exponential", "ring")


@cache
def passive_neighbours(graph: str, place: int, size: int) -> tuple[int, ...]:
    """The neighbours of place ``place`` in a circle of ``size`` workers; none of a passive one, whose place is even.

    They are 1 place away in either direction, with ``exponential`` also 2^i + 1 places for all i from 1 to
    log2(size - 1). Around an odd circle some such places are active, and no neighbours.
    """
    if place % 2 == 0:
        return ()
    doublings = (size - 1).bit_length() if graph == "exponential" else 1
    hops = [1, *(2**power + 1 for power in range(1, doublings))]
    around = {(place + way) % size for hop in hops for way in (hop, -hop)}
    return tuple(sorted(one for one in around if one % 2 == 0))
