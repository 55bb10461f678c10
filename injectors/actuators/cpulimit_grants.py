"""The share that the program cpulimit grants at a percent, and the percent that grants a wanted share (pure).

cpulimit does not grant the percents that it is given: at 25 % a busy process gets 29 %, at 5 % it gets 6.7 %. Its loop
explains that (LimitCPU 2.8 and 3.1, which Debian and Ubuntu ship as ``cpulimit``; ``main`` and ``compute_cpu_usage`` of
its source). In every pass it reads the processor time of its target in clock ticks, and the mean over the last ten
passes. While that mean is below the limit, the target runs on without a pause; once the mean is above, the target is
stopped, but only after the working part of one more pass. So it switches between running and stopped about once a
second. :func:`granted_cores` simulates these passes.
"""

from __future__ import annotations

from collections import deque
from functools import lru_cache

SLOT_S = 0.1
"""A pass: a working part and, above the limit, a sleeping part."""
TICK_S = 0.01
"""Unit in which the program reads processor time."""
PASSES = 10
"""Passes that its mean is over."""
WAKE_S = 60e-6
"""Seconds by which each of its sleeps is longer than requested, with the kernel's default timer slack of 50 µs."""
SIMULATED_S = 120.0
LOWEST_PERCENT = 3
"""At 1 and 2 % its mean is mostly zero, and it grants ten."""
TOLERANCE_FRAC = 0.1
"""Part of the wanted cores: a level that no percentage grants within that part is refused."""


def granted_cores(percent: int, running_cores: float = 1.0) -> float:
    """Cores that a target gets on average if it uses ``running_cores`` whenever it is not stopped."""
    limit, now_s, used_s, working_s, running = percent / 100, 0.0, TICK_S / 2, 0.0, True
    seen: deque[tuple[float, int, float]] = deque(maxlen=PASSES)

    def passes(seconds: float) -> None:
        nonlocal now_s, used_s
        now_s += seconds + WAKE_S
        used_s += running_cores * (seconds + WAKE_S) if running else 0.0

    while now_s < SIMULATED_S:
        seen.append((now_s, int(used_s / TICK_S), working_s))
        begun_s, begun_ticks, _ = seen[0]
        span_s = now_s - begun_s
        if not span_s:
            mean, work_s = limit, SLOT_S * limit
        else:
            mean = (seen[-1][1] - begun_ticks) * TICK_S / span_s
            worked_s = sum(each for _, _, each in list(seen)[1:])
            work_s = min(SLOT_S * limit * worked_s / (mean * span_s), SLOT_S) if mean else SLOT_S
        running = running or mean < limit
        working_s = work_s + WAKE_S
        passes(work_s)
        if mean > limit:
            running = False
            passes(SLOT_S - work_s)
    return (used_s - TICK_S / 2) / now_s


@lru_cache(maxsize=256)
def percent_for(cores: float, running_cores: float = 1.0) -> tuple[int, float]:
    """The percent that grants ``cores`` best, and the cores that it grants.

    Raises ``ValueError`` where that is more than a tenth off: cpulimit has whole percents, and reads whole ticks.
    """
    if not 0.0 < cores < running_cores:
        if cores >= running_cores:
            return round(100 * cores), cores
        raise ValueError(f"{cores:g} cores: cpulimit needs a number above 0")
    low, high = LOWEST_PERCENT, max(LOWEST_PERCENT + 1, round(100 * running_cores))
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if granted_cores(middle, running_cores) < cores else (low, middle)
    granted = {percent: granted_cores(percent, running_cores) for percent in (low, high)}
    best = min(granted, key=lambda percent: abs(granted[percent] - cores))
    if abs(granted[best] / cores - 1.0) > TOLERANCE_FRAC:
        raise ValueError(
            f"{cores:.3g} of {running_cores:.3g} cores: cpulimit grants {granted[best]:.3g} at best; use "
            "runtime.cpu_by=cgroup, or duty"
        )
    return best, granted[best]
