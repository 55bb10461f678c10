"""The first machine that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.placements.servers import GangPlacement, next_to_workers
from strategies.protocol import JobRequest, Room


@final
@dataclass(frozen=True, kw_only=True)
class FirstFit(GangPlacement):
    """The gang goes to the first machine that holds it whole, else to machines in their order.

    Servers are on the machines of the job's workers, in turns.
    """

    def workers(self, gpus: int, room: Room) -> list[int]:
        for machine, has in enumerate(room.free):
            if has >= gpus:
                return [machine] * gpus
        found: list[int] = []
        for machine, has in enumerate(room.free):
            found += [machine] * min(has, gpus - len(found))
        return found

    def servers(self, request: JobRequest, workers: Sequence[int], room: Room) -> list[int]:
        return next_to_workers(request.servers, self.servers_on, workers, room)
