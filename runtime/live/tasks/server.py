"""A parameter server: one process, one loop, one range of the parameters.

The coordinator's commands come in order on the control channel, so a delivery that follows an update always carries
exactly the version after it, on every server. Gradients and parameters travel on one data link per worker. A gradient
without a receipt may still be in its socket when an order names it: then this order and all later ones wait for it.
"""

from __future__ import annotations

import os
import sys
import time
from collections import deque
from typing import Any

from runtime.live.tasks.datalink import DataLink
from runtime.live.tasks.receiver import Receiver
from runtime.live.tasks.store import Store, save_part
from runtime.live.transport.address import pace
from runtime.live.transport.auth import Identity
from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.buffers import SharedBuffers
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
    Update,
)
from runtime.live.transport.task_spec import TaskSpec
from runtime.record.checkpoint import parts_of, read_slice
from strategies.protocol import AGGREGATOR


class LostGradientError(Exception):
    """An update needs a gradient that cannot come any more: the server ends, and all return to the last checkpoint."""


class Server(Receiver):
    """Receives gradients into a :class:`Store`, and carries out the coordinator's orders to it."""

    callers = ("worker", *AUXILIARIES, AGGREGATOR)

    def __init__(self, spec: TaskSpec, identity: Identity, store: Store, num_parameters: int) -> None:
        self.store = store
        self.directory = spec.checkpoint_dir
        self.waiting: deque[Message] = deque()
        """Orders that wait for gradients still in the sockets, the first of them for some, in order."""
        self.updates, self.busy_s, self.injected_s = 0, 0.0, 0.0
        super().__init__(spec, identity, num_parameters)

    @property
    def sink(self) -> Store:
        """Where gradients are held."""
        return self.store

    # ---- control -----------------------------------------------------------------------------------------------------

    def take(self, message: Message) -> None:
        """Obey in order; what ends or voids the orders that wait does not wait itself."""
        match message:
            case Fence():
                self._fence(message)
                self.look()
            case LoadCheckpoint() | Goodbye():
                self.waiting.clear()
                self._obey(message)
            case Pace():
                self._obey(message)
            case _:
                self.waiting.append(message)
                self.look()

    def look(self) -> None:
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
        held = [pace(link.sock, bytes_per_s) for link in self.links.values()]
        self.send(Paced(bytes_per_s=min((rate for rate in held if rate is not None), default=None)))

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

    def report(self) -> None:
        """The work since the last report, if any."""
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
    except LostGradientError as error:  # no error of ours: who ends with exit code 0 starts again
        print(f"ended, so that all return to the last checkpoint: {error}", file=sys.stderr)
