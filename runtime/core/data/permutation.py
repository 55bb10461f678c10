"""Shuffles computed on demand: keyed bijections of ``range(length)``.

A Feistel network over pairs (left, right) of about sqrt(length) values each: every round adds to one half, modulo its
size, a keyed hash of the other half. That is invertible whatever the hash does, so it permutes the ``size_left *
size_right`` pairs; the few of them that are no position (of the order of sqrt(length)) are skipped by walking on along
their cycle. Source: Black and Rogaway, "Ciphers with arbitrary finite domains", CT-RSA 2002 (cycle walking, and the
network with addition instead of exclusive or, which needs no power of two); the hash multiplies as SplitMix64 does.
Short lengths, for which sixteen rounds of array operations cost more than the whole permutation, are sorted by keyed
hashes instead.

Not for secrets. Integers only, so the result is the same on every platform.
"""

from __future__ import annotations

from functools import lru_cache
from math import isqrt
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

Key = tuple[int, ...]
Words = NDArray[np.uint64]

MAX_LENGTH = 2**62
ROUNDS = 16
"""Rounds of the network: 4 suffice for large domains; with 12, not all orders of 6 were equally likely."""
BLOCK = 1024
"""Positions that are computed at once where they are asked for one by one."""
MAX_SORTED = 1024
"""Length up to which the whole permutation is a sort of keyed hashes: ten times faster for a worker's batch."""
KEPT = 1024
"""Whole permutations that are kept: a set has as many under way as its jobs have workers (8 kB each)."""
MAX_TABLE = 4096
"""Halves up to this size (lengths up to 16 million) have their hashes looked up, which is several times faster."""

_MASK = 2**64 - 1
_GOLDEN, _MIX_1, _MIX_2 = 0x9E3779B97F4A7C15, 0xBF58476D1CE4E5B9, 0x94D049BB133111EB


def permute(positions: NDArray[np.int64], length: int, key: Key) -> NDArray[np.int64]:
    """The images of ``positions`` under the permutation of ``range(length)`` that ``key`` selects.

    Args:
        positions: any number of positions in ``range(length)``.
        length: 1 to 2**62.
        key: integers, 0 to 2**64 - 1 each.

    Raises:
        ValueError: for a length, key or position out of range.
    """
    if positions.size and (int(positions.min()) < 0 or int(positions.max()) >= length):
        _check_length(length)
        raise ValueError(f"positions: must lie between 0 and {length - 1}")
    if 1 <= length <= MAX_SORTED:
        return _sorted(length, key)[positions]
    network = _network(length, key)
    values = network.encrypt(positions.astype(np.uint64))
    outside = np.flatnonzero(values >= length)
    while outside.size:
        values[outside] = network.encrypt(values[outside])
        outside = outside[values[outside] >= length]
    return values.astype(np.int64)


def permute_one(position: int, length: int, key: Key) -> int:
    """The same as :func:`permute` for one position, computed with its neighbours, which are asked for next."""
    if not 0 <= position < length:
        _check_length(length)
        raise ValueError(f"position={position}: must lie between 0 and {length - 1}")
    return _block(position // BLOCK, length, key)[position % BLOCK]


class _Network(NamedTuple):
    """A permutation of ``range(size_left * size_right)``."""

    size_left: int
    size_right: int
    round_keys: Words
    """[ROUNDS]"""
    table: Words | None
    """[ROUNDS, larger size]: the hash of every value of the half that the round reads."""

    def encrypt(self, values: Words) -> Words:
        """All rounds, for many values."""
        size_left, size_right = self.size_left, self.size_right
        left = values // size_right
        right = values - left * size_right
        for number in range(ROUNDS):
            if self.table is None:
                left += _hash(right, self.round_keys[number], np.uint64(size_left))
            else:
                left += self.table[number].take(right)
            # both were below size_left: subtracting it at most once is the remainder (unsigned: below 0 is very large)
            np.minimum(left, left - size_left, out=left)
            left, right, size_left, size_right = right, left, size_right, size_left
        return left * size_right + right


def _check_length(length: int) -> None:
    if not 1 <= length <= MAX_LENGTH:
        raise ValueError(f"length={length}: must be between 1 and 2**62")


def _state(key: Key) -> int:
    """All parts of a key as one number."""
    state = _mix(len(key))
    for part in key:
        if not 0 <= part <= _MASK:
            raise ValueError(f"key={key}: its parts must be between 0 and 2**64 - 1")
        state = _mix(state ^ part)
    return state


@lru_cache(maxsize=32)
def _block(number: int, length: int, key: Key) -> list[int]:
    """The images of consecutive positions, from ``number * BLOCK`` on."""
    _check_length(length)
    begun = number * BLOCK
    values: list[int] = permute(np.arange(begun, min(length, begun + BLOCK)), length, key).tolist()
    return values


@lru_cache(maxsize=KEPT)
def _sorted(length: int, key: Key) -> NDArray[np.int64]:
    """A whole short permutation: positions in the order of their keyed hashes (SplitMix64, so there are no ties)."""
    words = np.arange(1, length + 1, dtype=np.uint64)
    words *= _GOLDEN
    words += np.uint64(_state(key))
    words ^= words >> 30
    words *= _MIX_1
    words ^= words >> 27
    words *= _MIX_2
    words ^= words >> 31
    order: NDArray[np.int64] = np.argsort(words, kind="stable").astype(np.int64)
    order.flags.writeable = False
    return order


@lru_cache(maxsize=32)
def _network(length: int, key: Key) -> _Network:
    """The network that ``key`` selects, on the smallest domain of its kind that holds ``length`` values."""
    _check_length(length)
    state = _state(key)
    round_keys = np.array([_mix(state + number) for number in range(1, ROUNDS + 1)], dtype=np.uint64)
    size_right = isqrt(length - 1) + 1
    size_left = -(-length // size_right)
    size_left += size_left & size_right & 1  # with two odd sizes, only even permutations could be reached
    table = None
    if size_right <= MAX_TABLE:
        halves = np.arange(max(size_left, size_right), dtype=np.uint64)
        sizes = np.array([size_left, size_right] * (ROUNDS // 2), dtype=np.uint64)
        table = _hash(halves, round_keys[:, None], sizes[:, None])
    return _Network(size_left, size_right, round_keys, table)


def _hash(values: Words, round_keys: Words | np.uint64, sizes: Words | np.uint64) -> Words:
    """Keyed hashes in ``range(sizes)``; sizes are below 2**32."""
    mixed = values + round_keys
    mixed *= _MIX_1
    mixed ^= mixed >> 32
    mixed *= _MIX_2
    mixed >>= 32
    mixed *= sizes
    mixed >>= 32
    return mixed


def _mix(value: int) -> int:
    """The next output of SplitMix64 at state ``value``: a bijection of 64-bit integers."""
    value = (value + _GOLDEN) & _MASK
    value = ((value ^ (value >> 30)) * _MIX_1) & _MASK
    value = ((value ^ (value >> 27)) * _MIX_2) & _MASK
    return value ^ (value >> 31)
