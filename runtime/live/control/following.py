"""The coordinator's orders about replicas of the server: the sources of their data, and the updates that they make."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import msgspec

from runtime.core.job import ReplicateOrder
from runtime.live.control.roster import Roster
from runtime.live.transport.hub import Hub
from runtime.live.transport.messages import Follow, Release, ReplicateGradient, SendState, Update
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.live.control.session import LiveSession


class LiveFollowers:
    """Speaks to replicas of the server, and remembers what belongs to the versions that they may have."""

    def __init__(self, hub: Hub, roster: Roster, session: LiveSession) -> None:
        self.hub, self.roster, self.session = hub, roster, session
        self.states: dict[int, dict[str, Any]] = {}
        """The data service's state at versions that a replica may have."""

    def start(self) -> None:
        """All have the same parameters: replicas follow from now on."""
        for replica in self.roster.followers:
            self.hub.send(replica, Follow(generation=self.roster.generation, version=0))

    def remember(self, version: int) -> None:
        """The data service's present state belongs to this version."""
        least = self.session.followed()
        self.states[version] = self.session.data_state()
        for old in [one for one in self.states if least is None or one < least]:
            del self.states[old]

    def restored(self) -> None:
        """Nobody returns to an earlier version any more."""
        self.states.clear()

    def replicate(self, order: ReplicateOrder) -> None:
        """Let a worker send a gradient that it keeps, or the server a copy of its state after its last order."""
        replica, generation = NodeId.server(order.server), self.roster.generation
        incarnation = self.roster.followers[replica]
        if order.grad_id is not None:
            worker = NodeId.worker(order.worker or 0)
            to = self.roster.address_for(worker, replica)
            give = ReplicateGradient(
                grad_id=order.grad_id, generation=generation, server=order.server, incarnation=incarnation, to=to
            )
            self.hub.send(worker, give)
            return
        (holder,) = self.roster.holders
        source = self.roster.address_for(replica, holder)
        self.hub.send(holder, SendState(server=order.server, incarnation=incarnation))
        follow = Follow(generation=generation, version=order.version, source=source, overtaken=order.overtaken)
        self.hub.send(replica, follow)

    def release(self, worker: int, grads: tuple[int, ...]) -> None:
        """Let a worker forget what it kept."""
        self.hub.send(NodeId.worker(worker), Release(grads=grads))

    def update(self, update: Update, slowed: Callable[[Update, NodeId], Update]) -> None:
        """The server's update, to be made when its gradients are there."""
        if update.apply is None and not update.drop:
            return
        same = msgspec.structs.replace(update, deliver=(), inner_products=())
        for replica in self.roster.followers:
            self.hub.send(replica, slowed(same, replica))
