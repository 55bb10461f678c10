"""Gate of one gradient per update whose transfers are planned: MLfabric's order with deadlines (pure).

A plan gives every held gradient a slot, or drops it. A slot is sent when all that the plan ends before it on one of its
links have arrived; nothing relies on the planned seconds, since links may be slower than known. Updates are applied in
the order of the slots: one that arrives early waits. So no applied update is later than its plan allowed.

A slot that takes several times as long as planned leaves the order, so that a worker that is slow, paused or dead,
unknown to the planner, delays no other: later ones are sent and applied. When it arrives after all, it gets the first
place that makes no other update too late, or is dropped if it is too late itself.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

import msgspec

from reading.ranges import (
    NonNegativeFloat,
    NonNegativeInt,
    Number,
    OneOf,
    PositiveFloat,
    PositiveFrac,
    PositiveInt,
    check_number,
    check_settings,
)
from strategies.mlfabric.bandwidths import LATE_FACTOR, SERVERS, Bandwidths, Expected
from strategies.mlfabric.fluid import Slot, Update
from strategies.mlfabric.order import Group, group, plan
from strategies.mlfabric.replicas import Replicas
from strategies.parts.gates.base import NOTHING, Verdict
from strategies.parts.nodes import is_due
from strategies.parts.weights import worst_case_factor
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Command,
    Evaluated,
    Failed,
    Grad,
    Joined,
    Ready,
    Replicate,
    Replicated,
    Send,
    ServerJoined,
    ServerLost,
    Started,
    Wake,
    Woke,
)

ORDERS = ("deadlines", "shortest", "fair")
WINDOW = "transfers"
"""Tag of the timer after which a plan is made although another is not done."""
OVERDUE = "overdue"
"""Tag of the timer at which a transfer may be overdue while others wait for it."""
REPLICA_OVERDUE = "replica overdue"
"""Tag of the timer at which a transfer to a replica may be overdue while updates wait for it."""
ROUNDING_S = 1e-9


@dataclass(kw_only=True)
class TransferSettings:
    """In which order gradients are sent and applied.

    Attributes:
        order: ``deadlines``; ``shortest``: the shortest transfer first, whatever its delay; ``fair``: all at once.
        tau_max: bound on the delay of applied updates, in versions; None: twice the workers of the start.
        window_s: seconds after a plan until the next if its slots are not all applied; None: until they are.
        idle_tolerance_s: seconds that a due update may be later than the shortest; None: the median transfer's.
        late_factor: planned durations after which a transfer no longer delays others; None: 4; 1e9: never.
        parallel_sends: slots on their way at a time; more than the slides' 1 fill the gaps between short transfers.
        smoothing: weight of the newest transfer in a worker's bandwidth.
        num_aggregators: tasks that sum neighbours in the order on their way (slide 14); a sum is one update.
        num_replicas: servers that follow the others within ``divergence_max`` (slide 15); one of them takes
            over when the server is lost.
        divergence_max: bound on the distance of their parameters from the server's, at every instant.
    """

    order: Annotated[str, OneOf(*ORDERS)] = "deadlines"
    tau_max: NonNegativeInt | None = None
    window_s: NonNegativeFloat | None = None
    idle_tolerance_s: float | None = None
    late_factor: Annotated[float, Number(1.0)] | None = None
    parallel_sends: PositiveInt = 1
    smoothing: PositiveFrac = 0.3
    num_aggregators: NonNegativeInt = 0
    num_replicas: NonNegativeInt = 0
    divergence_max: PositiveFloat | None = None


@final
@dataclass(kw_only=True)
class OrderedGate(TransferSettings):
    """Every gradient is an update of its own, sent and applied in planned order.

    Attributes:
        scale: factor on the learning rate of every update; None: 1 / sqrt(``tau_max``).
        lr_rule: by which the learning rate of an update depends on its gradient, for that bound.
    """

    scale: float | None = 1.0
    lr_rule: str = "batch_linear"

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = True

    def __post_init__(self) -> None:
        check_settings(self)
        bounds = {
            "tau_max": self.tau_max,
            "idle_tolerance_s": self.idle_tolerance_s,
            "window_s": self.window_s,
            "late_factor": self.late_factor,
        }
        useless = {"deadlines": (), "shortest": ("tau_max", "idle_tolerance_s"), "fair": tuple(bounds)}[self.order]
        for name in useless:
            if bounds[name] is not None:
                raise ValueError(f"{name}={bounds[name]}: has no effect with order={self.order}; must be null there")
        if self.idle_tolerance_s not in (None, math.inf):
            check_number("idle_tolerance_s", self.idle_tolerance_s, least=0)
        if self.parallel_sends > 1 and self.order == "fair":
            raise ValueError(f"parallel_sends={self.parallel_sends}: has no effect with order=fair; must be 1 there")
        if self.num_aggregators and self.order == "fair":
            raise ValueError(f"num_aggregators={self.num_aggregators}: needs an order; order=fair plans nothing")
        self._check_replicas()

    def _check_replicas(self) -> None:
        if not self.num_replicas:
            if self.divergence_max is not None:
                raise ValueError(
                    f"divergence_max={self.divergence_max}: bounds replicas, and there are none; must be null"
                )
            return
        if self.divergence_max is None:
            raise ValueError(f"num_replicas={self.num_replicas}: needs a bound on their distance; set divergence_max")
        if self.order == "fair":
            raise ValueError(f"num_replicas={self.num_replicas}: needs an order; order=fair plans nothing")
        if self.num_aggregators:
            raise ValueError(
                f"num_replicas={self.num_replicas}: receive gradients from their workers, and num_aggregators="
                f"{self.num_aggregators} sends sums; use one of them"
            )

    @property
    def needs(self) -> frozenset[type[Command]]:
        more: set[type[Command]] = {Replicate} if self.num_replicas else set()
        return frozenset({Send, Wake, *more})

    def validate(self, num_workers: int) -> None:
        """With n workers up to n - 1 others are applied while one computes: with less it would always be dropped."""
        if self.tau_max is not None and self.tau_max < num_workers - 1:
            raise ValueError(
                f"tau_max={self.tau_max}: while one of {num_workers} workers computes, {num_workers - 1} updates of "
                f"others are applied; must be {num_workers - 1} or more, or null for {2 * num_workers}"
            )

    def start(self, started: Started) -> None:
        self._links, self._num_bytes = Bandwidths(started, self.smoothing), 0
        tau_max = 2 * len(started.workers) if self.tau_max is None else self.tau_max
        self._bound = tau_max if self.order == "deadlines" else math.inf
        self._factor = self.scale if self.scale is not None else worst_case_factor(self._bound)
        self._missed, self._idle, self._summed, self._overdue = 0, 0, 0, 0
        self._late_factor = LATE_FACTOR if self.late_factor is None else self.late_factor
        self._replicas: Replicas | None = None
        if self.divergence_max is not None:
            self._replicas = Replicas(self.divergence_max, self._late_factor, self.lr_rule, self._factor)
            self._replicas.start(started)

    # ---- the gate ----------------------------------------------------------------------------------------------------

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self._version = version
        self._held: dict[int, Update] = {}
        """Ready and not sent, by gradient."""
        self._grads: dict[int, Grad] = {}
        self._slots: list[Slot] = []
        """The plan, in the order in which updates are applied: sent or not, none applied."""
        self._sent: set[int] = set()
        self._groups: list[Group] = []
        """Groups of the plan that are summed and not sent yet."""
        self._arrived: dict[int, Grad] = {}
        self._waiting: dict[int, int] = {}
        """Workers that compute nothing until this gradient of theirs is applied or dropped."""
        self._late: dict[int, Slot] = {}
        """Sent and overdue: these left the order."""
        self._expected = Expected(self._late_factor)
        self._planned_s, self._wakes = -math.inf, False
        self._watch_s = self._replica_watch_s = math.inf
        """When the next timer of either kind is due; none is set for later."""
        if self._replicas is not None:
            self._replicas.begin(version)
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        """Keep the gradient until it is its turn; a sum takes the first of its members' slots."""
        if not grad.samples:
            return Verdict(apply=(grad,), go=(grad.worker,))
        ids = grad.members or (grad.id,)
        late = [slot for slot in [self._late.pop(grad_id, None) for grad_id in ids] if slot is not None]
        slots = [slot for slot in self._slots if slot.update.id in ids]
        if late and not slots:
            return self._insert_late(grad, late[0])
        self._arrived[slots[0].update.id if slots else grad.id] = grad
        self._slots = [slot for slot in self._slots if slot not in slots[1:]]
        return NOTHING

    def _insert_late(self, grad: Grad, slot: Slot) -> Verdict:
        """It is applied before all whose delay allows one more; dropped if its own does not allow that."""
        place = len(self._slots)
        while place and self._version + place - self._slots[place - 1].update.version <= self._bound:
            place -= 1
        if self._version + place - grad.version > self._bound:
            self._missed += 1
            self._forget_kept(grad)
            return Verdict(drop=(grad,), go=self._release_workers(grad))
        self._arrived[slot.update.id] = grad
        self._slots.insert(place, slot)
        return NOTHING

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Transfers that the worker has not completed are no longer awaited."""
        self._forget(worker)
        if self._replicas is not None:
            self._replicas.lose_worker(worker)
        return NOTHING

    def joined(self, worker: int) -> Verdict:
        return Verdict(go=(worker,))

    def _forget(self, worker: int) -> None:
        here = set(self._arrived).union(*(grad.members for grad in self._arrived.values()))
        gone = {grad.id for grad in self._grads.values() if grad.worker == worker and grad.id not in here}
        self._slots = [slot for slot in self._slots if slot.update.id not in gone]
        self._sent -= gone
        for grad_id in gone:
            self._held.pop(grad_id, None)
            self._late.pop(grad_id, None)
            self._expected.end(grad_id)
            del self._grads[grad_id]
        self._waiting.pop(worker, None)

    # ---- transfers ---------------------------------------------------------------------------------------------------

    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """Apply updates in planned order, plan held gradients, send those that may go; ``Evaluated`` is ignored."""
        match event:
            case Evaluated():
                return []
            case Ready():
                self._hold(event)
            case Arrived():
                self._learn(event)
            case Joined(worker=worker, place=place) if place is not None:
                self._links.place(worker, place)
            case Failed():
                self._forget(event.worker)
            case Woke(tag=tag) if tag == WINDOW:
                self._wakes = False
            case Woke(tag=tag) if tag == OVERDUE and is_due(event.t, self._watch_s):
                self._watch_s = math.inf
        copies = [] if self._replicas is None else self._follow(self._replicas, event)
        if self.order == "fair":
            return [*self._apply_as_they_come(), *map(self._send, tuple(self._held))]
        self._pass_over(event.t)
        if self._replicas is not None:
            self._replicas.pass_over(event.t)
        own = [*self._apply_in_order(), *self._plan(event.t), *self._sends(event.t), *self._watch()]
        return own if self._replicas is None else [*own, *copies, *self._replicate(self._replicas, event.t)]

    def _follow(self, replicas: Replicas, event: AnyEvent) -> list[Replicate]:
        """Learn about replicas; one that has come gets a copy."""
        match event:
            case Ready():
                replicas.ready(event)
            case Replicated():
                replicas.follow(event)
            case ServerLost(holding=False):
                replicas.lose(event.server)
            case ServerJoined():
                return [replicas.join(event.server)]
            case Woke(tag=tag) if tag == REPLICA_OVERDUE and is_due(event.t, self._replica_watch_s):
                self._replica_watch_s = math.inf
        return []

    def _replicate(self, replicas: Replicas, t: float) -> Iterator[AnyCommand]:
        """Let replicas receive the gradients that must precede the waiting or travelling updates."""
        order = [self._grads[slot.update.id] for slot in self._slots]
        arrived = bool(order) and order[0].id in self._arrived
        yield from replicas.transfers(order, arrived, t, lambda worker: self._links.alone_s(worker, self._num_bytes))
        if arrived and (next_s := replicas.next_s) < self._replica_watch_s:
            self._replica_watch_s = next_s
            yield Wake(at_s=next_s, tag=REPLICA_OVERDUE)

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: object) -> list[AnyCommand]:
        """Scale the learning rate of all updates alike."""
        if self._factor == 1.0:
            return commands
        return [
            msgspec.structs.replace(command, lr_scale=command.lr_scale * self._factor)
            if isinstance(command, Apply)
            else command
            for command in commands
        ]

    def _hold(self, ready: Ready) -> None:
        grad = ready.grad
        self._num_bytes = ready.num_bytes
        self._grads[grad.id] = grad
        self._waiting[grad.worker] = grad.id
        self._held[grad.id] = Update(
            id=grad.id,
            worker=grad.worker,
            version=grad.version,
            size_bytes=ready.num_bytes,
            ready_s=ready.t,
            path=self._links.path(grad.worker),
        )

    def _learn(self, arrived: Arrived) -> None:
        for grad_id in arrived.grad.members:
            self._expected.end(grad_id)
        planned_s = self._expected.end(arrived.grad.id)
        self._links.note_time(arrived.grad.worker, planned_s, arrived.timings.send_s)

    def _forget_kept(self, grad: Grad) -> None:
        if self._replicas is not None:
            self._replicas.forget(grad)

    def _pass_over(self, t: float) -> None:
        """Overdue transfers leave the order."""
        if not (late := set(self._expected.overdue(t))):
            return
        self._late.update({slot.update.id: slot for slot in self._slots if slot.update.id in late})
        self._slots = [slot for slot in self._slots if slot.update.id not in late]
        self._overdue += len(late)

    def _watch(self) -> Iterator[Wake]:
        """Look again when the next transfer is overdue, if others wait for one."""
        waits = self._held or any(slot.update.id in self._arrived for slot in self._slots)
        if waits and (next_s := self._expected.next_s) < self._watch_s:
            self._watch_s = next_s
            yield Wake(at_s=next_s, tag=OVERDUE)

    def _release_workers(self, grad: Grad) -> tuple[int, ...]:
        """The gradient is applied or dropped: workers that wait for that may compute again."""
        go = []
        for grad_id in grad.members or (grad.id,):
            worker = self._grads.pop(grad_id, grad).worker
            self._sent.discard(grad_id)
            if self._waiting.get(worker) == grad_id:  # else another incarnation has computed it
                del self._waiting[worker]
                go.append(worker)
        return tuple(go)

    def _apply_in_order(self) -> Iterator[Verdict]:
        while self._slots and self._slots[0].update.id in self._arrived:
            grad = self._arrived[self._slots[0].update.id]
            if self._replicas is not None:
                if not self._replicas.may_apply(grad):
                    if not self._replicas.is_hopeless(grad):
                        return
                    del self._arrived[self._slots.pop(0).update.id]
                    self._forget_kept(grad)
                    yield Verdict(drop=(grad,), go=self._release_workers(grad))
                    continue
                self._replicas.apply(grad)
            del self._arrived[self._slots.pop(0).update.id]
            self._version += 1
            yield Verdict(apply=(grad,), go=self._release_workers(grad))

    def _plan(self, t: float) -> Iterator[Verdict | AnyCommand]:
        if self._slots and self.window_s is None:
            return
        if self._held.keys() <= {slot.update.id for slot in self._slots}:
            return
        if self._slots and self.window_s is not None and t < self._planned_s + self.window_s:
            if not self._wakes:
                self._wakes = True
                yield Wake(at_s=self._planned_s + self.window_s, tag=WINDOW)
            return
        running = [slot for slot in self._slots if slot.update.id in self._sent]
        workers = [update.worker for update in self._held.values()] + [slot.update.worker for slot in running]
        links = self._links.links(workers)
        found = plan(
            tuple(self._held.values()),
            links,
            now_s=t,
            version=self._version,
            tau_max=self._bound,
            idle_tolerance_s=self.idle_tolerance_s if self.order == "deadlines" else math.inf,
            running=running,
        )
        self._planned_s, self._slots = t, [*running, *found.slots]
        self._groups = [] if running else self._sums(found.slots, links, t)
        for dropped in found.drops:
            self._missed += dropped.reason == "missed"
            self._idle += dropped.reason == "idle"
            del self._held[dropped.update.id]
            grad = self._grads[dropped.update.id]
            self._forget_kept(grad)
            yield Verdict(drop=(grad,), go=self._release_workers(grad))

    def _sums(self, slots: Sequence[Slot], links: dict[str, float], t: float) -> list[Group]:
        """Neighbours in the order that are to be summed by an aggregator."""
        if not self.num_aggregators:
            return []
        aggregators, more = self._links.aggregators(self.num_aggregators)
        updates = [slot.update for slot in slots]
        groups = group(updates, {**more, **links}, now_s=t, server=(SERVERS,), aggregators=aggregators)
        return [one for one in groups if one.via is not None]

    def _sends(self, t: float) -> Iterator[Send]:
        groups, self._groups = self._groups, []
        for one in groups:
            ids = tuple(update.id for update in one.members)
            self._summed += len(ids)
            self._sent.update(ids)
            self._expected.note_sent(ids, t, one.arrived_s - t, 0.0)
            for grad_id in ids:
                del self._held[grad_id]
            yield Send(grads=ids, via=one.via)
        slots, arrived = self._slots, self._arrived  # all use the way into the servers
        coming = sorted([(one.finish_s, at) for at, one in enumerate(slots) if one.update.id not in arrived])
        before = coming[self.parallel_sends - 1] if len(coming) >= self.parallel_sends else (math.inf, 0)
        for at, slot in enumerate(slots):
            is_first = (slot.finish_s, at) <= before or slot.start_s + ROUNDING_S < before[0]
            if slot.update.id not in self._sent and is_first:
                sending_s = sum(end_s - start_s for start_s, end_s, _ in slot.segments)
                shares = min(self.parallel_sends, 1 + self._expected.travelling)
                self._expected.note_sent(
                    (slot.update.id,), t, (slot.finish_s - slot.start_s) * shares, sending_s * shares
                )
                yield self._send(slot.update.id)

    def _send(self, grad_id: int) -> Send:
        self._sent.add(grad_id)
        del self._held[grad_id]
        return Send(grads=(grad_id,))

    # ---- without a plan ----------------------------------------------------------------------------------------------

    def _apply_as_they_come(self) -> Iterator[Verdict]:
        arrived, self._arrived = self._arrived, {}
        for grad in arrived.values():
            self._version += 1
            yield Verdict(apply=(grad,), go=self._release_workers(grad))

    def log_state(self) -> dict[str, float | int | str]:
        """Slots that are not applied, held gradients without a slot, drops by their reasons, and overdue transfers."""
        unplanned = len(self._held.keys() - {slot.update.id for slot in self._slots})
        state: dict[str, float | int | str] = {"slots": len(self._slots), "held": unplanned}
        state |= {"missed": self._missed, "idle": self._idle, "overdue": self._overdue}
        if self._replicas is not None:
            state |= self._replicas.log_state()
        return state | {"summed": self._summed} if self.num_aggregators else state
