"""The laws of the protocol and of the data service, checked on what a run left behind.

None of this trusts the ledger or the shards: the audit replays the record with books of its own. Every checker returns
complaints (none when all is well), and every one of them has a test in which it finds something.
"""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Sequence

import msgspec

from runtime.core.job import ComputeOrder
from strategies.protocol import Apply, NodeId, ProtocolError, Send, Strategy
from tests.support.answers import Line
from tests.support.harness import HeapRun
from tests.support.invariants import Book, problems
from tests.support.invariants import Line as Row

Complaints = list[str]
Sample = tuple[int, int, int]
Make = Callable[[], Strategy]


class Audit(Book):
    """The books of any record, and what only a job on the heap promises.

    ``halts_on_loss``: the loss of a worker halts everything, too, unless it was away. ``holds``: workers hold their
    gradients until they are sent. Of nodes: numbers are given once, and who has left for good does not come back.
    """

    def __init__(self, *, halts_on_loss: bool = False, holds: bool = False) -> None:
        super().__init__()
        self.halts_on_loss, self.holds = halts_on_loss, holds
        self.given: dict[int, int] = {}
        """Worker -> the version at which its Compute was given; one that is held starts later, on newer parameters."""
        self.pending: set[int] = set()
        """Workers that restart elsewhere."""
        self.next = {"worker": 0, "server": 0}
        self.awaited: set[NodeId] = set()
        """Launched, and nothing was heard of them; those of an operator are in nobody's books before they join."""
        self.left: set[NodeId] = set()
        self.moving: tuple[int, ...] | None = None
        """The servers of a repartition that nothing has come in between."""

    # ---- events ------------------------------------------------------------------------------------------------------

    def on_started(self, event: Row, seq: int) -> None:
        super().on_started(event, seq)
        self.next = {"worker": len(event["workers"]), "server": event["num_servers"]}

    def on_ready(self, event: Row, seq: int) -> None:
        grad = event["grad"]["id"]
        self.check(self.holds, f"seq {seq}: gradient {grad} is held, but nobody sends it")
        known = self.held.keys() | self.travelling.keys() | self.seen
        self.check(grad not in known, f"seq {seq}: gradient {grad} is held again")
        super().on_ready(event, seq)

    def on_arrived(self, event: Row, seq: int) -> None:
        grad = event["grad"]
        members = grad.get("members") or [grad["id"]]
        senders = [self.travelling[member] for member in members if member in self.travelling] or [grad["worker"]]
        given = min(self.given.get(worker, self.version) for worker in senders)
        self.check(given <= grad["version"], f"seq {seq}: its Compute was given at version {given}: {grad}")
        sent = not self.holds or not grad["samples"] or self.travelling.keys() >= set(members)
        self.check(sent, f"seq {seq}: gradient {grad['id']} arrives although it was not sent")
        super().on_arrived(event, seq)

    def on_lost(self, event: Row, seq: int) -> None:
        worker = event["worker"]
        expected = self.here | self.idle.keys() | self.pending
        self.check(worker in expected, f"seq {seq}: worker {worker} was lost, but was not there")
        self.going_back |= self.halts_on_loss and worker in self.here
        if worker not in self.here:
            self.pending.discard(worker)  # it has been given up
        if not event["restarting"] and event["cause"] != "restarted":
            self.left.add(NodeId.worker(worker))
        self.moving = None  # with failover=checkpoint all roll back
        super().on_lost(event, seq)

    def on_joined(self, event: Row, seq: int) -> None:
        self.pending.discard(event["worker"])
        self.arrives(NodeId.worker(event["worker"]), seq)
        super().on_joined(event, seq)

    def on_serverjoined(self, event: Row, seq: int) -> None:
        self.arrives(NodeId.server(event["server"]), seq)
        super().on_serverjoined(event, seq)

    def arrives(self, node: NodeId, seq: int) -> None:
        self.check(node not in self.left, f"seq {seq}: {node} has left for good")
        self.awaited.discard(node)
        self.next[node.role] = max(self.next[node.role], node.number + 1)

    def on_denied(self, event: Row, seq: int) -> None:
        """A present node stays as it is."""
        node = NodeId.parse(event["node"])
        self.check(node not in self.left, f"seq {seq}: {node} has left for good")
        if node in self.awaited:
            self.awaited.discard(node)
            if "the number is taken" not in event["reason"]:  # else by an operator's newcomer, which may still come
                self.left.add(node)

    def on_serverlost(self, event: Row, seq: int) -> None:
        if event.get("holding", True) or event["server"] in {*(self.moving or ()), *self.holders}:
            self.moving = None
        if not event.get("holding", True):
            self.left.add(NodeId.server(event["server"]))
        super().on_serverlost(event, seq)

    def on_restored(self, event: Row, seq: int) -> None:
        if not self.halted:  # a preemption, of which there is no event
            self.halt()
        for worker in event["workers"]:
            self.arrives(NodeId.worker(worker), seq)
        moved = self.moving is None or tuple(event["servers"]) == self.moving
        self.check(moved, f"seq {seq}: {self.moving} were to hold the parameters, {event['servers']} do")
        self.moving = None
        super().on_restored(event, seq)
        self.pending -= self.here

    # ---- commands ----------------------------------------------------------------------------------------------------

    def obey(self, command: Row, seq: int) -> bool:
        match command["type"]:
            case "Compute":
                self.given[command["worker"]] = self.version
            case "Apply":
                fits = len(command["grads"]) == len(command["weights"]) > 0
                self.check(fits, f"seq {seq}: weights do not match: {command}")
            case "Launch":
                node = NodeId.parse(command["node"])
                self.check(node.number >= self.next[node.role], f"seq {seq}: the number of {node} was given before")
                self.next[node.role] = node.number + 1
                self.awaited.add(node)
            case "Retire":
                self.retired(NodeId.parse(command["node"]))
            case "Restart":
                self.restarted(NodeId.parse(command["node"]), seq)
        over = super().obey(command, seq)
        if command["type"] == "Repartition":
            self.moving = tuple(command["servers"])
        return over

    def retired(self, node: NodeId) -> None:
        """Nothing follows for one that is awaited, or for a server: it has left at once."""
        if node in self.awaited or (node.role == "server" and node.number not in self.holders):
            self.awaited.discard(node)
            self.left.add(node)

    def restarted(self, node: NodeId, seq: int) -> None:
        there = self.here if node.role == "worker" else self.holders
        self.check(node.number in there, f"seq {seq}: {node} is to restart, but is not there, or holds nothing")
        if node.role == "worker":
            self.pending.add(node.number)
            self.going_back |= self.halts_on_loss  # so that its orders halt everything


def unlawful(run: HeapRun) -> Complaints:
    """Whatever the protocol forbids."""
    audit = Audit(halts_on_loss=run.job.halts_on_loss, holds=Send in run.core.strategy.needs)
    return problems([plain(line, number) for number, line in enumerate(run.lines)], audit)


def plain(line: Line, number: int) -> Row:
    """As a record on disk has it."""
    event, commands = msgspec.to_builtins((line.event, line.commands))
    return {
        "seq": number,
        "t": line.event.t,
        "kind": "event",
        "event": event,
        "commands": commands,
        "version": line.version,
    }


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
        used = [samples_of(run.orders[grad])[: run.grads[grad].samples] for grad in update.grads]
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
