"""Replicas of the parameter servers on the virtual clock: real copies of the parameters that follow, later.

A replica makes the servers' updates in their order, each when it has all gradients of it: at once, since the time of an
update shows only in when it reports. Gradients come from the workers, whose links they share with all else; a copy of
all parameters comes from the server.
"""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from typing import Any, NamedTuple, final

import numpy as np

from runtime.core import inputs
from runtime.core.job import ApplyOrder, ReplicateOrder
from runtime.core.vectors import PARAMETER_BYTES, FloatVector
from runtime.training.optimizers import Optimizer
from runtime.virtual.clock import MESSAGE, Clock
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.carriers import Carriers
from runtime.virtual.tasks.model_state import Dumped, RealModelState
from runtime.virtual.tasks.servers import ServerGroup
from strategies.protocol import NodeId


class Update(NamedTuple):
    """An update of the servers, with its gradients."""

    order: ApplyOrder
    grads: list[FloatVector]


class Replica:
    """A replica that follows; ``updates``: the servers' updates that it has not made, the oldest first."""

    def __init__(self, version: int, params: FloatVector, optimizer: Optimizer) -> None:
        self.version, self.params, self.optimizer = version, params, optimizer
        self.updates: deque[Update] = deque()
        self.received: set[int] = set()

    def advance(self) -> bool:
        """Make all updates of which it has the gradients; whether there was one."""
        before = self.version
        while self.updates and self.received.issuperset(self.updates[0].order.grads):
            order, grads = self.updates.popleft()
            self.optimizer.step(self.params, grads, order.weights, order.lr, order.samples)
            self.received.difference_update(order.grads)
            self.version = order.version
        return self.version > before


@final
class Followers:
    """The replicas of one job; ``tell`` passes inputs to the coordinator, ``note`` writes to the record.

    ``follows(server)`` is called when a replica that has come has its copy. The first of the ``servers`` holds the
    parameters.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        model_state: RealModelState,
        numbers: tuple[int, ...],
        servers: ServerGroup,
        ways: Carriers,
        *,
        tell: Callable[[inputs.AnyInput], None],
        note: Callable[..., None],
        follows: Callable[[int], None],
    ) -> None:
        self.clock, self.costs, self.model_state, self.ways = clock, costs, model_state, ways
        self.servers, self.tell, self.note, self.follows = servers, tell, note, follows
        self.replicas = {server: self._make(0, model_state.dump()) for server in numbers}
        self._coming: dict[int, Replica] = {}
        """The replicas as they will be when the copy that is on its way is there."""
        self._states: dict[int, bytes] = {}
        """The data service's state at versions that a replica may have."""
        self._lives: Counter[str] = Counter()
        """Of tasks, by name; transfers of former lives end nowhere."""
        self._epoch = 0
        self._senders: set[str] = set()
        model_state.used = self._on_used

    def _make(self, version: int, dumped: Any) -> Replica:
        optimizer = self.model_state.fresh_optimizer()
        optimizer.load_state(dict(dumped[1]))
        return Replica(version, dumped[0], optimizer)

    # ---- the servers' updates ----------------------------------------------------------------------------------------

    def remember(self, version: int, state: bytes) -> None:
        """The data service's state at this version, which is the servers' present one."""
        self._states[version] = state
        least = min((one.version for one in (*self.replicas.values(), *self._coming.values())), default=version)
        for old in [one for one in self._states if one < least]:
            del self._states[old]

    def _on_used(self, order: ApplyOrder, grads: list[FloatVector]) -> None:
        """The servers have made an update."""
        update = Update(order, grads)
        for coming in self._coming.values():
            coming.updates.append(update)
        for server, replica in self.replicas.items():
            replica.updates.append(update)
            replica.advance()
            self._compare(server, order.version)

    def _compare(self, server: int, version: int) -> None:
        replica = self.replicas[server]
        distance = float(np.linalg.norm(self.model_state.params.astype(float) - replica.params))
        about = {"server": server, "version": replica.version, "behind": version - replica.version}
        self.note("Diverged", **about, distance=distance)

    # ---- transfers ---------------------------------------------------------------------------------------------------

    def replicate(self, order: ReplicateOrder, sent_s: float) -> None:
        """Carry out an order that leaves the coordinator at ``sent_s``."""
        replica, model_bytes = str(NodeId.server(order.server)), PARAMETER_BYTES * self.model_state.num_parameters
        if order.grad_id is None:
            dumped = self.model_state.dump()
            vectors = 1 + sum(isinstance(value, np.ndarray) for value in dumped[1].values())
            coming = self._coming[order.server] = self._make(order.version, dumped)
            self._send(
                sent_s,
                self.servers.names[0],
                replica,
                vectors * model_bytes,
                partial(self._on_copied, order.server, coming),
            )
        else:
            worker = str(NodeId("worker", order.worker or 0))
            self._send(sent_s, worker, replica, model_bytes, partial(self._came, order.server, order.grad_id))

    def _send(self, sent_s: float, sender: str, replica: str, num_bytes: int, then: Callable[[], None]) -> None:
        lives = (self._epoch, self._lives[sender], self._lives[replica])

        def lives_on() -> bool:
            return lives == (self._epoch, self._lives[sender], self._lives[replica])

        def there() -> None:
            if lives_on():
                then()

        def leave() -> None:
            if lives_on():
                self._senders.add(sender)
                self.ways.carry(sender, replica, num_bytes, there)

        self.clock.at(sent_s + self.costs.control_s, MESSAGE, leave)

    def _came(self, server: int, grad_id: int) -> None:
        """A gradient is there; the replica reports when it has made the updates that this lets it make."""
        if server in self._coming:
            self._coming[server].received.add(grad_id)
        replica = self.replicas.get(server)
        if replica is not None:
            replica.received.add(grad_id)
            version = replica.updates[-1].order.version if replica.updates else replica.version
            if replica.advance():
                self._compare(server, version)
            self._report(inputs.Replicated(server, replica.version, grad_id))

    def _on_copied(self, server: int, replica: Replica) -> None:
        if self._coming.get(server) is not replica:  # another was ordered since
            return
        self.replicas[server] = self._coming.pop(server)
        replica.advance()
        self._compare(server, replica.updates[-1].order.version if replica.updates else replica.version)
        self._report(inputs.Replicated(server, replica.version))
        self.follows(server)

    def _report(self, followed: inputs.Replicated) -> None:
        update_s = self.costs.update_s(PARAMETER_BYTES * self.model_state.num_parameters, 1)
        name = str(NodeId.server(followed.server))
        lives = (self._epoch, self._lives[name])

        def tell() -> None:
            if lives == (self._epoch, self._lives[name]):
                self.tell(followed)

        self.clock.at(self.clock.now + update_s + self.costs.control_s, MESSAGE, tell)

    def drop(self, grads: tuple[int, ...]) -> None:
        """Discard gradients that no update will use."""
        for replica in (*self.replicas.values(), *self._coming.values()):
            replica.received.difference_update(grads)

    # ---- losses ------------------------------------------------------------------------------------------------------

    def lose(self, task: str) -> None:
        """A task's process is gone, with its transfers and its state."""
        self._lives[task] += 1
        self.ways.forget(task)
        node = NodeId.parse(task)
        if node.role == "server":
            self.replicas.pop(node.number, None)
            self._coming.pop(node.number, None)

    def take_over(self, server: int) -> tuple[int, bytes, Dumped]:
        """Return a replica's version, the data's state and a ``dump``, with which it continues as the server."""
        replica = self.replicas[server]
        dumped = Dumped(replica.params, replica.optimizer.state(), None, {})
        return replica.version, self._states[replica.version], dumped

    def begin_again(self) -> None:
        """All continue from one version: nobody follows before it has another copy, and nothing is on its way."""
        self._epoch += 1
        for task in self._senders:
            self.ways.forget(task)
        self._senders.clear()
        self.replicas, self._coming, self._states = {}, {}, {}
