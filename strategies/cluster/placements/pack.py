"""On as few machines as possible."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import final

from reading.ranges import PositiveInt
from strategies.cluster.placements.servers import GangPlacement, next_to_workers
from strategies.cluster.placements.workers import on_fewest
from strategies.protocol import JobRequest, Room


@final
@dataclass(frozen=True, kw_only=True)
class Pack(GangPlacement):
    """The gang goes to the machine where it leaves fewest GPUs idle; if none holds it whole, to as few as possible.

    Servers are on the machines of the job's workers, in turns.

    Attributes:
        max_machines: the gang waits rather than be on more machines than this; null: no limit. (Philly relaxes such a
            rule with time, Jeon et al., ATC 2019; this does not.)
    """

    max_machines: PositiveInt | None = None

    def workers(self, gpus: int, room: Room) -> list[int] | None:
        return on_fewest(gpus, room.free, self.max_machines)

    def servers(self, request: JobRequest, workers: Sequence[int], room: Room) -> list[int]:
        return next_to_workers(request.servers, self.servers_on, workers, room)
