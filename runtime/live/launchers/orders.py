"""Orders to agents that have joined: start, end, replace the tasks' agent of a node."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import final

import msgspec

from runtime.api import AgentStart
from runtime.live.joining import wire
from runtime.live.joining.site import SAVED
from runtime.live.launchers.pieces import Pieces
from runtime.live.launchers.rendezvous import Rendezvous
from runtime.live.transport.silence import AGENT_HEARTBEAT_S
from runtime.live.transport.task_spec import TaskSpec


@final
class MeetingLauncher:
    """See :class:`runtime.api.Launcher`; the agents run already, and start a tasks' agent each on demand."""

    def __init__(
        self, rendezvous: Rendezvous, salt: bytes, rejoin_s: float, start_again: Callable[[int], None]
    ) -> None:
        """``start_again``: have another agent started for the one that was started under this number."""
        self.rendezvous, self.salt, self.rejoin_s = rendezvous, salt, rejoin_s
        rendezvous.vacated = start_again
        self._started: set[str] = set()

    def start(self, node: str, agent: AgentStart) -> None:
        self._started.add(node)
        spec = msgspec.msgpack.decode(agent.spec, type=TaskSpec)
        begin = wire.Begin(
            spec=msgspec.msgpack.encode(msgspec.structs.replace(spec, secret=b"")),
            salt=self.salt,
            lease_s=self.rendezvous.wanted.lease_s,
            heartbeat_s=AGENT_HEARTBEAT_S,
        )
        saved_to = agent.log.parents[1] / SAVED
        self.rendezvous.begin(node, begin, Pieces(agent.log, saved_to if agent.saves else None))

    def ended(self, node: str) -> str | None:
        return self.rendezvous.ended(node) if node in self._started else "it was never started"

    def end(self, node: str) -> None:
        if node in self._started:
            self.rendezvous.end(node)

    def replace(self, node: str) -> float:
        if self.rejoin_s:
            self.rendezvous.vacate(node)
        return self.rejoin_s

    def address(self, node: str) -> str | None:
        return self.rendezvous.members[self.rendezvous.keys[node]].address

    def cores(self, node: str) -> int:
        return self.rendezvous.members[self.rendezvous.keys[node]].cores

    def kill_all(self) -> None:
        with contextlib.suppress(OSError):
            self.rendezvous.hang_up_now()
