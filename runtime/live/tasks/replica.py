"""A replica: a worker with its own parameters and optimizer, which all replicas step together.

The coordinator's orders come in order on the control channel, to all replicas alike; so all have the parameters of the
same update when they compute. ``ring.py`` has the messages between replicas; ``runtime/core/recovery/replicas.py``
finds the versions that remain after a loss.
"""

from __future__ import annotations

import os
import socket
import time
from collections.abc import Sequence
from functools import partial

import msgspec

from runtime.core.recovery.inputs import NOTHING
from runtime.errors import is_full
from runtime.live.tasks.background import Background
from runtime.live.tasks.children import Children, Exchange, ParentLink
from runtime.live.tasks.collectives.bounded import Bounded
from runtime.live.tasks.collectives.choice import Collective, make_collective, with_collective
from runtime.live.tasks.collectives.device_group import DeviceGroup
from runtime.live.tasks.collectives.ring import Ring
from runtime.live.tasks.own_replica import replica_state
from runtime.live.tasks.replica_state import ReplicaState
from runtime.live.tasks.store import save_part
from runtime.live.tasks.worker import Links, Worker
from runtime.live.transport.acceptor import Acceptor, call_acceptor
from runtime.live.transport.address import listen
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.channel import BlockingChannel
from runtime.live.transport.frames import HEADER_BYTES, PARAMS, as_bytes, pack, unpack
from runtime.live.transport.heartbeat import start_heartbeat
from runtime.live.transport.interruptible import Interrupted, Orders, receive_all, send_all
from runtime.live.transport.messages import (
    Attached,
    AverageOwn,
    Deliver,
    DropGradients,
    Goodbye,
    Halt,
    Halted,
    JoinCollective,
    LinkLost,
    Message,
    MoveAlone,
    NormPart,
    Peer,
    PushOwn,
    ReceiveState,
    Reconfigure,
    Reduce,
    Report,
    SaveCheckpoint,
    ShareFragment,
    TaskReady,
    Work,
)
from runtime.live.transport.task_spec import TaskSpec
from runtime.record.checkpoint import path_of, read_checkpoint

AUXILIARY_DEADLINE_S = 2.0
"""An auxiliary task connects before a delivery to it is ordered; its connection must be accepted within this time."""


class Replica:
    """Obeys orders; a failure of another replica is reported, and then only a ``Halt`` is obeyed.

    A child (``children.py``) takes no part in updates until it has copied the state of another. With a ``background``
    orders are obeyed while a gradient is computed there.
    """

    def __init__(
        self,
        worker: Worker,
        copy: ReplicaState,
        orders: Orders,
        acceptor: Acceptor,
        collective: Collective,
        background: Background | None = None,
    ) -> None:
        self.worker, self.copy, self.orders, self.acceptor = worker, copy, orders, acceptor
        self.collective, self.background = collective, background
        self.me = copy.identity
        self.directory = worker.spec.checkpoint_dir
        self.generation = 0
        self.whole = False
        """Whether all parameters have the same version; not at first, nor while they are being copied."""
        self.broken = False
        self.peers: Sequence[Peer] = ()
        self.parent = ParentLink(worker.spec.secret, orders.look)
        self.children = Children(acceptor)
        self._reduced_s = 0.0
        self._computed: int | None = None
        """The gradient that the model has computed last."""
        self._auxiliaries: dict[str, tuple[Identity, socket.socket]] = {}

    def run(self) -> None:
        """Serve until the coordinator sends ``Goodbye``; raises ``ConnectionError`` when it is gone."""
        while not isinstance(message := self.orders.next(), Goodbye):
            if isinstance(message, Halt):
                self._halt(message)
            elif message is not None and not self.broken:
                self._carry_out(message)

    def _carry_out(self, message: Message) -> None:
        try:
            answer = self._obey(message)
        except OSError as error:
            if is_full(error):  # no other replica is to blame
                raise
            self.broken = True
            self.collective.close()
            answer = LinkLost(generation=self.generation, reason=str(error))
        if answer is not None:
            self.worker.channel.tell(answer)

    def _obey(self, message: Message) -> Message | None:
        match message:
            case Work():
                return self._compute(message)
            case Reduce():
                self._reduce(message)
            case MoveAlone() | AverageOwn() | PushOwn() | ShareFragment():
                self._move_own(message)
            case ReceiveState():
                self._enter(message)
            case JoinCollective():
                self._take_part(message)
            case DropGradients():
                self._collect()
                self.copy.drop(message.grads)
            case Deliver():
                self._deliver(message)
            case Reconfigure():
                return self._reconfigure(message)
            case SaveCheckpoint():
                return save_part(self.directory, message, self.copy, 0)
            case _:
                raise RuntimeError(f"a replica cannot obey {message}")
        return None

    # ---- an iteration ------------------------------------------------------------------------------------------------

    def _compute(self, work: Work) -> Message | None:
        """Compute a gradient. The last update is not part of the wait: it brought the parameters, as a pull does.

        Returns the report, unless the background sends it.
        """
        if self.background is not None:
            self._begin(work, self.background)
            return None
        self._attach(work.order.parent)
        report = self.worker.compute(work)
        self._computed = work.order.grad_id
        self._check_version(work)
        return _with_update(report, self._updated_s())

    def _begin(self, work: Work, background: Background) -> None:
        """Compute likewise in the background."""
        self._check_version(work)
        updated_s = self._updated_s()
        background.begin(lambda: _with_update(self.worker.compute(work), updated_s))

    def _check_version(self, work: Work) -> None:
        if work.order.version != self.copy.version:
            raise RuntimeError(f"{work.order} on version {self.copy.version}")

    def _updated_s(self) -> float:
        """Seconds of the updates since the last gradient."""
        reduced_s, self._reduced_s = self._reduced_s, 0.0
        return reduced_s

    def _attach(self, parent: int | None) -> None:
        """Be this replica's child for the next gradient; None: compute on our own parameters."""
        self.copy.parent = None
        if parent is not None:
            ours = Identity("child", self.me.id, self.me.incarnation, self.generation)
            self.parent.connect(self._peer(parent), ours)
            self.copy.parent = self.parent

    def _peer(self, worker: int) -> Peer:
        return next(peer for peer in self.peers if peer.worker == worker)

    def _collect(self) -> None:
        """Hold what children have delivered, and the background has computed."""
        computed = {} if self.background is None else self.background.arrived()
        for ticket, grad in (self.children.arrived() | computed).items():
            self.copy.hold(ticket, grad)

    def _take_part(self, message: JoinCollective) -> None:
        from runtime.live.tasks.collectives.native_ddp import NativeModel

        model = self.worker.model
        assert isinstance(model, NativeModel)
        model.attach(self.copy.params, self.copy.grad)
        model.take_part()
        self.copy.push(message.ticket)

    def _reduce(self, message: Reduce) -> None:
        if self.me.id in message.order.excluded:
            self._leave()
            return
        begun = time.perf_counter()
        if isinstance(self.collective, Ring):
            self.collective.excluded = message.order.excluded
        if isinstance(self.collective, Bounded):
            self.collective.number = message.order.version
        self._collect()
        if isinstance(self.collective, DeviceGroup):
            self.collective.as_computed = self.copy.shares_only(message.order, self._computed)
        total = self.copy.share(message.order)
        try:
            self.collective.all_reduce(total)
            if isinstance(self.collective, Bounded) and (late := self.collective.late()) is not None:
                self.worker.channel.tell(late)
            if message.order.measure is not None:
                sqr_norm = self.copy.sqr_norm(message.order, total)
                self.worker.channel.tell(NormPart(ticket=message.order.measure, sqr_norm=sqr_norm))
            self.copy.step(message.order, total)
        finally:
            self.copy.release(total)
        self._count(begun)

    def _move_own(self, message: MoveAlone | AverageOwn | PushOwn | ShareFragment) -> None:
        """Step the own parameters, or sum with other replicas; like an update, that is not part of the wait."""
        begun = time.perf_counter()
        if isinstance(message, MoveAlone):
            self._collect()
            self.copy.step_alone(message.order)
        else:
            assert isinstance(self.collective, Ring), "refused before: other collectives sum whole vectors of all"
            if isinstance(message, ShareFragment):
                self.copy.sum_fragment(message.order, self.collective.all_reduce)
            elif isinstance(message, PushOwn):
                self.copy.push_half(message.order, self.collective.pass_on)
            else:
                members = partial(self.collective.all_reduce, members=message.workers)
                self.copy.average(members, len(message.workers))
        self._count(begun)

    def _count(self, begun: float) -> None:
        """Book what the worker would have waited for; nothing while it computes."""
        if self.background is not None and self.background.computes:
            return
        spent_s = time.perf_counter() - max(begun, self.worker.idle_since)
        self._reduced_s += spent_s
        self.worker.idle_since += spent_s

    def _leave(self) -> None:
        """The others make an update without us: from now on the state is theirs only."""
        self.whole = False
        self.collective.close()
        self._hang_up(*AUXILIARIES)

    def _enter(self, message: ReceiveState) -> None:
        """Copy the state of a member of the ring; as an update, it is not part of the wait."""
        begun = time.perf_counter()
        self.parent.close()
        self._take_over(message.source)
        self.whole = True
        self._count(begun)

    # ---- membership --------------------------------------------------------------------------------------------------

    def _halt(self, message: Halt) -> None:
        """Void all work in progress, and close all connections."""
        self.generation, self.broken = message.generation, False
        self.collective.close()
        self.parent.close()
        self.children.close()
        self.acceptor.forget_before(message.generation)
        self._hang_up(*AUXILIARIES)
        if self.background is not None:
            self.background.finish()
            self._collect()
        self.copy.void()
        version = self.copy.version if self.whole else NOTHING
        self.worker.channel.tell(Halted(generation=self.generation, version=version))

    def _reconfigure(self, message: Reconfigure) -> Message:
        """Accept the members; a child that only learns of a newcomer remains one."""
        self.generation, self.peers = message.generation, message.peers
        self.collective.form(message.generation, message.peers)
        if message.source >= 0:
            self.whole = False
            self._take_over(message.source)
            self.whole = True
        elif message.checkpoint >= 0:
            version, _, values = read_checkpoint(path_of(self.directory, message.checkpoint, 0))
            self.copy.load(version, values)
            self.whole = True
        elif message.anew:
            self.copy.reset()
            self.whole = True
        return Attached(generation=message.generation)

    def _take_over(self, source: int) -> None:
        """Copy all state of another replica, which has been ordered to expect us."""
        ours = Identity("reader", self.me.id, self.me.incarnation, self.generation)
        with call_acceptor(self._peer(source).address, self.worker.spec.secret, ours) as sock:
            header = bytearray(HEADER_BYTES)
            receive_all(sock, memoryview(header), self.orders.look)
            about, parts = unpack(header), [as_bytes(vector) for vector in self.copy.vectors()]
            if about.kind != PARAMS or about.length != sum(map(len, parts)):
                raise ConnectionError(f"refused {about}: {sum(map(len, parts))} bytes of state would fit")
            for part in parts:
                receive_all(sock, part, self.orders.look)
        self.copy.taken_over(about.version, about.slot)

    def _deliver(self, message: Deliver) -> None:
        """Send parameters to readers. A lost reader is ignored here: others report it to the coordinator."""
        try:
            if message.role in AUXILIARIES:
                self._send_snapshot(message)
            elif message.role == "child":
                self._serve_child(message)
            else:
                self._hand_over(message)
        except Interrupted:
            raise
        except OSError:
            self._hang_up(message.role)

    def _serve_child(self, message: Deliver) -> None:
        """The child receives a copy, so that the next update need not wait for it."""
        child, vector = Identity("child", message.id, message.incarnation, self.generation), self.copy.buffer()
        vector[:] = self.copy.params
        self.children.serve(Exchange(child, message.ticket, self.copy.version, vector))

    def _hand_over(self, message: Deliver) -> None:
        reader = Identity(message.role, message.id, message.incarnation, self.generation)
        with self.acceptor.take(reader, self.orders.look) as sock:
            vectors = [as_bytes(vector) for vector in self.copy.vectors()]
            steps = self.copy.optimizer.steps
            header = pack(PARAMS, self.generation, 0, self.copy.version, sum(map(len, vectors)), steps)
            for part in (memoryview(header), *vectors):
                send_all(sock, part, self.orders.look)

    def _send_snapshot(self, message: Deliver) -> None:
        reader = Identity(message.role, message.id, message.incarnation, self.generation)
        known, sock = self._auxiliaries.get(reader.role, (None, None))
        if sock is None or known != reader:
            self._hang_up(reader.role)
            sock = self.acceptor.take(reader, self.orders.look, AUXILIARY_DEADLINE_S)
            self._auxiliaries[reader.role] = (reader, sock)
        payload = as_bytes(self.copy.params)
        header = pack(PARAMS, self.generation, message.ticket, self.copy.version, len(payload))
        for part in (memoryview(header), payload):
            send_all(sock, part, self.orders.look)

    def _hang_up(self, *auxiliaries: str) -> None:
        for role in auxiliaries:
            if role in self._auxiliaries:
                self._auxiliaries.pop(role)[1].close()


def _with_update(report: Report, updated_s: float) -> Report:
    """Count the updates before a gradient to the time in which its parameters came."""
    timings = msgspec.structs.replace(report.timings, pull_s=report.timings.pull_s + updated_s)
    return msgspec.structs.replace(report, timings=timings)


def replica_main(spec: TaskSpec, identity: Identity, buffers_fd: int) -> None:
    """Entry point of a replica's process."""
    from runtime.config.instantiate import instantiate

    try:
        channel = BlockingChannel(spec.coordinator, spec.secret, identity)
        start_heartbeat(channel, spec.heartbeat_s)
        model = instantiate(spec.backend).prepare(instantiate(spec.task), spec.seed)
        place = spec.place(identity.role, identity.id)
        listener, address = listen("tcp", place.address, place.port, certificate=spec.certificate)
        listeners, side = [listener], None
        if place.side_path:
            beside, side = listen("unix", path=place.side_path)
            listeners.append(beside)
        acceptor, orders = Acceptor(spec.secret, listeners), Orders(channel)
        copy = replica_state(model.initial_parameters(), spec.optimizer, identity, spec.outer)
        collective = make_collective(spec, identity, acceptor, orders.look, model)
        background = Background(copy, channel.tell) if spec.sums_meanwhile else None
        links: Links = copy.links if background is None else background.links
        worker = Worker(spec, channel, with_collective(model, collective), links)
        replica = Replica(worker, copy, orders, acceptor, collective, background)
        channel.tell(TaskReady(num_parameters=model.num_parameters, address=place.known_as or address, side=side))
        replica.run()
    except ConnectionError:
        os._exit(0)
