"""A parameter server: one process, one loop, one range of the parameters.

The coordinator's commands come in order on the control channel, so a delivery that follows an update always carries
exactly the version after it, on every server. Gradients and parameters travel on one data link per worker. A gradient
without a receipt may still be in its socket when an order names it: then this order and all later ones wait for it.

A replica of the server is such a process, too, as long as it follows (``following.py``), and becomes the server by the
order to continue from what it holds.
"""

from __future__ import annotations

import os
import selectors
import sys
import time
from collections import deque
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any

import numpy as np

from runtime.backends.initial import Initial
from runtime.core.recovery.effects import FOLLOWED
from runtime.live.tasks.datalink import DataLink
from runtime.live.tasks.following import Copy, Following, HandingOver
from runtime.live.tasks.receiver import Receiver
from runtime.live.tasks.store import Store, save_part
from runtime.live.transport.address import least, pace
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.buffers import SharedBuffers
from runtime.live.transport.messages import (
    Busy,
    Fence,
    Follow,
    Followed,
    Goodbye,
    LinkLost,
    LinksPaced,
    LoadCheckpoint,
    Loaded,
    Message,
    NormPart,
    Pace,
    Paced,
    PaceLinks,
    SaveCheckpoint,
    ScoreParts,
    SendState,
    Update,
)
from runtime.live.transport.shared_parameters import FOLLOWS, HOLDS, NEITHER, SharedParameters
from runtime.live.transport.task_spec import TaskSpec
from runtime.record.checkpoint import parts_of, read_slice
from strategies.protocol import AGGREGATOR


class LostGradientError(Exception):
    """An update needs a gradient that cannot come any more: the server ends, and all return to the last checkpoint."""


class Server(Receiver):
    """Receives gradients into a :class:`Store`, and carries out the coordinator's orders to it."""

    callers = ("worker", "server", *AUXILIARIES, AGGREGATOR)
    shared_parameters: SharedParameters | None = None
    following: Following | None = None
    """As long as it is a replica."""
    handing_over: HandingOver | None = None

    def __init__(
        self,
        spec: TaskSpec,
        identity: Identity,
        store: Store,
        num_parameters: int,
        shared_parameters: SharedParameters | None = None,
    ) -> None:
        self.store = store
        self.directory = spec.checkpoint_dir
        self.waiting: deque[Message] = deque()
        """Orders that wait for gradients still in the sockets, the first of them for some, in order."""
        self.updates, self.busy_s, self.injected_s = 0, 0.0, 0.0
        self.shared_parameters = shared_parameters
        super().__init__(spec, identity, num_parameters)
        if spec.num_replicas:
            self.handing_over = HandingOver()
            self._begin_following()

    @property
    def sink(self) -> Store:
        """Where gradients are held."""
        return self.store

    # ---- control -----------------------------------------------------------------------------------------------------

    def take(self, message: Message) -> None:
        """Obey in order; a message that ends or voids waiting orders does not wait itself."""
        match message:
            case Fence():
                self._fence(message)
                self.look()
            case LoadCheckpoint() | Goodbye():
                self.waiting.clear()
                self._obey(message)
            case Pace() | PaceLinks():
                self._obey(message)
            case Follow():
                self._follow(message)
            case _:
                self.waiting.append(message)
                self.look()

    def look(self) -> None:
        """Obey what waits, as far as the gradients that it needs are here."""
        came = () if self.following is None else self.following.came(self.store)
        while self.waiting:
            first = self.waiting[0]
            if isinstance(first, Update) and self._must_wait(first):
                break
            self._obey(self.waiting.popleft())
        for grad_id in came:
            self.send(Followed(generation=self.generation, version=self.store.version, grad_id=grad_id))

    def _must_wait(self, update: Update) -> bool:
        """Whether a gradient that it uses, or the last one of a recipient of its parameters, is on its way here.

        Raises :class:`LostGradientError` for one that never comes.
        """
        if self.following is not None:
            return self.following.must_wait(update, self.store)
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
            case PaceLinks():
                self._pace_links(message)
            case SendState():
                self._hand_over(message)
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
            with self._changing():
                sqr_norm = self.store.apply(message.apply)
            if message.apply.measure is not None and self.following is None:
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
        if self.following is not None:
            self.following.unneeded(grads, self.store)
        self.store.drop(grads)
        for link in self.links.values():
            link.unwanted = link.unwanted or link.due in grads

    def _deliver(self, link: DataLink, ticket: int) -> None:
        try:
            link.deliver(self.store, self.generation, ticket)
            self.watch(link)
        except OSError:  # the reader is gone, which others report to the coordinator
            self.hang_up(link)

    def _sleep(self, message: Update, busy_s: float) -> None:
        """Sleep for the injected delay."""
        asked_s = message.delay_s + message.slowdown_frac * busy_s
        if asked_s > 0:
            begun = time.perf_counter()
            time.sleep(asked_s)
            self.injected_s += time.perf_counter() - begun

    def _pace(self, bytes_per_s: int | None) -> None:
        self.rate = bytes_per_s
        self.send(Paced(bytes_per_s=least(*(pace(link.sock, self.rate_of(link)) for link in self.links.values()))))

    def _pace_links(self, order: PaceLinks) -> None:
        changed = {**self.towards, **order.towards}
        self.towards = order.towards
        try:
            links = {str(link.identity.key): link for link in self.links.values()}
            held = {name: pace(links[name].sock, self.rate_of(links[name])) for name in changed if name in links}
            self.send(LinksPaced(order=order.order, achieved=held))
        except OSError as error:
            self.send(LinksPaced(order=order.order, achieved={}, problem=str(error)))

    def _fence(self, message: Fence) -> None:
        who = (message.role, message.id)
        self.store.table.release_reader(who)
        self.fenced[who] = max(message.incarnation, self.fenced.get(who, -1))
        fenced = self.links.get(who)
        if fenced is not None and fenced.identity.incarnation <= message.incarnation:
            fenced.drain(self.store, self.generation)
            self.hang_up(fenced)

    def _save(self, message: SaveCheckpoint) -> None:
        self.send(save_part(self.directory, message, self.store, self.identity.id))

    def _load(self, message: LoadCheckpoint) -> None:
        """Roll back: all links are closed, so that earlier data cannot be mistaken for later data."""
        for link in list(self.links.values()):
            self.hang_up(link)
        version, state = 0, b""
        values: dict[str, Any]
        if message.id >= 0:
            version, state, values = self._part(message)
            with self._changing():
                self.store.load(version, values)
        elif message.id == FOLLOWED:
            self.store.drop(tuple(self.store.grads))
            version = self.store.version
        else:
            with self._changing():
                self.store.reset()
        self.generation = message.generation
        if self.following is not None:
            self.selector.unregister(self.following.wakes)
            self.following = None
        if self.handing_over is not None:
            self.handing_over.begin()
        self._show()
        self.send(Loaded(id=message.id, generation=message.generation, version=version, state=state))

    def _part(self, message: LoadCheckpoint) -> tuple[int, bytes, dict[str, Any]]:
        """Return what earlier holders have stored of the range that is ours from now on."""
        version, state, values = read_slice(parts_of(self.directory, message.id), message.lo, message.hi)
        if (message.lo, message.hi) != (self.store.lo, self.store.hi):
            threads = update_threads(self.spec, self.identity)
            self.store = Store(values["params"], self.spec.optimizer, lo=message.lo, threads=threads)
        return version, state, values

    def report(self) -> None:
        """Report the work since the last report, if any; a replica's work is not recorded."""
        if self.updates and self.following is None:
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

    # ---- replicas ----------------------------------------------------------------------------------------------------

    def _begin_following(self) -> None:
        """A server that does not hold the parameters at the start becomes a replica when it has a copy."""
        if self.identity.incarnation or self.identity.key not in self.spec.layout.holders:
            self.following = Following(self.spec.secret, self.identity)
            self.selector.register(self.following.wakes, selectors.EVENT_READ, self._on_copied)
        self._show()

    @contextmanager
    def _changing(self) -> Iterator[None]:
        """Our parameters change; then they are compared with other servers' parameters."""
        if self.shared_parameters is None:
            yield
            return
        self.shared_parameters.begin()
        yield
        self._show()

    def _show(self) -> None:
        if self.shared_parameters is None:
            return
        role = HOLDS if self.following is None else FOLLOWS if self.following.has_copy else NEITHER
        self.shared_parameters.end(self.store.version, self.generation, role)
        for divergence in self.shared_parameters.divergence():
            self.send(divergence)

    def _follow(self, order: Follow) -> None:
        """Begin to follow, with the initial parameters or with a copy."""
        assert self.following is not None, "the server follows nobody"
        if order.generation != self.generation:
            for link in list(self.links.values()):
                self.hang_up(link)
            self.waiting.clear()
            self.store.drop(tuple(self.store.grads))
            self.generation = order.generation
            self.following.begin()
        self.following.follow(order)
        if order.source is not None:
            self.following.fetch(sum(len(vector) for vector in self.store.vectors()))
        self._show()

    def _on_copied(self) -> None:
        """A copy is there, or the connection over which it was to come is lost."""
        if self.following is None:  # it takes over: both were there, and that order was read first
            return
        for copied in self.following.copied():
            if isinstance(copied, LinkLost):
                self.send(copied)
                continue
            with self._changing():
                self.following.take(copied, self.store, self.waiting)
            self.send(Followed(generation=self.generation, version=copied.version))
            self.look()

    def _hand_over(self, order: SendState) -> None:
        assert self.handing_over is not None, "only a job with replicas has such orders"
        vectors = np.concatenate(self.store.vectors())
        copy = Copy(self.store.version, self.store.optimizer.steps, self.generation, vectors)
        with suppress(OSError):  # the replica is gone, as its connection is about to say
            if (link := self.handing_over.order(order, copy)) is not None:
                self.watch(link)

    def greeted(self, link: DataLink) -> None:
        """A replica may have come for its copy."""
        if self.handing_over is not None and link.identity.role == "server":
            self.handing_over.greeted(link)


def update_threads(spec: TaskSpec, identity: Identity) -> int:
    """How many threads may share an update: two if there are as many cores, but one on an emulated host.

    While all wait for an update, as in synchronous training, a second core has nothing else to do.
    """
    on_host = bool(spec.place(identity.role, identity.id).host)
    return 1 if on_host else min(2, len(os.sched_getaffinity(0)))


def server_main(spec: TaskSpec, identity: Identity, buffers_fd: int) -> None:
    """Entry point of a server process."""
    from runtime.config.instantiate import instantiate

    initial = Initial(instantiate(spec.backend), instantiate(spec.task), spec.seed)
    num_parameters = initial.num_parameters
    lo, hi = spec.layout.ranges(num_parameters).get(identity.key, (0, num_parameters if spec.num_replicas else 0))
    part = initial.part(lo, hi)
    del initial  # the others' parts, if they had to be drawn
    buffers = SharedBuffers(buffers_fd, num_parameters, spec.num_workers) if spec.transport == "shm" else None
    shared_parameters, place = None, None
    if spec.num_replicas:
        shared_parameters = SharedParameters(buffers_fd, num_parameters, len(spec.layout.servers), identity.id)
        place = shared_parameters.params
    store = Store(part, spec.optimizer, buffers, lo, update_threads(spec, identity), place)
    try:
        Server(spec, identity, store, num_parameters, shared_parameters).run()
    except ConnectionError:
        os._exit(0)
    except LostGradientError as error:  # no error of ours: a task that ends with exit code 0 starts again
        print(f"ended, so that all return to the last checkpoint: {error}", file=sys.stderr)
