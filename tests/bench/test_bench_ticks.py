"""What the kernel makes of a quota with and without threads that make it look, and what these threads cost."""

from __future__ import annotations

import os
import time
from statistics import median
from typing import Any

import pytest

from runtime.cluster.hosts import USUAL_PERIOD_S
from runtime.live.machines.cgroups import Cgroup
from runtime.live.machines.ticks import Ticks, obstacle
from tests.support.quotas import own_group, spin, within

pytestmark = [
    pytest.mark.bench,
    pytest.mark.timeout(180),
    pytest.mark.skipif(obstacle() is not None, reason=f"no real-time priority here ({obstacle()})"),
]
CORES = 0.1
WORK_S = (3e-3, 4e-3, 6e-3, 10e-3)
REPEATS = 16
PIECES_PER_S = 5e7
"""Of :func:`spin`, about; what it takes is measured."""


def medians_s(group: Cgroup) -> list[tuple[float, float]]:
    """Of each piece of work in the group: the median of its processor time, and that of its wall time over the rule's.

    Before each there is a pause in which all debts are paid; then work of c takes c / CORES - P by the rule.
    """

    def play() -> bytes:
        lines = []
        for work_s in WORK_S:
            count, used, over = round(work_s * PIECES_PER_S), [], []
            for repeat in range(REPEATS):
                time.sleep(0.2 + 0.0011 * repeat)  # at other moments of a period and of a tick
                cpu_s, begun = time.process_time(), time.perf_counter()
                spin(count)
                wall_s, cpu_s = time.perf_counter() - begun, time.process_time() - cpu_s
                used.append(cpu_s)
                over.append(wall_s / (cpu_s / CORES - USUAL_PERIOD_S))
            lines.append(f"{median(used)} {median(over)}")
        return "\n".join(lines).encode()

    rows = [line.split() for line in within(group, play).decode().splitlines()]
    return [(float(used), float(over)) for used, over in rows]


def test_work_beyond_a_quota(benchmark: Any) -> None:
    with own_group(CORES) as group:
        without = medians_s(group)
        ticks = Ticks()
        try:
            looked_at = benchmark.pedantic(medians_s, args=(group,), rounds=1)
            begun, used_s = time.perf_counter(), time.process_time()
            time.sleep(5.0)
            cost = (time.process_time() - used_s) / (time.perf_counter() - begun) / len(os.sched_getaffinity(0))
        finally:
            ticks.close()
    print("\nwithout: work (ms), wall time over the rule's; with: the same")
    for (own_s, own), (seen_s, seen) in zip(without, looked_at, strict=True):
        print(f"{own_s * 1e3:5.1f} {own:5.2f}   {seen_s * 1e3:5.1f} {seen:5.2f}")
    print(f"{100 * cost:.1f} % of every processor")
    benchmark.extra_info["percent_of_a_processor"] = 100 * cost
