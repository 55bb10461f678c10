"""On as few machines as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from reading.ranges import PositiveInt, check_settings
from strategies.cluster.placements.servers import check_servers_on, check_there_are, next_to_workers
from strategies.cluster.placements.workers import on_fewest
from strategies.protocol import JobRequest, Machine, Placement, Places, Room


@final
@dataclass(frozen=True, kw_only=True)
class Pack(Placement):
    """The gang goes to the machine where it leaves fewest GPUs idle; if none holds it whole, to as few as possible.

    Servers are on the machines of the job's workers, in turns.

    Attributes:
        max_machines: the gang waits rather than be on more machines than this; null: no limit. (Philly relaxes such a
            rule with time, Jeon et al., ATC 2019; this does not.)
        servers_on: see ``FirstFit``.
    """

    max_machines: PositiveInt | None = None
    servers_on: str = "any"

    def __post_init__(self) -> None:
        check_settings(self)
        check_servers_on(self.servers_on)

    def validate(self, machines: Sequence[Machine]) -> None:
        check_there_are(self.servers_on, machines)

    def place(self, request: JobRequest, room: Room) -> Places | None:
        if request.gpus > room.free_gpus:
            return None
        workers = on_fewest(request.gpus, room.free, self.max_machines)
        if workers is None:
            return None
        servers = next_to_workers(request.servers, self.servers_on, workers, room)
        return Places(workers=tuple(workers), servers=tuple(servers))
