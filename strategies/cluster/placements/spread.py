"""On as many machines as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.placements.servers import GangPlacement, on_fewest_of
from strategies.cluster.placements.workers import on_most_free
from strategies.protocol import JobRequest, Room


@final
@dataclass(frozen=True, kw_only=True)
class Spread(GangPlacement):
    """Each worker goes where most GPUs are free by then, each server where fewest servers are."""

    def workers(self, gpus: int, room: Room) -> list[int]:
        return on_most_free(gpus, room.free)

    def servers(self, request: JobRequest, workers: Sequence[int], room: Room) -> list[int]:
        return on_fewest_of(request.servers, self.servers_on, room)
