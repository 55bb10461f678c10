"""Damaged variants of a file: what crashes, disks, editors and other programs do to it; the same for the same seed."""

from __future__ import annotations

import gzip
import re
from collections.abc import Callable
from random import Random

TOKEN = re.compile(rb"[A-Za-z_]+|[0-9]+(?:\.[0-9]+)?|\s+|.", re.DOTALL)
ODD = (
    *(b"", b"0", b"-1", b"1e999", b"-0.0", b"nan", b"inf", b"NaN", b"null", b"true", b"1.2.3", b"1,5", b"0x10", b"1_0"),
    *(b"9" * 30, b"9" * 5000, b"300000000", b"9223372036854775808", b"1e-320", b"\xc2\xb2", b"\xd9\xa3", b"N/A"),
    *(b"\x00", b"\xff", b"\xfe\xff", b"\xed\xa0\x80", b"\xf0\x9f\x98\x80", b"\x1b[31m", b"\r", b"\n", b"\x0c"),
    *(b'"', b"'", b",", b";", b"\t", b":", b"[", b"]", b"{", b"}", b"[" * 5000, b'{"a":' * 3000, b" " * 70000),
    *(b"[]", b"{}", b'"x"', b"[1]", b"[rank7]:", b"3: ", b"rank 1: 5", b"step: 1 ", b"iteration 1/ 2 |", b"tps: 1"),
)
"""What takes the place of a token, or stands before it."""
LARGEST = 1 << 22
"""Bytes: lines that are repeated twice would be as many as a real log has."""
ENCODINGS = ("utf-16", "utf-16-le", "utf-16-be", "utf-8-sig", "utf-32")


def mutated(data: bytes, seed: int) -> bytes:
    """One to three changes of the content, of which the first ones are of tokens and lines more often than of bytes."""
    random = Random(seed)
    for _ in range(random.choice((1, 1, 1, 2, 3))):
        data = random.choice(CHANGES)(data, random)[:LARGEST]
    return data


def _tokens(data: bytes, random: Random) -> bytes:
    """Replace, delete, double or exchange a token."""
    tokens = TOKEN.findall(data)
    if not tokens:
        return random.choice(ODD)
    place = random.randrange(len(tokens))
    other = random.choice(tokens)
    odd = random.choice(ODD)
    tokens[place] = random.choice((odd, odd, odd + tokens[place], b"", tokens[place] * 2, other))
    return b"".join(tokens)


def _lines(data: bytes, random: Random) -> bytes:
    """Delete, double, move, repeat or join lines."""
    lines = data.splitlines(keepends=True)
    if not lines:
        return b"\n"
    place, many = random.randrange(len(lines)), random.choice((0, 0, 2, 2, 300))
    moved = lines[place : place + random.choice((1, 1, 5, 40))]
    if many:
        lines[place : place + len(moved)] = moved * many
    elif random.random() < 1 / 2:
        del lines[place : place + len(moved)]
    else:
        lines[place] = lines[place].rstrip(b"\r\n")
    return b"".join(lines)


def _bytes(data: bytes, random: Random) -> bytes:
    """Flip bits of some bytes."""
    changed = bytearray(data)
    for _ in range(random.choice((1, 1, 4, 30)) if data else 0):
        changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _cut(data: bytes, random: Random) -> bytes:
    """Only the first or the last part, or without a part."""
    first, last = sorted(random.randrange(len(data) + 1) for _ in range(2))
    return random.choice((data[:first], data[last:], data[:first] + data[last:], data[:last] + data[first:]))


def _encoded(data: bytes, random: Random) -> bytes:
    """In another encoding, or compressed."""
    if random.random() < 1 / 4:
        return gzip.compress(data, mtime=0)
    return data.decode("utf-8", "replace").encode(random.choice(ENCODINGS))


CHANGES: tuple[Callable[[bytes, Random], bytes], ...] = (_tokens,) * 5 + (_lines,) * 3 + (_bytes, _cut, _encoded)
