"""Carries out a strategy's commands to workers and gradients: ledger, data service, orders to the port (pure).

A Compute that finds no free data is *starved*: it starts as soon as data comes back to the queue or an epoch opens, and
ends as an arrival of zero samples when nothing in progress could bring either (see ``Coordinator``). One for
a worker that restarts is *reserved*: its samples are taken now, in turn, and it starts when the worker is back. A
Compute of parts takes nothing: its samples are the round's (:mod:`runtime.core.data.parts`), and if there are none, as
at the end of an epoch, it ends at once.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import msgspec

from runtime.core.attachments import Attachments
from runtime.core.data.parts import Parts
from runtime.core.data.shards import Cut, Range, Shards, cut_epoch, samples_of
from runtime.core.job import ApplyOrder, ComputeOrder, Job, Piece, Port, RecordSink
from runtime.core.ledger import GradientLedger, LoaderWait, Order
from runtime.core.measuring import Measuring
from runtime.core.membership import Membership
from runtime.core.own_steps import OwnSteps
from runtime.core.replication import Replication
from runtime.core.scoring import Scoring
from runtime.core.transfers import Transfers
from strategies.protocol import (
    Apply,
    Compute,
    Drop,
    Grad,
    NodeId,
    Partition,
    ProtocolError,
    Score,
    StepAlone,
    split_evenly,
)

MAX_EMPTY_ROUNDS = 1000
"""Rounds of empty arrivals without progress after which the strategy counts as stuck."""

Disturb = Callable[[str, float], tuple[float, float]]
"""(target, t) -> (delay in seconds, slow-down fraction) injected on a target at that time."""
LoaderFor = Callable[[str, float], float]
"""(worker, t) -> the part of that delay in which it waits for a batch of its loader, in seconds."""

CUT = "not computed in time"
"""Why samples return to the queue, or are given up, of an iteration that ended early."""
REPEATED = "applied, of the same shard"
"""Why samples return to the queue that count already."""


def nominal_batches(global_batch_samples: int, num_workers: int) -> tuple[int, ...]:
    """The even split of the global batch; the first workers get one sample more where it does not divide."""
    return tuple(split_evenly(global_batch_samples, num_workers))


def cut_for(job: Job, data: str) -> Cut:
    """How the data service divides this job's epochs under an allocation policy."""
    first = nominal_batches(job.global_batch_samples, job.num_workers)[0]
    return cut_epoch(data, job.num_samples, job.batches_per_shard * first, job.num_workers)


class Executor:
    """The state of a job between two decisions; every method gets the time ``t`` of the event it belongs to.

    ``finish(t, reason)`` is called when the last epoch is done.
    """

    def __init__(
        self,
        job: Job,
        data: str,
        members: Membership,
        port: Port,
        record: RecordSink,
        disturb: Disturb,
        finish: Callable[[float, str], None],
        *,
        holds: bool = False,
        outer: Mapping[str, Any],
        meanwhile: bool = False,
        loader_for: LoaderFor = lambda worker, t: 0.0,
    ) -> None:
        self.loader_for = loader_for
        self.job, self.port, self.record, self.disturb, self.finish = job, port, record, disturb, finish
        self.holds = holds
        """Whether workers keep their gradients until they are sent."""
        self.members = members
        self._noted = -1
        """The version of the layout that the record has."""
        self.batches = nominal_batches(job.global_batch_samples, job.num_workers)
        """Batches of the workers of the start."""
        self.cut = cut_for(job, data)
        self.shards = Shards(
            self.cut,
            policy=data,
            epochs=job.epochs,
            seed=job.seed,
            overlap=job.epoch_overlap,
        )
        self.parts = Parts(self.shards)
        self.ledger = GradientLedger()
        self.transfers = Transfers(self.ledger, port, self._number)
        layout = members.layout
        copies = [server.number for server in layout.servers if server not in layout.holders]
        self.replication = Replication(port, tuple(copies))
        self.attachments = Attachments(self.ledger, self.members, replicas=not job.num_servers)
        replicas = not job.num_servers
        self.own_steps = OwnSteps(self.ledger, self.members, port, outer, replicas=replicas, meanwhile=meanwhile)
        self.version = 0
        self.measuring = Measuring(self._servers)
        self.scoring = Scoring(port, self._servers, job.validation_samples, lambda: self.version)
        self.iterations: Counter[int] = Counter()
        """Finished by every worker, over all its incarnations."""
        self.reserved: dict[int, tuple[Compute, tuple[Range, ...], tuple[Piece, ...]]] = {}
        self._names: dict[int, str] = {}
        """Names of workers, as a plan writes them."""
        self.next_grad_id = 0
        self._empty_rounds = 0

    # ---- who takes part ----------------------------------------------------------------------------------------------

    def _servers(self) -> tuple[int, ...]:
        return tuple(server.number for server in self.members.layout.holders)

    def admit(self, t: float, node: NodeId) -> None:
        """A worker takes part from when it joins; until then it holds nothing up. A server holds nothing."""
        self.members.admit(node)
        self.note_layout(t)

    def remove(self, t: float, node: NodeId) -> None:
        """A node that will not start again is no member any more."""
        self.members.remove(node)
        self.note_layout(t)

    def note_layout(self, t: float) -> None:
        """Write the layout to the record, if it has changed."""
        if (layout := self.members.layout).version != self._noted:
            self._noted = layout.version
            self.record.note(t, "LayoutChanged", **layout.describe())

    # ---- commands ----------------------------------------------------------------------------------------------------

    def compute(self, t: float, command: Compute) -> None:
        """Start a Compute, or hold it until there is data."""
        self.ledger.check_compute(command, self.members.is_expected(command.worker))
        if command.within_s is not None and self.holds:
            raise self.ledger.error(command.worker, f"{command}: within_s is not for gradients that are held (Send)")
        if not self._begin(t, command):
            self.ledger.starved[command.worker] = command
            if not command.parts:
                self.record.note(t, "Starved", worker=command.worker)

    def partition(self, t: float, command: Partition) -> None:
        """Begin a round of parts."""
        newest = self.shards.epochs_opened
        try:
            begun = self.parts.open(command.num_samples, command.num_parts)
        except ValueError as error:
            raise ProtocolError(f"{command}: {error}") from None
        self._epochs_moved(t, newest)
        self.record.note(t, "Partitioned", round=begun.number, samples=begun.samples, parts=command.num_parts)

    def apply(self, t: float, command: Apply) -> None:
        """One update, on every server."""
        if len(command.weights) != len(command.grads):
            raise ProtocolError(f"{command}: {len(command.grads)} gradients but {len(command.weights)} weights")
        grads, shards = self.ledger.use(command.grads, "Apply"), self.shards
        number, samples = _one_round(command, grads)
        newest = shards.epochs_opened
        self.scoring.forget(command.grads)
        ring = self.attachments.reform(command, grads)
        own = self.own_steps.moves(grads, command.weights, self.version)
        if own.moves and (command.measure or command.children):
            raise ProtocolError(f"{command}: moves have no norm, and workers with parameters of their own no children")
        rate = (self.own_steps.outer_lr if own.moves else self._lr()) * command.lr_scale
        self.version += 1
        ids, weights = members_of(grads), command.weights
        if len(ids) > len(grads):
            pairs = zip(grads, weights, strict=True)
            weights = tuple([weight for grad, weight in pairs for _ in range(max(1, len(grad.members)))])
        self.replication.applied(ids, self.version)
        self.port.apply(
            ApplyOrder(
                version=self.version,
                grads=ids,
                weights=weights,
                vectors=len(grads) if len(ids) > len(grads) else None,
                lr=rate,
                samples=samples,
                measure=self.measuring.ask(self.version) if command.measure else None,
                excluded=ring.excluded,
                children=command.children,
                returning=ring.returning,
                **own._asdict(),
            )
        )
        if number is None:
            completed = 0
            for grad_id in ids:
                completed += shards.applied(grad_id)
        else:
            completed = self._count_round(number, command)
        if completed:
            self._epochs_moved(t, newest)
            if not shards.finished:
                self.feed_held(t)  # with overlapping epochs, the one after the next may open now

    def _lr(self, samples: int = 0) -> float:
        """The rate when so many more samples are applied."""
        return self.job.lr * self.job.lr_at(self.shards.samples_passed + samples)

    def step_alone(self, command: StepAlone) -> None:
        """Steps of workers' own parameters."""
        self.own_steps.step(command, self.version, self._lr)

    def drop(self, t: float, command: Drop) -> None:
        """Discard gradients; their samples are computed again or, by request, given up."""
        self.own_steps.check_drop(command.grads)
        held, arrived = self.transfers.discard(command.grads)
        gone = list(held)
        for grad in held:
            self.iterations[grad.worker] += 1
        if arrived or not held:
            gone += self.ledger.use(arrived, "Drop")
            self.attachments.forget(arrived)
            self.scoring.forget(arrived)
            self.port.drop(_find_names(gone[len(held) :]))
        self.replication.dropped(members_of(gone))
        newest = self.shards.epochs_opened
        for grad in gone:
            if grad.round is not None:
                continue
            for grad_id in grad.members or (grad.id,):
                if command.requeue:
                    self.shards.returned(grad_id, to_holder=False)
                else:
                    self.shards.forget(grad_id)
        self._epochs_moved(t, newest)
        self.feed_held(t)

    def _count_round(self, number: int, command: Apply) -> int:
        try:
            return self.parts.applied(number, command.grads, command.weights)
        except ValueError as error:
            raise ProtocolError(f"{command}: {error}") from None

    def score(self, command: Score) -> None:
        """Compare a gradient with the reference."""
        if not self.job.validation_samples:
            raise ProtocolError(f"{command}: no samples are held out (Strategy.validation_samples)")
        grad = self.ledger.check_score(command, self.scoring.asked)
        self.scoring.ask(grad, refresh=command.refresh)

    def done(self, t: float) -> None:
        """The last epoch is done."""
        self.finish(t, f"{self.job.epochs} epochs done")

    def _epochs_moved(self, t: float, opened_before: int) -> None:
        if self.shards.finished:
            self.done(t)
        elif self.shards.epochs_opened > opened_before:
            self.record.note(t, "EpochStarted", epoch=self.shards.newest_epoch)

    def _number(self) -> int:
        self.next_grad_id += 1
        return self.next_grad_id - 1

    def progressed(self) -> None:
        """A Compute was begun: the strategy is not stuck."""
        self._empty_rounds = 0

    # ---- Computes ----------------------------------------------------------------------------------------------------

    def _begin(self, t: float, command: Compute) -> bool:
        """Start a Compute if there is data for it."""
        worker, grad_id = command.worker, self.next_grad_id
        shards, member = self.shards, self.members.members[worker]
        opened = shards.epochs_opened
        pieces: tuple[Piece, ...] = ()
        if command.parts:
            ranges, pieces = self._parts(command, grad_id)
        else:
            ranges = shards.take(grad_id, worker, command.num_samples)
        if not ranges:
            return False
        if shards.epochs_opened > opened:
            self.record.note(t, "EpochStarted", epoch=shards.newest_epoch)
        self.next_grad_id += 1
        self.progressed()
        order = self._order(command, grad_id, samples_of(ranges))
        self.ledger.busy[worker] = order
        if member.state == "here":
            self._send(t, order, command, ranges, pieces)
        else:
            self.reserved[worker] = (command, ranges, pieces)
        return True

    def _parts(self, command: Compute, grad_id: int) -> tuple[tuple[Range, ...], tuple[Piece, ...]]:
        """The worker's parts of the round; empty if they have no samples."""
        try:
            return self.parts.take(grad_id, command.parts)
        except ValueError as error:
            raise self.ledger.error(command.worker, f"{command}: {error}") from None

    def _order(self, command: Compute, grad_id: int, samples: int) -> Order:
        begun = self.parts.now if command.parts else None
        return Order(
            grad_id=grad_id,
            worker=command.worker,
            iteration=self.iterations[command.worker],
            version=self.version,
            assigned_samples=command.num_samples,
            samples=samples,
            round=begun.number if begun is not None else None,
            round_samples=begun.samples if begun is not None else None,
            accum=min(command.accum, samples),
            requeue=command.requeue,
        )

    def _send(
        self, t: float, order: Order, command: Compute, ranges: tuple[Range, ...], pieces: tuple[Piece, ...]
    ) -> None:
        worker = order.worker
        name = self._names.get(worker)
        if name is None:
            name = self._names[worker] = str(NodeId.worker(worker))
        delay_s, slowdown_frac = self.disturb(name, t)
        if delay_s and (loader_s := self.loader_for(name, t)):
            waits = LoaderWait(loader_s, delay_s, slowdown_frac)
            self.ledger.busy[worker] = msgspec.structs.replace(order, waits=waits)
        self.port.compute(
            ComputeOrder(
                grad_id=order.grad_id,
                worker=worker,
                incarnation=self.members.members[worker].incarnation,
                version=order.version,
                ranges=ranges,
                accum=self._passes(command, order.samples, pieces),
                delay_s=delay_s,
                slowdown_frac=slowdown_frac,
                pieces=pieces,
                parent=self.attachments.ordered(order.grad_id, worker) if self.members.parents else None,
                holds=self.holds,
                within_s=command.within_s,
            )
        )

    def _passes(self, command: Compute, samples: int, pieces: tuple[Piece, ...]) -> int:
        """Micro-batches of a Compute; with parts: one where samples can be weighted, else one for each part."""
        if pieces:
            return 1 if self.job.supports_sample_weights else len(pieces)
        return command.accum if command.accum <= samples else samples

    def joined(self, t: float, worker: int) -> None:
        """A worker is back: a Compute reserved for it starts now, on the current parameters."""
        self.shards.back(worker)
        if worker in self.reserved:
            reserved = self.reserved.pop(worker)
            order = msgspec.structs.replace(self.ledger.busy[worker], version=self.version)
            self.ledger.busy[worker] = order
            self._send(t, order, *reserved)

    def lost(self, t: float, worker: int, *, here: bool, restarting: bool, reason: str) -> None:
        """A worker's Compute is lost with it; one reserved while it restarts waits for its next incarnation."""
        repeats = self.job.failover == "whole_shards"
        self.replication.lost_worker(worker)
        if here or not restarting:
            self.ledger.starved.pop(worker, None)
            self.reserved.pop(worker, None)
            if (order := self.ledger.end(worker)) is not None:
                self.give_back(t, order, to_holder=restarting or repeats, reason=reason)
        if repeats:
            if samples := self.shards.repeat(worker):
                self.record.note(t, "Requeued", worker=worker, samples=samples, reason=REPEATED)
            self.feed_held(t)
        if not restarting:
            self.shards.leave(worker)
            self.feed_held(t)

    def void(self) -> None:
        """Void all Computes and gradients."""
        self.ledger.void()
        self.transfers.sums.clear()
        self.replication.void()
        self.parts.void()
        self.attachments.void()
        self.own_steps.void()
        self.scoring.void()
        self.measuring.void()
        self.reserved.clear()

    def in_time(self, t: float, order: Order, ends_s: tuple[float, ...]) -> Order:
        """Part the samples of micro-batches that were not begun from a Compute; they return, or are given up."""
        samples = sum(split_evenly(order.samples, order.accum)[: len(ends_s)])
        left = order.samples - samples
        if left:
            rest, newest = self._number(), self.shards.epochs_opened
            self.shards.divide(order.grad_id, samples, rest)
            if order.requeue:
                self.shards.returned(rest, to_holder=False)
                self.record.note(t, "Requeued", worker=order.worker, samples=left, reason=CUT)
            else:
                self.shards.forget(rest)
                self.record.note(t, "GaveUp", worker=order.worker, samples=left, reason=CUT)
            self._epochs_moved(t, newest)
            self.feed_held(t)
        return msgspec.structs.replace(order, samples=samples, cut_samples=left, ends_s=ends_s)

    def arrived(self, order: Order) -> Grad:
        """The handle of a worker's gradient, which may be used from now on."""
        grad = self.grad_of(order)
        self.iterations[order.worker] += 1
        self.ledger.arrived(grad)
        return grad

    def summed(self, grad_id: int, orders: Sequence[Order]) -> Grad:
        """The handle of a sum of workers' gradients, which may be used from now on."""
        first = self.grad_of(orders[0])
        for order in orders:
            self.ledger.end(order.worker)
            self.iterations[order.worker] += 1
        grad = msgspec.structs.replace(
            first,
            id=grad_id,
            version=min(order.version for order in orders),
            samples=sum(order.samples for order in orders),
            assigned_samples=sum(order.assigned_samples for order in orders),
            members=tuple(order.grad_id for order in orders),
        )
        self.ledger.arrived(grad)
        return grad

    def grad_of(self, order: Order) -> Grad:
        """The handle of a Compute's gradient, before it counts as finished."""
        return Grad(
            id=order.grad_id,
            worker=order.worker,
            incarnation=self.members.members[order.worker].incarnation,
            iteration=order.iteration,
            version=order.version,
            samples=order.samples,
            assigned_samples=order.assigned_samples,
            round=order.round,
            round_samples=order.round_samples,
            cut_samples=order.cut_samples,
            ends_s=order.ends_s,
        )

    # ---- data that comes back, Computes that wait for it -------------------------------------------------------------

    def give_back(self, t: float, order: Order, *, to_holder: bool, reason: str) -> None:
        """Return the samples of work without a gradient: to the restarting holder, or to the tail of the queue."""
        self.port.drop((order.grad_id,))
        self.attachments.forget((order.grad_id,))
        if order.round is not None:  # the samples are the round's
            return
        samples = self.shards.returned(order.grad_id, to_holder=to_holder)
        self.record.note(t, "Requeued", worker=order.worker, samples=samples, reason=reason)
        if not to_holder:
            self.feed_held(t)

    def feed_held(self, t: float) -> None:
        """Start starved Computes, in worker order, as long as there is data."""
        for worker in sorted(self.ledger.starved):
            if self._begin(t, self.ledger.starved[worker]):
                del self.ledger.starved[worker]

    def empty_arrivals(self) -> list[Grad]:
        """Gradients of zero samples for all starved Computes, if nothing in progress could free data.

        For parts without samples always, since nothing could free any.
        """
        starved = self.ledger.starved
        # after every event: thousands may be starved at the end of an epoch, with parts only in coded jobs
        if self.parts.used and (without := {worker: command for worker, command in starved.items() if command.parts}):
            starved = without
        elif (
            not starved
            or self.ledger.busy
            or self.scoring.asked
            or self.members.anyone_launching()
            or self.replication.asked
        ):
            return []
        self._empty_rounds += 1
        if self._empty_rounds > MAX_EMPTY_ROUNDS:
            unused = sorted(self.ledger.grads)
            raise ProtocolError(f"the strategy is stuck: no data is left to compute and {unused} wait forever")
        orders = []
        for worker in sorted(starved):
            orders.append(self._order(starved[worker], self.next_grad_id, 0))
            self.next_grad_id += 1
            del self.ledger.starved[worker]
        return [self.arrived(order) for order in orders]


def members_of(grads: Sequence[Grad]) -> tuple[int, ...]:
    """Return the names of these gradients for servers and the data service: sums by their members."""
    return tuple([member for grad in grads for member in (grad.members or (grad.id,))])


def _find_names(grads: Sequence[Grad]) -> tuple[int, ...]:
    """The same, and the ids of the sums themselves: each holder discards its own."""
    return members_of(grads) + tuple([grad.id for grad in grads if grad.members])


def _one_round(command: Apply, grads: Sequence[Grad]) -> tuple[int | None, int]:
    """The round of all these gradients, and its samples; None, and theirs, if they are of none."""
    number, samples = grads[0].round, 0
    for grad in grads:
        if grad.round != number:
            rounds = sorted({grad.round for grad in grads}, key=str)
            raise ProtocolError(f"{command}: gradients of rounds {rounds} are not of one batch")
        samples += grad.samples
    return number, grads[0].round_samples or samples
