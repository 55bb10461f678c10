"""How much of this machine other programs took while a run was timed."""

from __future__ import annotations

import os
import time
from math import nan
from pathlib import Path
from typing import NamedTuple

COUNTED = (0, 1, 2, 7)
"""Columns of the machine's processor time that count as used: user, nice, system, stolen by a hypervisor. Interrupts do
not count, since our own messages cause most of them."""
STAT = Path("/proc/stat")


class Spent(NamedTuple):
    """Seconds of processor time of the whole machine, and of this program with all children that have ended."""

    at_s: float
    all_s: float
    own_s: float


def read_spent() -> Spent:
    """Read the counters; ``all_s`` is NaN where the system has no ``/proc/stat``."""
    own, tick_s = os.times(), 1.0 / os.sysconf("SC_CLK_TCK")
    try:
        ticks = [int(word) for word in STAT.read_text().splitlines()[0].split()[1:]]
    except OSError:
        ticks = []
    all_s = sum(ticks[place] for place in COUNTED if place < len(ticks)) * tick_s if ticks else nan
    return Spent(time.monotonic(), all_s, sum(own[:4]))


def others_frac(begin: Spent, end: Spent, cores: int | None = None) -> float:
    """Return the share of the machine's processor time that other programs took in between; at least 0, or NaN."""
    room_s = (cores or os.cpu_count() or 1) * (end.at_s - begin.at_s)
    others_s = end.all_s - begin.all_s - (end.own_s - begin.own_s)
    return max(others_s / room_s, 0.0) if room_s > 0 else nan  # in this order, NaN stays NaN
