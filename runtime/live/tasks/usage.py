"""The use of a process, read from the kernel in a few microseconds."""

from __future__ import annotations

import os
import time
from pathlib import Path

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
CPU_CLOCK = 2
"""The kernel's number for the clock of a whole process, in the lower bits of a clock id."""


def cpu_s(pid: int) -> float | None:
    """Processor seconds of a process, all threads together; None when it is gone."""
    try:
        return time.clock_gettime((~pid << 3) | CPU_CLOCK)
    except OSError:
        return None


def resident_bytes(pid: int) -> int | None:
    """Memory of a process in bytes, shared pages included; None when it is gone."""
    try:
        return int(Path(f"/proc/{pid}/statm").read_text().split()[1]) * PAGE_BYTES
    except (OSError, IndexError):
        return None


def private_bytes(pid: int) -> int:
    """Memory of a process that no other shares (USS) in bytes; 0 when it is gone."""
    try:
        lines = Path(f"/proc/{pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return 0
    return sum(int(line.split()[1]) * 1024 for line in lines if line.startswith("Private_"))
