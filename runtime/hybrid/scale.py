"""Many replicas for many steps: how long each takes in each, and what waiting for all of them costs (pure).

Ranks are independent, and all replicas begin a step together. The measured jobs of docs/scale.md show how far that is
from jobs whose ranks slow down together.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from runtime.hybrid.graph import Floats
from runtime.hybrid.step import Step

AT_ONCE = 8192
"""Cases that are computed together, about: arrays of so many numbers stay in a processor's cache."""


@dataclass(frozen=True)
class Ranks:
    """How independent ranks differ.

    Attributes:
        sigma: of a lognormal factor with mean one, drawn for each rank and step.
        slow_frac: part of the ranks that are slow throughout.
        slow_factor: by which their passes take longer.
        pause_frac: chance that a rank pauses before a step.
        pause_s: seconds of a pause.

    Raises:
        ValueError: a field is out of range; names it.
    """

    sigma: float = 0.0
    slow_frac: float = 0.0
    slow_factor: float = 1.0
    pause_frac: float = 0.0
    pause_s: float = 0.0

    def __post_init__(self) -> None:
        for name in ("slow_frac", "pause_frac"):
            if not 0.0 <= getattr(self, name) <= 1.0:
                raise ValueError(f"{name}={getattr(self, name)}: must be from 0 to 1")
        for name, least in (("sigma", 0.0), ("slow_factor", 1.0), ("pause_s", 0.0)):
            if not least <= getattr(self, name) < np.inf:
                raise ValueError(f"{name}={getattr(self, name)}: must be {least:g} or more")


def replica_s(
    step: Step,
    part_s: tuple[float, float, float],
    ranks: Ranks,
    replicas: int,
    steps: int,
    tensor: int = 1,
    seed: int = 0,
) -> Floats:
    """[steps, replicas]: seconds from the start of a step until a replica has all of its gradients.

    Args:
        step: the passes of a replica.
        part_s: of a micro-batch on a stage: a forward pass, a backward pass for activations, and for weights.
        ranks: how ranks differ.
        replicas: their number; the first ones of a larger job are the same as those of a smaller one only in its order
            of draws, so take columns of the result to compare sizes.
        steps: their number.
        tensor: ranks of each stage, the slowest of which counts.
        seed: of all draws.
    """
    found = np.empty((steps, replicas))
    for first, factor, paused_s in _draws(ranks, (replicas, step.stages, tensor), steps, seed):
        rows = step.rows(*part_s, factor=factor, ready_s=paused_s)
        ends = step.graph.alone(rows)
        found[first : first + factor.shape[-1] // replicas] = ends.reshape(-1, replicas)
    return found


def _draws(
    ranks: Ranks, shape: tuple[int, int, int], steps: int, seed: int
) -> Iterator[tuple[int, Floats, Floats | float]]:
    """The first of some steps, their factors [stages, tensor ranks, steps x replicas], and pauses [stages, ...]."""
    of_slow, of_jitter, of_pauses = (np.random.default_rng(one) for one in np.random.SeedSequence(seed).spawn(3))
    always = np.where(of_slow.random(shape) < ranks.slow_frac, ranks.slow_factor, 1.0)
    together = max(1, AT_ONCE // shape[0])
    for first in range(0, steps, together):
        some = (min(together, steps - first), *shape)
        factor = np.broadcast_to(always, some)
        if ranks.sigma:
            factor = factor * np.exp(ranks.sigma * of_jitter.standard_normal(some) - ranks.sigma**2 / 2)
        paused_s: Floats | float = 0.0
        if ranks.pause_frac:
            paused = (of_pauses.random(some) < ranks.pause_frac).any(axis=3)
            paused_s = ranks.pause_s * np.moveaxis(paused, 2, 0).reshape(shape[1], -1)
        yield first, np.ascontiguousarray(np.moveaxis(factor, (2, 3), (0, 1))).reshape(*shape[1:], -1), paused_s


def waited_s(seconds: Floats, backups: int = 0) -> Floats:
    """[steps]: when all replicas but the last ``backups`` are ready, of [steps, replicas]."""
    place = seconds.shape[1] - 1 - backups
    return np.partition(seconds, place, axis=1)[:, place]


def bounded_s(seconds: Floats, times: float) -> tuple[Floats, float]:
    """When a sum ends that waits for ``times`` the median replica at most, and the part of the gradients that is lost.

    Args:
        seconds: [steps, replicas].
        times: 1 or more.

    Returns:
        [steps] seconds; and a part of all gradients.
    """
    limit_s = times * np.median(seconds, axis=1)
    return np.minimum(seconds.max(axis=1), limit_s), float((seconds > limit_s[:, None]).mean())


def with_spares(seconds: Floats, spares: int, watched: int) -> Floats:
    """[steps, replicas - spares]: without the replicas that were slowest on average in the ``watched`` first steps."""
    kept = np.argsort(seconds[:watched].mean(axis=0), kind="stable")[: seconds.shape[1] - spares]
    return seconds[:, np.sort(kept)]


def local_s(seconds: Floats, steps_apart: int) -> Floats:
    """[sums]: time of one step if replicas sum their parameters only every ``steps_apart`` steps (local SGD, DiLoCo).

    Steps after the last sum are left out.
    """
    whole = len(seconds) // steps_apart * steps_apart
    return seconds[:whole].reshape(-1, steps_apart, seconds.shape[1]).sum(axis=1).max(axis=1) / steps_apart
