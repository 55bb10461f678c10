"""A parameter server: one process, one loop, one range of the parameters.

The coordinator's commands come in order on the control channel, so a delivery that follows an update always carries
exactly the version after it, on every server. Gradients and parameters travel on one data link per worker. A gradient
without a receipt may still be in its socket when an order names it: then this order and all later ones wait for it.
"""

from __future__ import annotations

import os
import selectors
import socket
import time
from collections import deque
from typing import Any

from runtime.live.tasks.datalink import DataLink
from runtime.live.tasks.store import Store, save_part
from runtime.live.transport.address import connect, listen, pace, tune
from runtime.live.transport.auth import HANDSHAKE_DEADLINE_S, MAX_UNAUTHENTICATED, AuthError, Identity, call
from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.buffers import SharedBuffers
from runtime.live.transport.channel import LoopChannel
from runtime.live.transport.heartbeat import start_heartbeat
from runtime.live.transport.links import HALF_BITS
from runtime.live.transport.messages import (
    Busy,
    Fence,
    Goodbye,
    LoadCheckpoint,
    Loaded,
    Message,
    NormPart,
    Pace,
    Paced,
    SaveCheckpoint,
    ScoreParts,
    TaskReady,
    Update,
    encode,
)
from runtime.live.transport.task_spec import TaskSpec
from runtime.record.checkpoint import parts_of, read_slice

REPORT_EVERY_S = 0.5


class LostGradientError(Exception):
    """An update needs a gradient that cannot come any more: the server ends, and all return to the last checkpoint."""


class Server:
    """Event loop around a :class:`Store`."""

    def __init__(self, spec: TaskSpec, identity: Identity, store: Store, num_parameters: int) -> None:
        self.spec, self.identity, self.store = spec, identity, store
        self.num_parameters = num_parameters
        self.generation = 0
        self.rate: int | None = None
        """Bytes per second at which each link may send; None: no limit."""
        self.directory = spec.checkpoint_dir
        self.selector = selectors.DefaultSelector()
        self.links: dict[tuple[str, int], DataLink] = {}
        self.unauthenticated: dict[DataLink, None] = {}
        self.fenced: dict[tuple[str, int], int] = {}
        self.waiting: deque[Message] = deque()
        """Orders that wait for gradients still in the sockets, the first of them for some, in order."""
        self.updates, self.busy_s, self.injected_s, self.worked_s = 0, 0.0, 0.0, 0.0
        self.running = True
        place = spec.place(identity.role, identity.id)
        listener, address = listen(spec.transport, place.address, place.port)
        self.address = place.known_as or address
        self.listeners, self.side = [listener], None
        if place.side_path:
            acceptor, self.side = listen("unix", path=place.side_path)
            self.listeners.append(acceptor)
        sock = connect(spec.coordinator)
        call(sock, spec.secret, identity)
        self.control = LoopChannel(sock)
        for acceptor in self.listeners:
            self.selector.register(acceptor, selectors.EVENT_READ, acceptor)
        self.selector.register(sock, selectors.EVENT_READ, self.control)

    def send(self, message: Message) -> None:
        waiting = self.control.send(encode(message))
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if waiting else 0)
        self.selector.modify(self.control.sock, events, self.control)

    def run(self) -> None:
        """Serve until the coordinator sends ``Goodbye`` or is gone."""
        start_heartbeat(self.control, self.spec.heartbeat_s)
        self.send(TaskReady(num_parameters=self.num_parameters, address=self.address, side=self.side))
        report_at = time.monotonic() + REPORT_EVERY_S
        while self.running:
            ready = self.selector.select(REPORT_EVERY_S)
            begun = time.perf_counter()
            for key, events in ready:
                self._serve(key.data, events)
            self.worked_s += time.perf_counter() - begun
            if time.monotonic() >= report_at:
                report_at = time.monotonic() + REPORT_EVERY_S
                self._periodic()

    def _serve(self, source: Any, events: int) -> None:
        if source is self.control:
            self._serve_control(events)
        elif isinstance(source, socket.socket):
            self._accept(source)
        else:
            self._serve_link(source, events)

    # ---- control -----------------------------------------------------------------------------------------------------

    def _serve_control(self, events: int) -> None:
        if events & selectors.EVENT_WRITE and not self.control.flush():
            self.selector.modify(self.control.sock, selectors.EVENT_READ, self.control)
        if events & selectors.EVENT_READ:
            for message in self.control.receive():
                self._take(message)

    def _take(self, message: Message) -> None:
        """Obey in order; what ends or voids the orders that wait does not wait itself."""
        match message:
            case Fence():
                self._fence(message)
                self._go_on()
            case LoadCheckpoint() | Goodbye():
                self.waiting.clear()
                self._obey(message)
            case Pace():
                self._obey(message)
            case _:
                self.waiting.append(message)
                self._go_on()

    def _go_on(self) -> None:
        """Obey what waits, as far as the gradients that it needs are here."""
        while self.waiting:
            first = self.waiting[0]
            if isinstance(first, Update) and self._must_wait(first):
                return
            self._obey(self.waiting.popleft())

    def _must_wait(self, update: Update) -> bool:
        """Whether a gradient that it uses, or the last one of who gets parameters by it, is still on its way here.

        Raises :class:`LostGradientError` for one that never comes.
        """
        for role, number, incarnation, _ in update.deliver:
            link = self.links.get((role, number))
            if link is not None and link.identity.incarnation == incarnation and link.due is not None:
                return True
        if self.store.shares_memory:
            return False
        applied = () if update.apply is None else update.apply.grads
        compared = [grad_id for grad_id, _ in update.inner_products]
        missing = {grad_id for grad_id in (*applied, *compared) if grad_id not in self.store.grads}
        if not missing:
            return False
        due = {link.due for link in self.links.values()}
        if lost := missing.intersection(applied) - due:
            raise LostGradientError(f"gradient {min(lost)}, which is to be applied, was lost with its worker")
        return not missing.isdisjoint(due)

    def _obey(self, message: Message) -> None:
        match message:
            case Update():
                self._update(message)
            case SaveCheckpoint():
                self._save(message)
            case LoadCheckpoint():
                self._load(message)
            case Pace():
                self._pace(message.bytes_per_s)
            case Goodbye():
                self.running = False
            case _:
                raise RuntimeError(f"a server cannot obey {message}")

    def _update(self, message: Update) -> None:
        if message.drop:
            self._drop(message.drop)
        if message.apply is not None:
            begun = time.perf_counter()
            for reader in self.links.values():
                reader.detach_params()
            sqr_norm = self.store.apply(message.apply)
            if message.apply.measure is not None:
                self.send(NormPart(ticket=message.apply.measure, sqr_norm=sqr_norm))
            self._sleep(message, time.perf_counter() - begun)
            self.busy_s += time.perf_counter() - begun
            self.updates += 1
        for role, number, incarnation, ticket in message.deliver:
            if self.store.shares_memory:  # booked even if the reader is gone: all servers must agree on slots
                self.store.deliver((role, number), ticket)
            link = self.links.get((role, number))
            if link is not None and link.identity.incarnation == incarnation:
                self._deliver(link, ticket)
        for grad_id, ticket in message.inner_products:
            begun = time.perf_counter()
            part = self.store.inner_products(grad_id, ticket)
            self.busy_s += time.perf_counter() - begun
            if part is not None:
                self.send(ScoreParts(grad_id=grad_id, ticket=ticket, part=part))

    def _drop(self, grads: tuple[int, ...]) -> None:
        self.store.drop(grads)
        for link in self.links.values():
            link.unwanted = link.unwanted or link.due in grads

    def _deliver(self, link: DataLink, ticket: int) -> None:
        try:
            link.deliver(self.store, self.generation, ticket)
            self._watch(link)
        except OSError:  # the reader is gone, which others report to the coordinator
            self._hang_up(link)

    def _sleep(self, message: Update, busy_s: float) -> None:
        """Sleep for the injected delay."""
        asked_s = message.delay_s + message.slowdown_frac * busy_s
        if asked_s > 0:
            begun = time.perf_counter()
            time.sleep(asked_s)
            self.injected_s += time.perf_counter() - begun

    def _pace(self, bytes_per_s: int | None) -> None:
        self.rate = bytes_per_s
        held = [pace(link.sock, bytes_per_s) for link in self.links.values()]
        self.send(Paced(bytes_per_s=min((rate for rate in held if rate is not None), default=None)))

    def _fence(self, message: Fence) -> None:
        who = (message.role, message.id)
        self.store.table.release_reader(who)
        self.fenced[who] = max(message.incarnation, self.fenced.get(who, -1))
        fenced = self.links.get(who)
        if fenced is not None and fenced.identity.incarnation <= message.incarnation:
            fenced.drain(self.store, self.generation)
            self._hang_up(fenced)

    def _save(self, message: SaveCheckpoint) -> None:
        self.send(save_part(self.directory, message, self.store, self.identity.id))

    def _load(self, message: LoadCheckpoint) -> None:
        """Roll back: all links are closed, so that earlier data cannot be mistaken for later data."""
        for link in list(self.links.values()):
            self._hang_up(link)
        version, state = 0, b""
        values: dict[str, Any]
        if message.id >= 0:
            version, state, values = self._part(message)
            self.store.load(version, values)
        else:
            self.store.reset()
        self.generation = message.generation
        self.send(Loaded(id=message.id, generation=message.generation, version=version, state=state))

    def _part(self, message: LoadCheckpoint) -> tuple[int, bytes, dict[str, Any]]:
        """What has been stored of the range that is ours from now on, by whoever held it then."""
        version, state, values = read_slice(parts_of(self.directory, message.id), message.lo, message.hi)
        if (message.lo, message.hi) != (self.store.lo, self.store.hi):
            threads = update_threads(self.spec, self.identity)
            self.store = Store(values["params"], self.spec.optimizer, lo=message.lo, threads=threads)
        return version, state, values

    def _periodic(self) -> None:
        now = time.monotonic()
        for stranger in [link for link in self.unauthenticated if now - link.since > HANDSHAKE_DEADLINE_S]:
            self._hang_up(stranger)
        if self.updates:
            self.send(
                Busy(
                    version=self.store.version,
                    updates=self.updates,
                    busy_s=self.busy_s,
                    worked_s=self.worked_s,
                    injected_s=self.injected_s,
                )
            )
            self.updates, self.busy_s, self.injected_s, self.worked_s = 0, 0.0, 0.0, 0.0

    # ---- data links --------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # the peer has disconnected already
            return
        if len(self.unauthenticated) >= MAX_UNAUTHENTICATED:
            self._hang_up(next(iter(self.unauthenticated)))
        try:
            tune(sock)
            link = DataLink(sock, self.spec.secret)
        except OSError:
            sock.close()
            return
        self.unauthenticated[link] = None
        self.selector.register(sock, selectors.EVENT_READ, link)

    def _serve_link(self, link: DataLink, events: int) -> None:
        try:
            if events & selectors.EVENT_WRITE:
                link.flush()
            if events & selectors.EVENT_READ:
                if link in self.unauthenticated:
                    self._greet(link)
                else:
                    link.receive(self.store, self.generation)
            self._watch(link)
        except (AuthError, OSError):
            self._hang_up(link)
        if self.waiting:
            self._go_on()

    def _greet(self, link: DataLink) -> None:
        if not link.authenticate():
            return
        who = (link.identity.role, link.identity.id)
        stale = link.identity.generation != self.generation or link.identity.incarnation <= self.fenced.get(who, -1)
        if stale or link.identity.role not in ("worker", *AUXILIARIES):
            raise AuthError(f"{who} of an old incarnation or generation")
        link.welcome()
        self.unauthenticated.pop(link, None)
        if (old := self.links.get(who)) is not None:
            old.drain(self.store, self.generation)
            self._hang_up(old)
        self.links[who] = link
        if link.identity.role == "worker" and self.spec.transfer_bits == HALF_BITS:
            link.use_halves(self.store)
        if self.rate is not None:
            pace(link.sock, self.rate)

    def _watch(self, link: DataLink) -> None:
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.sending else 0)
        if link.watched != events and link.sock.fileno() >= 0:
            link.watched = events
            self.selector.modify(link.sock, events, link)

    def _hang_up(self, link: DataLink) -> None:
        self.unauthenticated.pop(link, None)
        if self.links.get(link.who) is link:
            del self.links[link.who]
        if link.sock.fileno() >= 0:
            self.selector.unregister(link.sock)
        link.close(self.store)


def update_threads(spec: TaskSpec, identity: Identity) -> int:
    """How many threads may share an update: two if there are as many cores, but one on an emulated host.

    While all wait for an update, as in synchronous training, a second core has nothing else to do.
    """
    on_host = bool(spec.place(identity.role, identity.id).host)
    return 1 if on_host else min(2, len(os.sched_getaffinity(0)))


def server_main(spec: TaskSpec, identity: Identity, buffers_fd: int) -> None:
    """Entry point of a server process."""
    from runtime.config.instantiate import instantiate

    parameters = instantiate(spec.backend).initial_parameters(instantiate(spec.task), spec.seed)
    num_parameters = len(parameters)
    lo, hi = spec.layout.ranges(num_parameters).get(identity.key, (0, 0))
    initial = parameters[lo:hi].copy()
    del parameters
    buffers = SharedBuffers(buffers_fd, num_parameters, spec.num_workers) if spec.transport == "shm" else None
    store = Store(initial, spec.optimizer, buffers, lo, update_threads(spec, identity))
    try:
        Server(spec, identity, store, num_parameters).run()
    except ConnectionError:
        os._exit(0)
