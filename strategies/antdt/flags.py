"""AntDT's test for slowness: every node against a centre of all (pure; section VI-A)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from math import inf
from statistics import fmean

CENTERS = ("mean_all", "median_others")


def bounds(seconds: Mapping[int, float], ratio: float, center: str) -> dict[int, float]:
    """Seconds from which each node is slow: ``ratio`` times the centre.

    ``mean_all`` is the paper's: the mean of all, the node itself included, so of n nodes one is flagged only if it
    takes more than ratio (n - 1) / (n - ratio) times as long as each of the others; n must exceed ratio.
    ``median_others`` leaves the node itself out, for small clusters.
    """
    if center == "mean_all":
        return dict.fromkeys(seconds, ratio * fmean(seconds.values())) if seconds else {}
    if len(seconds) < 2:
        return {}
    ranked = sorted(seconds, key=lambda node: seconds[node])
    ordered = [seconds[node] for node in ranked]
    return {node: ratio * median_without(ordered, rank) for rank, node in enumerate(ranked)}


def median_without(ordered: Sequence[float], rank: int) -> float:
    """Median of sorted numbers (two or more) without the one at ``rank``."""
    others = len(ordered) - 1
    low, high = ((middle if middle < rank else middle + 1) for middle in ((others - 1) // 2, others // 2))
    return (ordered[low] + ordered[high]) / 2


def slow(seconds: Mapping[int, float], ratio: float, center: str = "mean_all") -> list[int]:
    """Nodes whose mean ``seconds`` reach the bound, slowest first (ties: lower number)."""
    limits = bounds(seconds, ratio, center)
    reached = [node for node, limit in limits.items() if seconds[node] >= limit > 0.0]
    return sorted(reached, key=lambda node: (-seconds[node], node))


def still_slow(
    fastest_s: Mapping[int, float], seconds: Mapping[int, float], ratio: float, center: str = "mean_all"
) -> set[int]:
    """Nodes of ``fastest_s`` that would be slow, too, if they took that long instead of their mean, each by itself."""
    if center == "mean_all":
        limits = {node: ratio * fmean({**seconds, node: own_s}.values()) for node, own_s in fastest_s.items()}
    else:  # whose bounds leave the node itself out
        limits = bounds(seconds, ratio, center) if fastest_s else {}
    return {node for node, own_s in fastest_s.items() if own_s >= limits.get(node, inf) > 0.0}


def check_ratio(name: str, ratio: float, num_nodes: int, center: str) -> None:
    """Raise ``ValueError`` when no node of ``num_nodes`` could ever be slow.

    A mean that includes the node is at least 1 / n of its time, so with n <= ratio no time can reach the bound.
    """
    if center == "mean_all" and ratio >= num_nodes:
        raise ValueError(
            f"{name}={ratio}: must be less than the number of workers ({num_nodes}), or none could ever be this much "
            "slower than the mean of all"
        )
    if num_nodes < 2:
        raise ValueError(f"center={center}: needs 2 workers or more")
