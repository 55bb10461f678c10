"""A task to which others push gradients: one loop around its control channel, its listeners and its data links."""

from __future__ import annotations

import selectors
import socket
import time
from abc import ABC, abstractmethod
from typing import Any, ClassVar

from runtime.live.tasks.datalink import DataLink, Sink
from runtime.live.transport.address import connect, least, listen, pace, tune
from runtime.live.transport.auth import HANDSHAKE_DEADLINE_S, MAX_UNAUTHENTICATED, AuthError, Identity, call
from runtime.live.transport.channel import LoopChannel
from runtime.live.transport.heartbeat import start_heartbeat
from runtime.live.transport.links import HALF_BITS
from runtime.live.transport.messages import Message, TaskReady, encode
from runtime.live.transport.task_spec import TaskSpec
from strategies.protocol import AGGREGATOR

REPORT_EVERY_S = 0.5


class Receiver(ABC):
    """A data link begins with a handshake; of each peer there is one."""

    callers: ClassVar[tuple[str, ...]]
    """Roles whose data links it accepts."""

    def __init__(self, spec: TaskSpec, identity: Identity, num_parameters: int) -> None:
        self.spec, self.identity, self.num_parameters = spec, identity, num_parameters
        self.generation = 0
        self.rate: int | None = None
        """Bytes per second at which each link may send; None: no limit."""
        self.towards: dict[str, int] = {}
        """Bytes per second at which the link to a task, ``worker:1``, may send."""
        self.selector = selectors.DefaultSelector()
        self.links: dict[tuple[str, int], DataLink] = {}
        self.unauthenticated: dict[DataLink, None] = {}
        self.fenced: dict[tuple[str, int], int] = {}
        self.worked_s = 0.0
        self.running = True
        place = spec.place(identity.role, identity.id)
        listener, address = listen(spec.transport, place.address, place.port, certificate=spec.certificate)
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

    # ---- what it does ------------------------------------------------------------------------------------------------

    @property
    @abstractmethod
    def sink(self) -> Sink:
        """Where gradients are held."""

    @abstractmethod
    def take(self, message: Message) -> None:
        """Obey a message of the coordinator, now or when its data are here."""

    def greeted(self, link: DataLink) -> None:  # noqa: B027
        """Called for a new data link."""

    def look(self) -> None:  # noqa: B027  (nothing to do unless a task has something)
        """Called after data has come."""

    def report(self) -> None:  # noqa: B027
        """Called twice a second."""

    # ---- the loop ----------------------------------------------------------------------------------------------------

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
        elif isinstance(source, DataLink):
            self._serve_link(source, events)
        else:
            source()

    def _serve_control(self, events: int) -> None:
        if events & selectors.EVENT_WRITE and not self.control.flush():
            self.selector.modify(self.control.sock, selectors.EVENT_READ, self.control)
        if events & selectors.EVENT_READ:
            for message in self.control.receive():
                self.take(message)

    def _periodic(self) -> None:
        now = time.monotonic()
        for stranger in [link for link in self.unauthenticated if now - link.since > HANDSHAKE_DEADLINE_S]:
            self.hang_up(stranger)
        self.report()

    # ---- data links --------------------------------------------------------------------------------------------------

    def _accept(self, listener: socket.socket) -> None:
        try:
            sock, _ = listener.accept()
        except OSError:  # the peer has disconnected already
            return
        if len(self.unauthenticated) >= MAX_UNAUTHENTICATED:
            self.hang_up(next(iter(self.unauthenticated)))
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
                    link.receive(self.sink, self.generation)
            self.watch(link)
        except (AuthError, OSError):
            self.hang_up(link)
        self.look()

    def _greet(self, link: DataLink) -> None:
        if not link.authenticate():
            return
        who = (link.identity.role, link.identity.id)
        stale = link.identity.generation != self.generation or link.identity.incarnation <= self.fenced.get(who, -1)
        if stale or link.identity.role not in self.callers:
            raise AuthError(f"{who} of an old incarnation or generation")
        link.welcome()
        self.unauthenticated.pop(link, None)
        if (old := self.links.get(who)) is not None:
            old.drain(self.sink, self.generation)
            self.hang_up(old)
        self.links[who] = link
        self.greeted(link)
        link.promises = not self.spec.holds
        if link.identity.role in ("worker", AGGREGATOR) and self.spec.transfer_bits == HALF_BITS:
            link.use_16_bits(self.sink)
        if self.rate_of(link) is not None:
            pace(link.sock, self.rate_of(link))

    def rate_of(self, link: DataLink) -> int | None:
        """Bytes per second at which a link may send; None: no limit."""
        return least(self.rate, self.towards.get(str(link.identity.key)))

    def watch(self, link: DataLink) -> None:
        """Watch a link: for reading, and for writing while data are left to send."""
        events = selectors.EVENT_READ | (selectors.EVENT_WRITE if link.sending else 0)
        if link.watched != events and link.sock.fileno() >= 0:
            link.watched = events
            self.selector.modify(link.sock, events, link)

    def hang_up(self, link: DataLink) -> None:
        """Close a data link; a gradient that is not complete is lost."""
        self.unauthenticated.pop(link, None)
        if self.links.get(link.who) is link:
            del self.links[link.who]
        if link.sock.fileno() >= 0:
            self.selector.unregister(link.sock)
        link.close(self.sink)
