"""On as many machines as possible."""

from __future__ import annotations

import heapq
from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.placements.servers import GangPlacement, on_fewest_of
from strategies.protocol import JobRequest, Room


@final
@dataclass(frozen=True, kw_only=True)
class Spread(GangPlacement):
    """Each worker goes where most GPUs are free by then, each server where fewest servers are; ties: lower number."""

    def workers(self, gpus: int, room: Room) -> list[int]:
        order = [(-has, machine) for machine, has in enumerate(room.free) if has]
        heapq.heapify(order)
        found = []
        for _ in range(gpus):
            has, machine = order[0]
            found.append(machine)
            if has < -1:
                heapq.heapreplace(order, (has + 1, machine))
            else:
                heapq.heappop(order)
        return found

    def servers(self, request: JobRequest, workers: Sequence[int], room: Room) -> list[int]:
        return on_fewest_of(request.servers, self.servers_on, room)
