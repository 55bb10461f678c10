"""On as many machines as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.placements.servers import check_servers_on, check_there_are, on_fewest_of
from strategies.cluster.placements.workers import on_most_free
from strategies.protocol import JobRequest, Machine, Placement, Places, Room


@final
@dataclass(frozen=True, kw_only=True)
class Spread(Placement):
    """Each worker goes where most GPUs are free by then, each server where fewest servers are.

    Attributes:
        servers_on: see ``FirstFit``.
    """

    servers_on: str = "any"

    def __post_init__(self) -> None:
        check_servers_on(self.servers_on)

    def validate(self, machines: Sequence[Machine]) -> None:
        check_there_are(self.servers_on, machines)

    def place(self, request: JobRequest, room: Room) -> Places | None:
        if request.gpus > room.free_gpus:
            return None
        workers = on_most_free(request.gpus, room.free)
        servers = on_fewest_of(request.servers, self.servers_on, room)
        return Places(workers=tuple(workers), servers=tuple(servers))
