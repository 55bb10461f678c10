"""The agents of one job, by node: their start, and which of them is responsible for which task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from runtime.api import AgentStart, Launcher
from runtime.live.joining.site import LOCAL
from runtime.live.transport.auth import Identity
from runtime.live.transport.hub import Hub, Key
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Message
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import NodeId

LOOK_EVERY_S = 0.1
REPORTED_S = 5.0
"""Seconds within which a machine elsewhere reports that its tasks' agent has ended."""


class Agents:
    """Agents of a job; ``failed`` is called with the reason if one cannot start.

    A node is a host's name; agents identify themselves by its number among ``nodes``, and tasks without a place
    belong to the first.
    """

    def __init__(
        self,
        launcher: Launcher,
        hub: Hub,
        loop: Loop,
        logs: Path,
        failed: Callable[[str], None],
        nodes: tuple[str, ...] = (LOCAL,),
    ) -> None:
        self.launcher, self.hub, self.loop, self.logs, self.failed = launcher, hub, loop, logs, failed
        self.keys: dict[str, Key] = {node: NodeId("agent", number) for number, node in enumerate(nodes)}
        self.node_of: dict[str, str] = {}
        """Nodes by target, ``worker:1`` or ``host:0``; missing targets are on the first node."""
        self._elsewhere = nodes != (LOCAL,)
        self._first = nodes[0]
        self._ready: set[Key] = set()

    def start(self, spec: Callable[[int], TaskSpec], fds: tuple[int, ...] = (), *, saves: bool = False) -> None:
        """Start all agents; each gets ``spec(number)``, those on this machine inherit ``fds``.

        ``saves``: whether the final parameters are wanted from elsewhere.
        """
        for node, (_, number) in self.keys.items():
            words = msgspec.msgpack.encode(spec(number))
            self.launcher.start(node, AgentStart(spec=words, log=self.log_of(node), fds=fds, saves=saves))
        self._look()

    def _look(self) -> None:
        """Check agents that have not connected, of which only the exit shows a failure, and all that are elsewhere."""
        missing = [node for node, key in self.keys.items() if key not in self._ready and key not in self.hub.peers]
        for node in missing:
            if self.launcher.ended(node):
                self.failed(f"the agent could not start: {self.last_words(self.keys[node][1])}")
                return
        if self._elsewhere:
            for node in self.keys:
                if reason := self.launcher.ended(node):
                    self.failed(f"{node} is lost: {reason}")
                    return
        if missing or self._elsewhere:
            self.loop.after(LOOK_EVERY_S, self._look)

    def lost(self, number: int) -> None:
        """An agent's connection is gone. What became of one elsewhere its machine reports, unless that is gone, too."""

        def fail() -> None:
            log = self.log_of(next(node for node, key in self.keys.items() if key.number == number))
            self.failed(f"the agent died: {self.last_words(number)} (see logs/{log.name})")

        if self._elsewhere:
            self.loop.after(REPORTED_S, fail)
        else:
            fail()

    # ---- who they are ------------------------------------------------------------------------------------------------

    def expects(self, identity: Identity) -> bool:
        """Whether it is one of our agents that has not connected yet."""
        key = identity.key
        return key in self.keys.values() and key not in self.hub.peers

    def ready(self, number: int) -> bool:
        """Mark an agent as ready to start tasks; returns whether all are."""
        self._ready.add(NodeId("agent", number))
        return self._ready == set(self.keys.values())

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

    def where(self, target: str) -> str:
        """The node of a task or host."""
        return self.node_of.get(target, self._first)

    # ---- the end -----------------------------------------------------------------------------------------------------

    @property
    def there(self) -> bool:
        """Whether an agent is still running."""
        return any(self.launcher.ended(node) is None for node in self.keys)

    def end_those_that_start(self) -> None:
        """End agents that are still importing, which would not read messages."""
        for node, key in self.keys.items():
            if key not in self.hub.peers:
                self.launcher.end(node)

    def kill(self) -> None:
        """Kill all remaining agents at once, and with them all their tasks."""
        for node in self.keys:
            self.launcher.end(node)
