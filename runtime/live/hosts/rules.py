"""Numbers and names of the emulated network (pure): sizes that keep a token bucket exact, and addresses.

Measured over two buckets in a row (egress of one host, ingress of the other), 10 Mbit/s to 10 Gbit/s, TCP:

- A burst is data that passes without tokens after every pause: 16 kB of it makes a transfer of 100 kB 16 % too fast. So
  a burst is as small as timers allow: they are late by about 50 µs, and a full bucket loses further tokens.
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
"""Bytes of a full packet that count against the rate, with its Ethernet header."""
PAYLOAD_FRAC = (MTU_BYTES - 52) / FRAME_BYTES
"""Share of TCP payload in a full packet: 20 bytes of IP, 20 of TCP and 12 of timestamps are headers."""

UNLIMITED_BYTES_PER_S = 2**32 - 1
"""The largest rate of a tbf in 32 bits (34 Gbit/s): represents no limit once there is a bucket."""
LOWEST_BYTES_PER_S = 100
"""The smallest rate: the kernel counts a burst in 32 bits of 64 ns, so it must pass within 274 s."""
QUEUE_BYTES = 4_000_000
"""Queue for packets that wait for tokens, in bytes: a limit on latency would drop queued packets at a lower rate."""

NUM_TURNS = 16
"""Classes of a queue that serves hosts in turn, by the last four bits of their addresses: each of 16 hosts has its own,
and no packet passes more than 16 filters."""

SLACK_SPLIT_S = 130e-6
SLACK_WHOLE_S = 70e-6
"""Bucket size above one packet, in time: how late a timer may be without loss of rate."""
SEGMENT_S = 60e-6
WHOLE_FACTOR = 1.3
"""A bucket that is just as big as a segment loses rate: see above."""
MIN_FRAMES = 5
MAX_FRAMES = 43
"""Frames that a host sends as one segment (TSO): at most 64 kB, or about :data:`SEGMENT_S` of the link's time."""

LAB_NUMBER = 253
_RUN_ID = re.compile("[0-9a-f]{16}")


def frames_per_segment(rate_bytes_per_s: float) -> int:
    """Number of frames that may leave a host as one segment at this rate."""
    return min(max(int(rate_bytes_per_s * SEGMENT_S / FRAME_BYTES), MIN_FRAMES), MAX_FRAMES)


def frames_of_network(rates_bytes_per_s: Iterable[float | None]) -> int | None:
    """Number of frames that any host may send as one segment; None: no limit, since no link has one."""
    limits = [rate for rate in rates_bytes_per_s if rate is not None]
    return frames_per_segment(min(limits)) if limits else None


def burst_bytes(rate_bytes_per_s: float) -> int:
    """Size of the bucket: below the smallest segment (which is split) or above this rate's segment (which is not)."""
    split = FRAME_BYTES + rate_bytes_per_s * SLACK_SPLIT_S
    if split <= MIN_FRAMES * FRAME_BYTES:
        return int(max(2 * FRAME_BYTES, split))
    return burst_for(frames_per_segment(rate_bytes_per_s), rate_bytes_per_s)


def burst_for(frames: int, rate_bytes_per_s: float) -> int:
    """Size of a bucket that passes whole segments of ``frames`` frames.

    Segments are split only when they join the queue. So where a rate falls while whole segments may be queued, the
    bucket must still hold them: otherwise the first of them waits forever, with all others behind it.
    """
    segment = frames * FRAME_BYTES
    return int(max(WHOLE_FACTOR * segment, segment + rate_bytes_per_s * SLACK_WHOLE_S))


def address(number: int) -> str:
    """IP address of a host (0 to 249) or of the laboratory itself."""
    return f"10.77.0.{number + 1}"


def turn(number: int) -> int:
    """The class of a host in a queue that serves hosts in turn, from 0; some share one where there are many."""
    return int(address(number).rpartition(".")[2]) % NUM_TURNS


def lladdr(number: int) -> str:
    """Ethernet address: a local one, derived from the number."""
    return f"02:00:0a:4d:00:{number + 1:02x}"


def port_name(number: int, run_id: str) -> str:
    """Name of a host's end at the switch, within the kernel's limit of 15 characters."""
    return f"h{number}-{_short(run_id)}"


def bridge_name(run_id: str) -> str:
    """Name of the switch, and of the laboratory's own interface."""
    return f"lab-{_short(run_id)}"


def group(run_id: str) -> int:
    """Group number of all interfaces of a network, and of no other (0 is the default)."""
    return 1 + int(_short(run_id)[1:], 16)


def _short(run_id: str) -> str:
    if not _RUN_ID.fullmatch(run_id):
        raise ValueError(f"run_id={run_id!r}: must be 16 hexadecimal digits")
    return run_id[:8]
