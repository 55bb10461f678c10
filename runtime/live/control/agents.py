"""The agents of one job, by node: who starts them, and who of them is responsible for which task."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import msgspec

from runtime.api import AgentStart, Launcher
from runtime.live.transport.auth import Identity
from runtime.live.transport.hub import Hub, Key
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import Message
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import NodeId

LOCAL = "local"
"""The node of a job whose tasks are all on this machine."""
LOOK_EVERY_S = 0.1


class Agents:
    """``failed`` is told why one could not start.

    A node is a host's name; agents introduce themselves by its number among ``nodes``, and tasks that nobody has placed
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
        """By target, ``worker:1`` or ``host:0``; those that are missing are on the first node."""
        self._first = nodes[0]
        self._ready: set[Key] = set()

    def start(self, spec: Callable[[int], TaskSpec], fds: tuple[int, ...] = ()) -> None:
        """All of them; ``spec(number)`` is what each gets, ``fds`` are inherited by those on this machine."""
        for node, (_, number) in self.keys.items():
            words = msgspec.msgpack.encode(spec(number))
            self.launcher.start(node, AgentStart(spec=words, log=self.log_of(node), fds=fds))
        self._look()

    def _look(self) -> None:
        """Until one has called, only its exit can tell that it is in trouble."""
        missing = [node for node, key in self.keys.items() if key not in self._ready and key not in self.hub.peers]
        for node in missing:
            if self.launcher.ended(node):
                self.failed(f"the agent could not start: {self.last_words(self.keys[node][1])}")
                return
        if missing:
            self.loop.after(LOOK_EVERY_S, self._look)

    # ---- who they are ------------------------------------------------------------------------------------------------

    def expects(self, identity: Identity) -> bool:
        """Whether it is one of ours that has not called yet."""
        key = identity.key
        return key in self.keys.values() and key not in self.hub.peers

    def ready(self, number: int) -> bool:
        """One can start tasks now; whether all can."""
        self._ready.add(NodeId("agent", number))
        return self._ready == set(self.keys.values())

    def log_of(self, node: str) -> Path:
        """Where an agent's own words go."""
        return self.logs / ("agent.log" if node == LOCAL else f"agent-{node}.log")

    def last_words(self, number: int) -> str:
        """The last line that an agent printed."""
        log = next(self.log_of(node) for node, key in self.keys.items() if key[1] == number)
        words = log.read_text(errors="replace").strip() if log.exists() else ""  # an empty one is taken away
        return words.splitlines()[-1] if words else "it said nothing"

    # ---- what they are told ------------------------------------------------------------------------------------------

    def tell(self, target: str, message: Message) -> None:
        """To the agent of a task or host."""
        self.hub.send(self.keys[self.node_of.get(target, self._first)], message)

    # ---- the end -----------------------------------------------------------------------------------------------------

    @property
    def there(self) -> bool:
        """Whether one is still running."""
        return any(self.launcher.ended(node) is None for node in self.keys)

    def end_those_that_start(self) -> None:
        """One that is still importing would not listen."""
        for node, key in self.keys.items():
            if key not in self.hub.peers:
                self.launcher.end(node)

    def kill(self) -> None:
        """All that are left, at once, and with them all their tasks."""
        for node in self.keys:
            self.launcher.end(node)
