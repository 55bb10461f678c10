"""The laws of the protocol and of the data service, checked on what a run left behind.

None of this trusts the ledger or the shards: the audit replays the record with books of its own. Every checker returns
complaints (none when all is well), and every one of them has a test in which it finds something.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from runtime.core.job import ComputeOrder
from strategies.protocol import (
    Apply,
    Arrived,
    Compute,
    Drop,
    Failed,
    Grad,
    Joined,
    Lost,
    Measured,
    ProtocolError,
    Ready,
    Repartition,
    Restart,
    Restored,
    Score,
    Scored,
    Send,
    ServerLost,
    Started,
    Strategy,
)
from tests.support.answers import Line
from tests.support.harness import HeapRun
from tests.support.node_audit import NodeAudit

Complaints = list[str]
Sample = tuple[int, int, int]
Make = Callable[[], Strategy]


class Audit:
    """Books of members, the version on which each computes, and gradients that may be used.

    ``halts_on_loss``: the loss of a worker halts everything, too, unless it was away. ``holds``: workers hold their
    gradients until they are sent.
    """

    def __init__(self, *, halts_on_loss: bool = False, holds: bool = False) -> None:
        self.halts_on_loss, self.holds = halts_on_loss, holds
        self.held: dict[int, Grad] = {}
        self.travelling: dict[int, int] = {}
        """Gradient -> worker, of what was sent."""
        self.t = 0.0
        self.here: set[int] = set()
        self.restarting: set[int] = set()
        self.pending: set[int] = set()
        self.busy: dict[int, int] = {}
        self.fresh: dict[int, Grad] = {}
        self.seen: set[int] = set()
        self.asked: set[int] = set()
        self.measured: set[int] = set()
        self.version = 0
        self.halted = False
        self.complaints: Complaints = []
        self.nodes = NodeAudit(self.demand)

    def read(self, line: Line) -> None:
        event = line.event
        self.demand(event.t >= self.t, f"time goes back from {self.t} to {event.t}")
        self.t = event.t
        if isinstance(event, Ready):
            self.holding(event.grad)
        self.happened(event)
        for command in line.commands:
            if not self.halted:
                self.ordered(command)
        self.demand(line.version == self.version, f"recorded version {line.version}, but {self.version} were applied")

    def demand(self, lawful: bool, complaint: str) -> None:
        if not lawful:
            self.complaints.append(f"t={self.t:g}: {complaint}")

    def happened(self, event: Any) -> None:
        match event:
            case Started():
                self.here, self.known = set(event.workers), set(event.workers)
            case Arrived(grad=grad):
                self.arrived(grad)
            case Scored(grad=grad):
                self.demand(grad.id in self.asked & self.fresh.keys(), f"{event}: nobody waits for this score")
                self.demand(event.ref_version <= self.version, f"{event}: a reference from the future")
                self.asked.discard(grad.id)
            case Measured():
                self.demand(event.version in self.measured, f"{event}: nobody asked for it")
                self.measured.discard(event.version)
            case Failed():
                self.ends(event.worker)
            case Lost():
                expected = self.here | self.restarting | self.pending
                self.demand(event.worker in expected, f"{event}: it was not there")
                self.lost(event)
            case Joined():
                awaited = event.worker in self.restarting | self.pending or event.worker not in self.known
                self.demand(awaited, f"{event}: it was not awaited")
                self.known.add(event.worker)
                self.restarting.discard(event.worker)
                self.pending.discard(event.worker)
                self.here.add(event.worker)
            case ServerLost(holding=True):
                self.halt()
            case Restored():
                self.halt()
                self.halted, self.version, self.here = False, event.version, set(event.workers)
                self.restarting = set()
                self.pending -= self.here
                self.known |= self.here
        self.nodes.happened(event)

    def lost(self, event: Lost) -> None:
        if self.halts_on_loss and event.worker in self.here:
            self.halt()
        if event.worker not in self.here:
            self.pending.discard(event.worker)  # it has been given up
        self.here.discard(event.worker)
        self.restarting.discard(event.worker)
        self.restarting |= {event.worker} if event.restarting else set()
        self.busy.pop(event.worker, None)
        self.held = {grad.id: grad for grad in self.held.values() if grad.worker != event.worker}

    def arrived(self, grad: Grad) -> None:
        senders = [self.travelling[member] for member in grad.members if member in self.travelling] or [grad.worker]
        ordered = min(
            self.busy.get(worker, self.version) for worker in senders
        )  # a held Compute starts later, on newer parameters
        self.demand(ordered <= grad.version <= self.version, f"{grad}: its Compute was given at version {ordered}")
        self.demand(grad.samples <= grad.assigned_samples, f"{grad}: more samples than assigned")
        self.demand(grad.id not in self.seen, f"{grad} arrives again")
        self.seen.add(grad.id)
        if self.holds and grad.samples:
            sent = set(grad.members or (grad.id,)) <= self.travelling.keys()
            self.demand(sent, f"{grad} arrives although it was not sent")
        for worker in senders:
            self.ends(worker)
        if grad.samples:
            self.fresh[grad.id] = grad

    def holding(self, grad: Grad) -> None:
        self.demand(self.holds, f"{grad} is held, but nobody sends it")
        self.demand(grad.worker in self.busy, f"{grad} is held, but its worker has no order")
        self.demand(grad.id not in self.held.keys() | self.travelling.keys() | self.seen, f"{grad} is held again")
        self.held[grad.id] = grad

    def send(self, command: Send) -> None:
        for grad_id in command.grads:
            self.demand(grad_id in self.held, f"{command}: gradient {grad_id} is not held")
            if grad_id in self.held:
                self.travelling[grad_id] = self.held.pop(grad_id).worker

    def forget(self, command: Drop) -> None:
        for grad_id in [grad_id for grad_id in command.grads if grad_id in self.held]:
            self.ends(self.held[grad_id].worker)
            self.fresh[grad_id] = self.held.pop(grad_id)

    def ends(self, worker: int) -> None:
        self.demand(worker in self.busy, f"something of worker {worker} ends that was not under way")
        self.busy.pop(worker, None)

    def ordered(self, command: Any) -> None:
        match command:
            case Compute():
                self.demand(command.worker in self.here | self.restarting, f"{command}: nobody there")
                self.demand(command.worker not in self.busy, f"{command}: busy")
                self.busy[command.worker] = self.version
            case Apply():
                self.demand(len(command.grads) == len(command.weights) > 0, f"{command}: weights do not match")
                self.use(command)
                self.version += 1
                self.measured |= {self.version} if command.measure else set()
            case Send():
                self.send(command)
            case Drop():
                self.forget(command)
                self.use(command)
            case Score():
                self.demand(command.grad in self.fresh, f"{command}: it has not arrived or is used up")
                self.demand(command.grad not in self.asked, f"{command}: its last score is pending")
                self.asked.add(command.grad)
            case Restart():
                self.restarted(command)
            case Repartition():
                self.halt()
        self.nodes.ordered(command)

    def halt(self) -> None:
        """Nothing counts until ``Restored``."""
        self.halted = True
        self.busy, self.fresh, self.asked, self.measured = {}, {}, set(), set()
        self.held, self.travelling = {}, {}

    def restarted(self, command: Restart) -> None:
        role, _, number = command.node.partition(":")
        if role == "server":  # the job is paused at once, later orders are void
            self.halt()
        else:
            self.demand(int(number) in self.here, f"{command}: not there")
            self.pending.add(int(number))
            self.halted |= self.halts_on_loss

    def use(self, command: Apply | Drop) -> None:
        for grad in command.grads:
            self.demand(grad in self.fresh, f"{command}: gradient {grad} has not arrived or is used up")
            self.fresh.pop(grad, None)
            self.asked.discard(grad)


def unlawful(run: HeapRun) -> Complaints:
    """Whatever the protocol forbids."""
    audit = Audit(halts_on_loss=run.job.halts_on_loss, holds=Send in run.core.strategy.needs)
    for line in run.lines:
        audit.read(line)
    return audit.complaints


def unaveraged(run: HeapRun) -> Complaints:
    """An update must be the mean over its samples: equal weights that sum to one over the samples.

    Of a strategy that says that it rescales, it must have a direction of the mean: equal weights, more than zero.
    """
    complaints = []
    rescales = run.core.strategy.rescales
    for line in run.lines:
        for command in line.commands:
            if isinstance(command, Apply) and run.grads[command.grads[0]].round is not None:
                complaints += [f"t={line.event.t:g}: {command}: {wrong}" for wrong in miscounted(run, command)]
            elif isinstance(command, Apply):
                samples = sum(run.grads[grad].samples for grad in command.grads)
                norm = command.weights[0] * samples if rescales and command.weights[0] > 0 else 1.0
                if any(abs(weight * samples / norm - 1) > 1e-12 for weight in command.weights):
                    complaints.append(f"t={line.event.t:g}: {command} is not the mean over {samples} samples")
    return complaints


def miscounted(run: HeapRun, command: Apply) -> Complaints:
    """What was computed by several must count as if by one: each sample of the round with 1 over their number."""
    counts: Counter[Sample] = Counter()
    for grad, weight in zip(command.grads, command.weights, strict=True):
        order = run.orders[grad]
        coefficients = [piece.coefficient for piece in order.pieces for _ in range(piece.samples)]
        for sample, coefficient in zip(samples_of(order), coefficients, strict=True):
            counts[sample] += weight * coefficient  # type: ignore[assignment]
    samples = run.grads[command.grads[0]].round_samples
    if len(counts) != samples:
        return [f"{len(counts)} samples, but the round has {samples}"]
    return [
        f"{sample} counts {count * samples:g}" for sample, count in counts.items() if abs(count * samples - 1) > 1e-9
    ]


def samples_of(order: ComputeOrder) -> list[Sample]:
    """(epoch, shard, position) of all samples of an order."""
    return [(work.epoch, work.shard, position) for work in order.ranges for position in range(work.start, work.stop)]


def dead(run: HeapRun) -> Complaints:
    """The job must come to the end of its epochs."""
    if run.core.status == "done" and run.core.shards.finished:
        return []
    return [f"status {run.core.status} ({run.core.reason}) after {run.core.shards.epochs_done} epochs, t={run.t:g}"]


def uses(run: HeapRun) -> Counter[Sample]:
    """How often each sample is in the parameters now; copies within a round are :func:`miscounted`'s business."""
    found: Counter[Sample] = Counter()
    for update in run.effective:
        used = [samples_of(run.orders[grad]) for grad in update.grads]
        copies = run.grads[update.grads[0]].round is not None
        found.update(set().union(*used) if copies else [sample for own in used for sample in own])
    return found


def unconserved(run: HeapRun) -> Complaints:
    """Every sample of every epoch must be in the parameters exactly once (restores take the data's state along)."""
    found, cut = uses(run), run.core.cut
    expected = {
        (epoch, shard, position)
        for epoch in range(run.job.epochs or 0)
        for shard in range(cut.num_shards)
        for position in range(cut.length(shard))
    }
    wrong = {sample: times for sample, times in found.items() if times != 1 or sample not in expected}
    missing = expected - found.keys()
    complaints = [f"{len(wrong)} samples used more than once, e.g. {min(wrong)}"] if wrong else []
    return complaints + ([f"{len(missing)} samples never used, e.g. {min(missing)}"] if missing else [])


def different(first: HeapRun, second: HeapRun) -> Complaints:
    """Two runs of the same thing must leave the same bytes."""
    return [] if first.everything() == second.everything() else [first_difference(first.lines, second.lines)]


def first_difference(first: Sequence[Line], second: Sequence[Line]) -> str:
    """Where two records part."""
    for number, (one, other) in enumerate(zip(first, second, strict=False)):
        if one != other:
            return f"line {number}: {one} is not {other}"
    return f"{len(first)} lines are not {len(second)}"


def unrepeatable(make: Make, lines: Sequence[Line]) -> Complaints:
    """The recorded events must draw the recorded commands from a fresh strategy."""
    return _retold(make(), lines)


def unpicklable(make: Make, lines: Sequence[Line], every: int) -> Complaints:
    """A copy through pickle, taken at any moment, must behave as the original."""
    strategy = make()
    for number, line in enumerate(lines):
        if number % every == every - 1:
            try:
                copied = pickle.loads(pickle.dumps(strategy))
            except (pickle.PicklingError, TypeError, AttributeError) as error:
                return [f"cannot be pickled: {error}"]
            if complaints := _retold(copied, lines[number:]):
                return complaints
        strategy.handle(line.event)
    return []


def _retold(strategy: Strategy, lines: Sequence[Line]) -> Complaints:
    for line in lines:
        answer = tuple(strategy.handle(line.event))
        if answer != line.commands:
            return [f"{line.event}: now {answer}, then {line.commands}"]
    return []


def played(run: HeapRun) -> Complaints:
    """Run it; what the ledger and the data service refuse is a complaint."""
    try:
        run.run()
    except (ProtocolError, RuntimeError) as error:
        return [str(error)]
    return []
