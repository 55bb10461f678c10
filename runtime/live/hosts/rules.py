"""Numbers and names of the emulated network (pure): what keeps a token bucket exact, and who has which address.

Measured over two buckets in a row (egress of one host, ingress of the other), 10 Mbit/s to 10 Gbit/s, TCP:

- A burst is data that passes for nothing after every pause: 16 kB of it makes a transfer of 100 kB 16 % too fast. So a
  burst is as small as timers allow: they are late by some 50 µs, and a full bucket forgets what it cannot hold.
- A segment bigger than the burst is split into frames by the bucket: exact, but it takes so much processor time that
  1 Gbit/s becomes 0.8. A segment just as big as the burst is worst: it needs the bucket full, so that every microsecond
  of lateness is lost. So a burst is either clearly smaller or clearly bigger than what the hosts send in one piece, and
  they send small pieces where a link is limited.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

MTU_BYTES = 1500
FRAME_BYTES = MTU_BYTES + 14
"""What a full packet takes of the rate: with its Ethernet header."""
PAYLOAD_FRAC = (MTU_BYTES - 52) / FRAME_BYTES
"""Share of TCP payload in it: 20 bytes of IP, 20 of TCP and 12 of its timestamps are headers."""

UNLIMITED_BYTES_PER_S = 2**32 - 1
"""The most that a tbf holds in 32 bits (34 Gbit/s): stands for no limit where a bucket has been put."""
LOWEST_BYTES_PER_S = 100
"""The kernel counts a burst in units of 64 ns and 32 bits: it must be over in 274 s."""
QUEUE_BYTES = 4_000_000
"""Where packets wait for tokens. Bytes, never a latency: after a cut of the rate that would drop what is queued."""

SLACK_SPLIT_S = 130e-6
SLACK_WHOLE_S = 70e-6
"""What the bucket holds above one packet, in time: how late a timer may be without loss of rate."""
SEGMENT_S = 60e-6
WHOLE_FACTOR = 1.3
"""A bucket that is just as big as a segment loses rate: see above."""
MIN_FRAMES = 5
MAX_FRAMES = 43
"""Frames that a host sends in one piece (TSO): at most 64 kB, or about :data:`SEGMENT_S` of the link's time."""

LAB_NUMBER = 253
_RUN_ID = re.compile("[0-9a-f]{16}")


def frames_per_segment(rate_bytes_per_s: float) -> int:
    """How many frames may leave a host in one piece where the links have this rate."""
    return min(max(int(rate_bytes_per_s * SEGMENT_S / FRAME_BYTES), MIN_FRAMES), MAX_FRAMES)


def frames_of_network(rates_bytes_per_s: Iterable[float | None]) -> int | None:
    """How many frames any host may send in one piece, or None: all links are unlimited, as many as it likes."""
    limits = [rate for rate in rates_bytes_per_s if rate is not None]
    return frames_per_segment(min(limits)) if limits else None


def burst_bytes(rate_bytes_per_s: float) -> int:
    """Size of the bucket: below the smallest segment (which is split) or above this rate's segment (which is not)."""
    split = FRAME_BYTES + rate_bytes_per_s * SLACK_SPLIT_S
    if split <= MIN_FRAMES * FRAME_BYTES:
        return int(max(2 * FRAME_BYTES, split))
    return burst_for(frames_per_segment(rate_bytes_per_s), rate_bytes_per_s)


def burst_for(frames: int, rate_bytes_per_s: float) -> int:
    """Size of a bucket that lets whole segments of so many frames through.

    Segments are split when they join the queue and not later. So where a rate falls and they may wait there in one
    piece, the bucket must still hold them: otherwise the first of them waits for ever, and all others behind it.
    """
    segment = frames * FRAME_BYTES
    return int(max(WHOLE_FACTOR * segment, segment + rate_bytes_per_s * SLACK_WHOLE_S))


def address(number: int) -> str:
    """Of a host (0 to 249) or of the laboratory itself."""
    return f"10.77.0.{number + 1}"


def lladdr(number: int) -> str:
    """Ethernet address: a local one, made from the number."""
    return f"02:00:0a:4d:00:{number + 1:02x}"


def port_name(number: int, run_id: str) -> str:
    """Name of a host's end at the switch: 15 characters are the most that the kernel takes."""
    return f"h{number}-{_short(run_id)}"


def bridge_name(run_id: str) -> str:
    """Name of the switch, and of the laboratory's own interface."""
    return f"lab-{_short(run_id)}"


def group(run_id: str) -> int:
    """Number that all interfaces of a network carry, and those of no other (0 is everybody else's)."""
    return 1 + int(_short(run_id)[1:], 16)


def _short(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"run_id={run_id!r}: must be 16 hexadecimal digits")
    return run_id[:8]
