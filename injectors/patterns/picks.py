"""Targets that a pattern picks from its list with the seed: the field ``pick`` of several patterns."""

from __future__ import annotations

from collections.abc import Sequence

from injectors.patterns.fields import expand_targets
from injectors.patterns.streams import stream
from injectors.plan import ClusterShape


def check_pick(pick: int | None) -> None:
    """Raise ``ValueError`` unless it is a number of targets, or None for all of them."""
    if pick is not None and (type(pick) is not int or pick < 1):
        raise ValueError(f"pick={pick}: must be a whole number, at least 1, or null for all targets")


def pick_targets(targets: Sequence[str], pick: int | None, cluster: ClusterShape, seed: int, pattern: str) -> list[str]:
    """The targets meant, or ``pick`` of them; raises ``ValueError`` where the cluster has fewer."""
    found = expand_targets(targets, cluster)
    if pick is None:
        return found
    if pick > len(found):
        raise ValueError(f"pick={pick}: there are only {len(found)} targets to pick from")
    return draw_targets(found, pick, seed, pattern)


def draw_targets(targets: Sequence[str], count: int, seed: int, pattern: str) -> list[str]:
    """The ``count`` targets with the smallest draws, each from its own stream: one more target replaces at most one."""
    return sorted(targets, key=lambda target: stream(seed, pattern, target).random())[:count]
