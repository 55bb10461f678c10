"""Workers that an operator takes away and replaces while the job runs."""

from __future__ import annotations

import heapq
from collections.abc import Iterator
from dataclasses import dataclass
from typing import final

from injectors.patterns.base import Pattern
from injectors.patterns.fields import MAX_WINDOWS, check_name, check_number
from injectors.patterns.streams import exponential, stream
from injectors.plan import ClusterShape, Disturbance, Kind, Plan, build_plan

HOUR_S = 3600.0


@final
@dataclass(frozen=True, kw_only=True)
class Elastic(Pattern):
    """Every worker leaves after an exponential time; a replacement, with the next number, joins ``rejoin_s`` later.

    A worker whose leave would leave fewer than ``least_workers`` stays for another such time. As in a cluster that
    takes spot or low-priority machines away and gives others later.

    Attributes:
        leaves_per_hour: mean number of leaves per worker and hour.
        rejoin_s: seconds until the replacement joins; None: there is none.
        least_workers: number of workers that always stay, at least 1.
        name: see :class:`Pattern`.
    """

    leaves_per_hour: float = 60.0
    rejoin_s: float | None = 5.0
    least_workers: int = 1
    name: str = "elastic"

    def __post_init__(self) -> None:
        check_number("leaves_per_hour", self.leaves_per_hour, above=0)
        if self.rejoin_s is not None:
            check_number("rejoin_s", self.rejoin_s, least=0)
        if type(self.least_workers) is not int or self.least_workers < 1:
            raise ValueError(f"least_workers={self.least_workers}: must be a whole number, 1 or more")
        check_name(self.name)

    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """A window for each join and leave, from its time to the horizon."""
        mean_s = HOUR_S / self.leaves_per_hour
        if 2 * cluster.num_workers * horizon_s / mean_s > MAX_WINDOWS:
            raise ValueError(
                f"leaves_per_hour={self.leaves_per_hour:g}: too many for {horizon_s:g} s and {cluster.num_workers} "
                f"workers; at most {MAX_WINDOWS} make a plan"
            )
        windows = (
            Disturbance(start_s=at_s, end_s=horizon_s, target=f"worker:{worker}", kind=kind, magnitude=1.0)
            for at_s, kind, worker in self._changes(cluster.num_workers, mean_s, horizon_s, seed)
        )
        return build_plan(self.name, seed, horizon_s, windows)

    def _changes(
        self, num_workers: int, mean_s: float, horizon_s: float, seed: int
    ) -> Iterator[tuple[float, Kind, int]]:
        """(time, join or leave, worker) in their order."""
        draws = {worker: stream(seed, self.name, f"worker:{worker}") for worker in range(num_workers)}
        due: list[tuple[float, Kind, int]] = [(exponential(draw) * mean_s, "leave", one) for one, draw in draws.items()]
        heapq.heapify(due)
        here, following = num_workers, num_workers
        while due and due[0][0] < horizon_s:
            at_s, kind, worker = heapq.heappop(due)
            if kind == "join":
                worker, following, here = following, following + 1, here + 1
                draws[worker] = stream(seed, self.name, f"worker:{worker}")
            elif here > self.least_workers:
                here -= 1
                if self.rejoin_s is not None:
                    heapq.heappush(due, (at_s + self.rejoin_s, "join", worker))
            else:
                heapq.heappush(due, (at_s + exponential(draws[worker]) * mean_s, "leave", worker))
                continue
            yield at_s, kind, worker
            if kind == "join":
                heapq.heappush(due, (at_s + exponential(draws[worker]) * mean_s, "leave", worker))
