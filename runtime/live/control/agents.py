"""The agents of one job, by node: their start, their loss, and which of them is responsible for which task."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from math import inf
from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from runtime.api import AgentStart, Launcher
from runtime.live.control.leases import AgentLeases
from runtime.live.joining.site import LOCAL
from runtime.live.transport.auth import Identity
from runtime.live.transport.hub import Hub, Key
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Message
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.live.control.joined import JoinedMachines

LOOK_EVERY_S = 0.1
REPORTED_S = 5.0
"""Seconds within which a machine elsewhere reports that its tasks' agent has ended."""


class Agents:
    """Agents of a job; ``failed`` is called with the reason if one cannot start, or is lost and nobody replaces it.

    A node is a host's name; agents identify themselves by its number among ``nodes``, and tasks without a place
    belong to the first. ``lease_s``: the silence after which an agent counts as lost, whether it is stopped, hangs, or
    cannot be reached; ``start_deadline_s``: the same for one that starts.
    """

    def __init__(
        self,
        launcher: Launcher,
        hub: Hub,
        loop: Loop,
        logs: Path,
        failed: Callable[[str], None],
        nodes: tuple[str, ...] = (LOCAL,),
        *,
        node_of: Mapping[str, str] | None = None,
        lease_s: float,
        start_deadline_s: float = inf,
    ) -> None:
        self.launcher, self.hub, self.loop, self.logs, self.failed = launcher, hub, loop, logs, failed
        self.keys: dict[str, Key] = {node: NodeId("agent", number) for number, node in enumerate(nodes)}
        self.node_of = dict(node_of or {})
        """Nodes by target, ``worker:1`` or ``host:0``; missing targets are on the first node."""
        self.elsewhere = nodes != (LOCAL,)
        """Whether they have joined from anywhere."""
        self.joined: JoinedMachines | None = None
        """Hears which nodes are lost, and which machines take their places; None: this machine is the only one."""
        self._first = nodes[0]
        self._leases = AgentLeases(lease_s, start_deadline_s, LOOK_EVERY_S)
        self._ready: set[Key] = set()
        self._all_were_ready = self._ending = False
        self._vacant_until_s: dict[str, float] = {}
        """Nodes that are lost, and until when another machine may take their place."""

    def start(self, spec: Callable[[int], TaskSpec], fds: tuple[int, ...] = (), *, saves: bool = False) -> None:
        """Start all agents; each gets ``spec(number)``, those on this machine inherit ``fds``.

        ``saves``: whether the final parameters are wanted from elsewhere.
        """
        start = partial(self._start, spec, fds, saves)
        for node in self.keys:
            start(node)
        self._leases.renew(self.loop.now)
        self._look(start)

    def _start(self, spec: Callable[[int], TaskSpec], fds: tuple[int, ...], saves: bool, node: str) -> None:
        words = msgspec.msgpack.encode(spec(self.keys[node].number))
        self._leases.started(self.keys[node], self.loop.now)
        self.launcher.start(node, AgentStart(spec=words, log=self.log_of(node), fds=fds, saves=saves))

    def _look(self, start: Callable[[str], None]) -> None:
        """Check silent agents, and agents that have not connected, whose failure only their exit shows."""
        if self._ending:
            return
        known = self._ready | set(self.hub.peers)
        for node, key in self.keys.items():
            missing = key not in known and node not in self._vacant_until_s
            if missing and self.launcher.ended(node):
                self.failed(f"the agent could not start: {self.last_words(key.number)}")
                return
        self._leases.look(self.loop.now)
        for node in self.keys:
            self._look_at(node, start)
        self.loop.after(LOOK_EVERY_S, partial(self._look, start))

    def heard(self, number: int) -> None:
        """An agent has said something."""
        self._leases.heard(NodeId("agent", number), self.loop.now)

    def clock_restarted(self) -> None:
        """Now is 0, and all leases are renewed."""
        self._leases.renew(self.loop.now)

    @property
    def awaited(self) -> str:
        """Nodes without a connected agent, for messages; empty: all agents have connected."""
        missing = [node for node, key in self.keys.items() if key not in self._ready]
        return ", ".join("the agent" if node == LOCAL else f"the agent of {node}" for node in missing)

    def _why_lost(self, node: str) -> str | None:
        """Why a node is lost, None if it is not; that an agent here has ended, the end of its connection tells."""
        if self.elsewhere and (ended := self.launcher.ended(node)) is not None:
            return ended
        silent = node not in self._vacant_until_s and self._leases.why_lost(self.keys[node], self.loop.now)
        return silent or None

    def _look_at(self, node: str, start: Callable[[str], None]) -> None:
        """Notice that a node is lost, or that another machine has taken its place."""
        reason, until_s = self._why_lost(node), self._vacant_until_s.get(node)
        if until_s is not None and reason is None:
            del self._vacant_until_s[node]
            if self.joined is not None:
                self.joined.here(node, self.launcher.address(node))
            start(node)
        elif until_s is not None and self.loop.now > until_s:
            self.failed(f"{node} is lost, and no other agent took its place in time (launcher.rejoin_s)")
        elif until_s is None and reason is not None:
            for_s = self.launcher.replace(node) if self._all_were_ready else 0.0
            if not for_s:
                self.failed(f"{'the agent' if node == LOCAL else node} is lost: {reason}")
                return
            self._vacant_until_s[node] = self.loop.now + for_s
            self._ready.discard(self.keys[node])
            self.hub.hang_up(self.keys[node])
            if self.joined is not None:
                self.joined.lost(node, reason)

    def lost(self, number: int) -> None:
        """An agent's connection is gone. If it ran elsewhere, its machine reports its end, unless that is gone, too."""

        def fail() -> None:
            key = NodeId("agent", number)
            if self.elsewhere and (key not in self._ready or key in self.hub.peers):
                return  # meanwhile its machine is known to be lost, or another has taken its place
            log = self.log_of(next(node for node, key in self.keys.items() if key.number == number))
            self.failed(f"the agent died: {self.last_words(number)} (see logs/{log.name})")

        if self.elsewhere:
            self.loop.after(REPORTED_S, fail)
        else:
            fail()

    # ---- who they are ------------------------------------------------------------------------------------------------

    def expects(self, identity: Identity) -> bool:
        """Whether it is one of our agents that has not connected yet."""
        key = identity.key
        return key in self.keys.values() and key not in self.hub.peers

    def ready(self, number: int) -> bool:
        """Mark an agent as ready to start tasks; returns whether now all are for the first time."""
        self._ready.add(key := NodeId("agent", number))
        self._leases.ready(key, self.loop.now)
        if self._all_were_ready:
            if self.joined is not None:
                self.joined.back(next(node for node, known in self.keys.items() if known == key))
            return False
        self._all_were_ready = self._ready == set(self.keys.values())
        return self._all_were_ready

    def log_of(self, node: str) -> Path:
        """The log of an agent's own output."""
        return self.logs / ("agent.log" if node == LOCAL else f"agent-{node}.log")

    def last_words(self, number: int) -> str:
        """The last line that an agent printed."""
        log = next(self.log_of(node) for node, key in self.keys.items() if key[1] == number)
        words = log.read_text(errors="replace").strip() if log.exists() else ""  # an empty log is removed
        return words.splitlines()[-1] if words else "it printed nothing"

    # ---- messages to agents ------------------------------------------------------------------------------------------

    def tell(self, target: str, message: Message) -> None:
        """Send a message to the agent of a task or host."""
        self.hub.send(self.keys[self.where(target)], message)

    def is_here(self, node: str) -> bool:
        """Whether no other machine is awaited in its place."""
        return node not in self._vacant_until_s

    def where(self, target: str) -> str:
        """The node of a task or host."""
        return self.node_of.get(target, self._first)

    # ---- the end -----------------------------------------------------------------------------------------------------

    @property
    def there(self) -> bool:
        """Whether an agent is still running."""
        return any(self.launcher.ended(node) is None for node in self.keys)

    def end_those_that_start(self) -> None:
        """The job is over: end agents that are still importing, which would not read messages."""
        self._ending = True
        for node, key in self.keys.items():
            if key not in self.hub.peers:
                self.launcher.end(node)

    def kill(self) -> None:
        """Kill all remaining agents at once, and with them all their tasks."""
        for node in self.keys:
            self.launcher.end(node)
