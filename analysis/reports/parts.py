"""Which part of the steps costs what: loading, communication or computing (pure)."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from analysis.logs.step_log import StepLog

Floats = NDArray[np.float64]

DATA_BOUND = 0.05
"""Part of the time in loading from which a job is data-bound; source: the rule of the PyTorch Profiler's TensorBoard
plugin (pytorch/kineto, ``tb_plugin/torch_tb_profiler/profiler/data.py``)."""
SLOW = 0.1
"""A slow step takes so much longer than the median step, at least."""
NO_PARTS = "the log has no times of parts: log seconds of loading and of communication to tell which part is slow"


def parts_of(log: StepLog) -> dict[str, Floats]:
    """[steps, ranks] seconds of each part that the log tells apart, and of the rest as ``computing``; else empty.

    ``log``: own work of a log of whole steps contains the communication.
    """
    parts = {
        name: values for name, values in (("loading", log.data_s), ("communication", log.comm_s)) if values is not None
    }
    if not parts:
        return {}
    own_s = log.own_s
    within = [values for name, values in parts.items() if name == "loading" or not log.per_rank]
    return {**parts, "computing": own_s - sum(within, np.zeros_like(own_s))}


def slowest_part(parts: dict[str, Floats], slow: NDArray[np.bool_], usual: dict[str, Floats]) -> tuple[str, float]:
    """(the part that exceeds its usual time most in slow places, that excess in seconds)."""
    more = {name: float(np.nansum((values - usual[name])[slow])) for name, values in parts.items()}
    name = max(more, key=more.__getitem__)
    return name, more[name]


def part_lines(log: StepLog) -> list[str]:
    """Say how the time divides into parts, whether the job waits for data, and in which part slow steps are long."""
    parts = parts_of(log)
    if not parts:
        return [NO_PARTS]
    sums = {name: float(np.nansum(values)) for name, values in parts.items()}
    total_s = sum(sums.values())
    lines = ["of the time, " + ", ".join(f"{seconds / total_s:.1%} is {name}" for name, seconds in sums.items())]
    if (loading := sums.get("loading", 0.0) / total_s) > DATA_BOUND:
        lines.append(
            f"data-bound: steps wait for data {loading:.1%} of the time; more loader processes (num_workers) or "
            "prefetching save so much at most"
        )
    seconds = sum(parts.values(), np.zeros_like(log.own_s))
    slow = seconds > (1.0 + SLOW) * np.nanmedian(seconds)
    if slow.any():
        usual = {name: np.full_like(values, np.nanmedian(values)) for name, values in parts.items()}
        name, more_s = slowest_part(parts, slow, usual)
        excess_s = float((seconds - np.nanmedian(seconds))[slow].sum())
        lines.append(f"slow steps are longer in {name} ({min(1.0, more_s / excess_s):.0%} of their excess)")
    return lines
