"""The first machine that fits."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from strategies.cluster.placements.servers import check_servers_on, check_there_are, next_to_workers
from strategies.cluster.placements.workers import in_order
from strategies.protocol import JobRequest, Machine, Placement, Places, Room


@final
@dataclass(frozen=True, kw_only=True)
class FirstFit(Placement):
    """The gang goes to the first machine that holds it whole, else to machines in their order.

    Servers are on the machines of the job's workers, in turns.

    Attributes:
        servers_on: machines that may hold servers: ``any``, ``gpu`` (with GPUs), ``cpu`` (without; where fewest are).
    """

    servers_on: str = "any"

    def __post_init__(self) -> None:
        check_servers_on(self.servers_on)

    def validate(self, machines: Sequence[Machine]) -> None:
        check_there_are(self.servers_on, machines)

    def place(self, request: JobRequest, room: Room) -> Places | None:
        if request.gpus > room.free_gpus:
            return None
        workers = in_order(request.gpus, room.free)
        servers = next_to_workers(request.servers, self.servers_on, workers, room)
        return Places(workers=tuple(workers), servers=tuple(servers))
