"""Disturbances of ranks and of links between stages, as one delay of the worker that they are parts of.

The core and the strategies know workers only. An order to compute has the delay and the slow-down of the worker; this
module adds the delays of its parts (:meth:`runtime.cluster.replica.ReplicaProfile.added`).
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from typing import final

from injectors.plan import target_of
from injectors.schedule import Schedule
from runtime.cluster.device import DeviceProfile
from runtime.cluster.replica import DisturbedRank, Inside, ReplicaProfile


@final
class Insides:
    """The plan's disturbances inside all workers; ``profiles`` by worker, as they are when a batch begins."""

    def __init__(self, schedule: Schedule, profiles: Mapping[int, DeviceProfile | None]) -> None:
        self.schedule, self.profiles = schedule, profiles
        self._ranks: defaultdict[int, list[tuple[str, int, int]]] = defaultdict(list)
        self._links: defaultdict[int, list[tuple[str, int, int]]] = defaultdict(list)
        for text in sorted({one.target for one in schedule.disturbances}):
            target = target_of(text)
            if target.is_inside:
                found = self._ranks if target.form == "rank" else self._links
                worker, stage, other = target.ids
                found[worker].append((text, stage, other))

    def added(
        self, worker: int, samples: int, accum: int, t: float, delay_s: float, slowdown_frac: float
    ) -> tuple[float, float]:
        """The delay of a batch that a worker begins at ``t``: seconds, and a fraction of its undisturbed time.

        ``delay_s`` and ``slowdown_frac`` are the worker's own, which concern all of its ranks.
        """
        delay_for, profile = self.schedule.delay_for, self.profiles[worker]
        ranks = tuple(
            DisturbedRank(stage, tensor, *levels)
            for name, stage, tensor in self._ranks[worker]
            if any(levels := delay_for(name, t))
        )
        links = tuple(
            (stage, other, link_s) for name, stage, other in self._links[worker] if (link_s := delay_for(name, t)[0])
        )
        if not (ranks or links or slowdown_frac):
            return delay_s, 0.0
        assert isinstance(profile, ReplicaProfile)
        more_s, frac = profile.added(samples, accum, Inside(slowdown_frac, ranks, links))
        return delay_s + more_s, frac


def insides_of(schedule: Schedule, profiles: Mapping[int, DeviceProfile | None]) -> Insides | None:
    """The disturbances inside workers; None where a batch takes longer by the worker's own delay and slow-down alone.

    A slow-down of a worker is one of its ranks where messages take time, which it spares.
    """
    spares = any(isinstance(profile, ReplicaProfile) and profile.spec.message_s for profile in profiles.values())
    inside = any(target_of(one.target).is_inside for one in schedule.disturbances)
    return Insides(schedule, profiles) if inside or (spares and "slowdown" in schedule.kinds) else None
