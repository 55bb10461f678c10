"""The recovery's effects as messages to agents and tasks."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import assert_never

from runtime.core.recovery.effects import (
    Attach,
    Fence,
    Halt,
    Kill,
    Launch,
    Load,
    OfGroup,
    Reconfigure,
    Store,
    TransferState,
)
from runtime.core.recovery.task import Key
from runtime.live.control.agents import Agents
from runtime.live.control.tasks import OUTSIDE_NETWORK, Task
from runtime.live.transport import messages
from runtime.live.transport.hub import Hub
from runtime.live.transport.messages import Deliver, KillTask, LoadCheckpoint, Peer, SaveCheckpoint

Ranges = Callable[[], Mapping[Key, tuple[int, int]]]
"""[lo, hi) of the parameter vector, by its present holder."""


class Orders:
    """Sends the recovery's orders; ``note`` writes to the record.

    ``followed``: whether workers keep gradients for replicas of the server.
    """

    def __init__(
        self,
        hub: Hub,
        agents: Agents,
        tasks: Mapping[Key, Task],
        note: Callable[..., None],
        ranges: Ranges,
        *,
        followed: bool,
    ) -> None:
        self.hub, self.agents, self.tasks, self.note, self.ranges = hub, agents, tasks, note, ranges
        self.processes: set[tuple[Key, int]] = set()
        """Incarnations that were launched; the handler of its exit removes each."""
        self.followed = followed

    @property
    def _workers(self) -> list[Key]:
        return [key for key in self.tasks if key.role == "worker"]

    @property
    def _servers(self) -> list[Key]:
        return [key for key in self.tasks if key.role == "server"]

    def of_process(self, effect: Launch | Kill | Fence, now_s: float) -> None:
        """Launch a task, whose whole deadline starts now."""
        (role, number), incarnation = effect.key, effect.incarnation
        match effect:
            case Launch():
                task = self.tasks[effect.key]
                task.heard_s = now_s
                self.processes.add((effect.key, incarnation))
                launch = messages.Launch(role=role, id=number, incarnation=incarnation, place=task.place)
                self.agents.tell(str(effect.key), launch)
            case Kill():
                self.agents.tell(str(effect.key), KillTask(role=role, id=number, incarnation=incarnation))
                if effect.reason:
                    self.note("Fenced", role=role, id=number, incarnation=incarnation, reason=effect.reason)
            case Fence():
                self.tasks[effect.key].forget_process()
                self.hub.hang_up(effect.key)
                others = self._servers if role != "server" else self._workers if self.followed else []
                for other in others:
                    self.hub.send(other, messages.Fence(role=role, id=number, incarnation=incarnation))
            case _:
                assert_never(effect)

    def of_checkpoint(self, effect: Store | Load) -> None:
        """Order a checkpoint from every saver of a part."""
        if isinstance(effect, Load):
            for server in effect.savers:
                lo, hi = self.ranges()[server]
                load = LoadCheckpoint(id=effect.number, generation=effect.generation, lo=lo, hi=hi)
                self.hub.send(server, load)
            return
        for saver in effect.savers:
            save = SaveCheckpoint(
                id=effect.number, version=effect.version, state=effect.state, keep_from=effect.keep_from
            )
            self.hub.send(saver, save)

    def of_group(self, effect: OfGroup) -> None:
        """Order connections: to servers, or in a ring."""
        match effect:
            case Attach():
                self._attach(effect)
            case Halt():
                self.hub.send(effect.key, messages.Halt(generation=effect.generation))
            case Reconfigure():
                self._reconfigure(effect)
            case TransferState():
                role, number = "reader", effect.to.number
                self.hub.send(effect.key, Deliver(role=role, id=number, incarnation=effect.incarnation))
            case _:
                assert_never(effect)

    def _attach(self, effect: Attach) -> None:
        beside = effect.key.role in OUTSIDE_NETWORK
        caller, known = self.tasks[effect.key], [self.tasks[key] for key in effect.to]
        addresses = [task.side if beside and task.side else task.address_for(caller) for task in known]
        servers = tuple(address for address in addresses if address)
        names = tuple(str(task.key) for task, address in zip(known, addresses, strict=True) if address)
        held = self.ranges()
        ranges = tuple(held[key] for key in effect.to if key in held)
        attach = messages.Attach(generation=effect.generation, servers=servers, ranges=ranges, names=names)
        self.hub.send(effect.key, attach)

    def _reconfigure(self, effect: Reconfigure) -> None:
        caller = self.tasks[effect.key]
        peers = tuple(self._peer(self.tasks[key], caller) for key in effect.ring)
        form = messages.Reconfigure(
            generation=effect.generation,
            peers=peers,
            source=effect.source,
            checkpoint=effect.number,
            anew=effect.anew,
        )
        self.hub.send(effect.key, form)

    @staticmethod
    def _peer(task: Task, caller: Task) -> Peer:
        address = task.address_for(caller)
        assert address is not None
        return Peer(task.key.number, task.incarnation, address)
