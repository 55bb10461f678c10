"""How well two tasks interleave on one processor and one GPU (Zhao et al., Muri, SIGCOMM 2022)."""

from __future__ import annotations

from strategies.protocol import TaskDemand


def interleaved_s(one: TaskDemand, other: TaskDemand) -> float:
    """Seconds of a round of both, where each computes on the processor while the other is on the GPU."""
    return max(one.cpu_s, other.gpu_s) + max(one.gpu_s, other.cpu_s)


def interleaving_gamma(one: TaskDemand, other: TaskDemand) -> float | None:
    """The part of such a round in which processor and GPU are busy, at most 1; None: neither task has known phases.

    gamma = (c1 + g1 + c2 + g2) / (2 T) with T of :func:`interleaved_s`.
    """
    round_s = interleaved_s(one, other)
    busy_s = one.cpu_s + one.gpu_s + other.cpu_s + other.gpu_s
    return busy_s / (2 * round_s) if round_s else None
