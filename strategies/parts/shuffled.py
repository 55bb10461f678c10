"""Random orders of workers without a state, so that a replay draws the same."""

from __future__ import annotations

from collections.abc import Iterable
from hashlib import blake2b


def shuffled(workers: Iterable[int], *key: int) -> list[int]:
    """These workers in an order that ``key`` draws: each order is equally likely, and the same for the same key."""
    return sorted(workers, key=lambda worker: blake2b(repr((*key, worker)).encode(), digest_size=8).digest())
