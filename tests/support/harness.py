"""The coordinator without processes: driven by hand (:class:`Rig`) or by a heap of events (:class:`HeapRun`).

Communication and updates take no time; a Compute of worker i takes ``seconds(i, order)``. Enough to hold gates to
worked numbers and to the laws; the virtual runtime is the real thing.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Sequence
from functools import partial
from itertools import count
from pathlib import Path
from typing import Any

import msgspec

from runtime.api import RunSpec
from runtime.config.instantiate import instantiate
from runtime.core import inputs
from runtime.core.coordinator import Coordinator
from runtime.core.job import (
    ApplyOrder,
    ComputeOrder,
    FragmentOrder,
    Job,
    PushOrder,
    ReplicateOrder,
    SendOrder,
    StepOrder,
    SumOrder,
)
from runtime.core.membership import Membership
from runtime.core.node_orders import (
    AllocateOrder,
    LaunchOrder,
    NodeOrder,
    RepartitionOrder,
    RestartOrder,
    RetireOrder,
    SuspendOrder,
)
from runtime.core.recovery import inputs as recovery
from strategies.protocol import Apply, Compute, Grad, NodeId, Strategy, Timings
from tests.support.answers import Answers, Line
from tests.support.faults import Crash, Fault, Outage, Preempted
from tests.support.recovering import Recovering
from tests.support.scores import Scores

Seconds = Callable[[int, ComputeOrder], float]
MAX_STEPS = 100_000
Outcome = Callable[[ComputeOrder], str]
"""What becomes of a Compute: ``ok``, ``nan`` (a gradient that is not finite) or ``failed``."""


def compute(*workers: int, num_samples: int = 1) -> list[Compute]:
    return [Compute(worker=worker, num_samples=num_samples) for worker in workers]


def apply(*grads: int) -> Apply:
    return Apply(grads=grads, weights=(1.0,) * len(grads))


def samples_of(order: ComputeOrder) -> int:
    """Of all its ranges."""
    return sum(work.samples for work in order.ranges)


def ends_of(order: ComputeOrder, took_s: float) -> tuple[float, ...]:
    """Of micro-batches that take equally long, all together ``took_s``, until time is up; none if nobody looks."""
    if order.within_s is None:
        return ()
    ends_s = [took_s * (place + 1) / order.accum for place in range(order.accum)]
    done = next((place for place, end_s in enumerate(ends_s, 1) if not order.goes_on(end_s)), order.accum)
    return tuple(ends_s[:done])


def make_job(**changes: Any) -> Job:
    """A job of 4 workers that ends by time."""
    fields: dict[str, Any] = {
        "num_workers": 4,
        "num_servers": 1,
        "num_samples": 100_000,
        "global_batch_samples": 4,
        "batches_per_shard": 1,
        "epochs": None,
        "epoch_overlap": False,
        "max_time_s": 40.0,
        "eval_every_s": None,
        "checkpoint_every_s": None,
        "seed": 0,
        "metric": "accuracy",
        "higher_is_better": True,
        "target": None,
        "stop_at_target": False,
        "lr": 1.0,
        "lr_at": lambda samples: 1.0,
    }
    return Job(**{**fields, **changes})


def make_run_spec(job: Job, strategy: Strategy, record: Any, run_dir: Path = Path("nowhere"), **more: Any) -> RunSpec:
    """Of a job without a backend; ``more`` are other fields, such as ``columns`` or ``transport``."""
    fields: dict[str, Any] = {
        "transport": "tcp",
        "backend_spec": {"_target_": "runtime.backends.none.NoBackend"},
        "task_spec": {
            "_target_": "workloads.ledger.SampleLedger",
            "num_samples": job.num_samples + job.validation_samples,
        },
        "optimizer": {"name": "tally", "lr": 1.0},
        "save_parameters_to": None,
        "tick": lambda t: None,
    }
    fields |= more
    built = {name: instantiate(fields[f"{name}_spec"], name) for name in ("backend", "task")}
    return RunSpec(job=job, strategy=strategy, record=record, run_dir=run_dir, **built, **fields)


class Puppet(Strategy):
    """Says nothing but what the test puts into its mouth (:meth:`Rig.say`); ``reply`` is said to every event."""

    def __init__(self, data: str = "dynamic", reply: Callable[[Any], Sequence[Any]] = lambda event: ()) -> None:
        self.data, self.reply = data, reply
        self.next: tuple[Any, ...] = ()

    def handle(self, event: Any) -> Sequence[Any]:
        said, self.next = self.next, ()
        return said or self.reply(event)


class Rig(Scores, Answers):
    """A Port and a Record that write down what they are asked; the test says what happens, a second after another.

    ``applied`` holds (t, order, gradients) of every update, ``effective`` those that no Restored has undone.
    """

    model_bytes: int | None = None
    """What ``Started`` says."""

    def __init__(self, strategy: Strategy, job: Job | None = None, **options: Any) -> None:
        held_out = strategy.validation_samples
        self.job = msgspec.structs.replace(job or make_job(), validation_samples=held_out)
        self.t = 0.0
        self.orders: dict[int, ComputeOrder] = {}
        self.grads: dict[int, Grad] = {}
        self.applied: list[tuple[float, ApplyOrder, list[Grad]]] = []
        self.effective: list[ApplyOrder] = []
        self.steps: list[StepOrder] = []
        self.averages: list[tuple[float, tuple[int, ...]]] = []
        self.pushes: list[tuple[float, PushOrder]] = []
        self.fragments: list[FragmentOrder] = []
        self.dropped: list[int] = []
        self.sent: list[tuple[float, SendOrder]] = []
        self.sums: list[SumOrder] = []
        self.replications: list[ReplicateOrder] = []
        self.forgotten: list[tuple[int, int]] = []
        self.released: list[tuple[int, int]] = []
        self.references, self.weighings = [], []
        self.timers: list[tuple[float, str]] = []
        self.evaluations: list[int] = []
        self.checkpoints: list[tuple[int, bytes]] = []
        self.restarts: list[tuple[float, str, float]] = []
        self.launches: list[tuple[float, LaunchOrder]] = []
        self.retired: list[tuple[float, str]] = []
        self.moves: list[tuple[float, tuple[tuple[str, float], ...]]] = []
        self.suspensions: list[float] = []
        self.allocations: list[tuple[float, str, float | None, float | None]] = []
        self.lines: list[Line] = []
        self.notes: list[tuple[float, str, dict[str, Any]]] = []
        options = {"disturb": lambda target, t: (0.0, 0.0), "stopwatch": lambda: 0.0, **options}
        members = Membership(self.job.start_layout)
        self.core = Coordinator(self.job, strategy, self, self, members=members, **options)
        self.stable = (0, self.core.snapshot())
        self._remember_grads()

    def _remember_grads(self) -> None:
        original = self.core.ledger.arrived

        def remember(grad: Grad) -> None:
            self.grads[grad.id] = grad
            original(grad)

        self.core.ledger.arrived = remember  # type: ignore[method-assign]
        transfers, noted = self.core.executor.transfers, self.core.executor.transfers.ready

        def hold(grad: Grad) -> None:  # members of sums never arrive by themselves
            self.grads[grad.id] = grad
            noted(grad)

        transfers.ready = hold  # type: ignore[method-assign]

    # ---- Port --------------------------------------------------------------------------------------------------------

    def compute(self, order: ComputeOrder) -> None:
        self.orders[order.grad_id] = order

    def apply(self, order: ApplyOrder) -> None:
        self.applied.append((self.t, order, [self.grads[grad] for grad in order.grads]))
        self.effective.append(order)

    def measured(self, ticket: int, sqr_norm: float, server: int = 0, t: float | None = None) -> None:
        """A server's part of the norm of an update."""
        self.core.receive(self.at(None) if t is None else t, inputs.NormPart(server, ticket, sqr_norm))

    def step_alone(self, order: StepOrder) -> None:
        self.steps.append(order)

    def average(self, workers: tuple[int, ...]) -> None:
        self.averages.append((self.t, workers))

    def push_half(self, order: PushOrder) -> None:
        self.pushes.append((self.t, order))

    def sum_fragment(self, order: FragmentOrder) -> None:
        self.fragments.append(order)

    def drop(self, grads: tuple[int, ...]) -> None:
        self.dropped += grads

    def send(self, order: SendOrder) -> None:
        self.sent.append((self.t, order))

    def send_sum(self, order: SumOrder) -> None:
        self.sums.append(order)

    def replicate(self, order: ReplicateOrder) -> None:
        self.replications.append(order)

    def release(self, worker: int, grads: tuple[int, ...]) -> None:
        self.released += [(worker, grad_id) for grad_id in grads]

    def forget(self, worker: int, grad_id: int) -> None:
        self.forgotten.append((worker, grad_id))

    def wake(self, at_s: float, tag: str) -> None:
        self.timers.append((at_s, tag))

    def evaluate(self, version: int, *, last: bool) -> None:
        self.evaluations.append(version)

    def checkpoint(self, version: int, state: bytes) -> None:
        self.checkpoints.append((version, state))
        self.stable = (version, state)

    def order_node(self, order: NodeOrder) -> None:
        match order:
            case RestartOrder(node, pending_s):
                self.restarts.append((self.t, node, pending_s))
            case LaunchOrder():
                self.launches.append((self.t, order))
            case RetireOrder(node):
                self.retired.append((self.t, node))
            case RepartitionOrder(shares):
                self.moves.append((self.t, shares))
            case SuspendOrder():
                self.suspensions.append(self.t)
            case AllocateOrder(node, cpu_cores, link_bytes_per_s):
                self.allocations.append((self.t, node, cpu_cores, link_bytes_per_s))

    def book(self, order: AllocateOrder) -> str | None:
        return None

    # ---- Record ------------------------------------------------------------------------------------------------------

    def event(self, t: float, event: Any, commands: Any, version: int, decide_us: float, state: object) -> None:
        self.lines.append(Line(event, tuple(commands), version, state))

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        self.notes.append((t, kind, fields))

    # ---- what happens ------------------------------------------------------------------------------------------------

    def at(self, t: float | None) -> float:
        """The time of what happens next: a second after the last, unless the test knows better."""
        self.t = self.t + 1.0 if t is None else t
        return self.t

    def start(self) -> Rig:
        aggregators = {f"aggregator:{number}": f"host:{number}" for number in range(self.core.strategy.aggregators)}
        self.core.receive(0.0, inputs.JobStarted(model_bytes=self.model_bytes, aggregators=aggregators))
        return self

    def say(self, *commands: Any) -> None:
        assert isinstance(self.core.strategy, Puppet)
        self.core.strategy.next = commands
        self.core.receive(self.at(None), inputs.TimerFired("strategy:say"))

    def arrive(
        self, worker: int, t: float | None = None, *, finite: bool = True, compute_s: float = 1.0, send_s: float = 0.0
    ) -> None:
        grad_id = self.core.ledger.busy[worker].grad_id
        ends_s = ends_of(self.orders[grad_id], compute_s)
        timings = Timings(compute_s=ends_s[-1] if ends_s else compute_s, send_s=send_s)
        arrived = inputs.GradientArrived(grad_id, worker, timings, loss=1.0, finite=finite, ends_s=ends_s)
        self.core.receive(self.at(t), arrived)

    def ready(self, worker: int, t: float | None = None, *, num_bytes: int = 100, compute_s: float = 1.0) -> None:
        grad_id, timings = self.core.ledger.busy[worker].grad_id, Timings(compute_s=compute_s)
        self.core.receive(self.at(t), inputs.GradientReady(grad_id, worker, timings, num_bytes, loss=1.0))

    def fail(self, worker: int, t: float | None = None, *, retryable: bool = True) -> None:
        self.core.receive(self.at(t), inputs.WorkerFailed(worker, "out of luck", retryable))

    def lose(self, worker: int, t: float | None = None, *, restarting: bool = True) -> None:
        self.core.receive(self.at(t), inputs.WorkerLost(worker, 0, "killed", restarting))

    def join(self, worker: int, t: float | None = None) -> None:
        self.core.receive(self.at(t), inputs.WorkerJoined(worker, self.core.members.members[worker].incarnation))

    def lose_server(
        self, t: float | None = None, server: int = 0, incarnation: int = 0, reason: str = "killed"
    ) -> None:
        """The parameters are gone."""
        self.server_is_lost(self.at(t), inputs.ServerLost(server, incarnation, reason))

    def server_is_lost(self, t: float, news: inputs.ServerLost) -> None:
        self.core.receive(t, news)

    def restore(self, t: float | None = None, shares: tuple[tuple[NodeId, float], ...] = ()) -> None:
        """The parameters are those of the last checkpoint again; ``shares``: other servers hold them now."""
        version, state = self.stable
        self.effective = [order for order in self.effective if order.version <= version]
        if shares:
            self.core.members.divide(shares)
        self.core.receive(self.at(t), inputs.Restored(version, state))


def puppet_rig(num_workers: int = 3, num_samples: int = 2, epochs: int | None = 2, **changes: Any) -> Rig:
    """A puppet's job that has begun. Epochs of two samples, one to a shard: a third worker finds no data."""
    size = {"num_workers": num_workers, "global_batch_samples": num_workers, "num_samples": num_samples}
    return Rig(Puppet(), make_job(**size, epochs=epochs, **changes)).start()


class HeapRun(Recovering, Rig):
    """A whole job on a virtual clock, in milliseconds, with the ``faults`` of a plan."""

    send_s: float = 0.25
    """Seconds for which a gradient that was held travels; nothing is shared."""
    grad_bytes: int = 100

    def __init__(
        self,
        strategy: Strategy,
        job: Job,
        seconds: Seconds | Sequence[float],
        faults: Sequence[Fault] = (),
        outcome: Outcome = lambda order: "ok",
        launch_s: float = 1.0,
        **options: Any,
    ) -> None:
        self.launch_s = launch_s
        self.took_s: dict[int, float] = {}
        """Of the gradients that are held, or on their way."""
        self.ends_s: dict[int, tuple[float, ...]] = {}
        super().__init__(strategy, job, **options)
        self.seconds: Seconds = seconds if callable(seconds) else lambda worker, _: seconds[worker]
        self.outcome = outcome
        self.heap: list[tuple[float, int, int, Callable[[float], None]]] = []
        self.sequence = count()
        self.happened: list[Fault] = []
        self.everybody_is_there()
        for fault in faults:
            self.push(fault.at_s, 0, self._striking(fault))

    # ---- Port --------------------------------------------------------------------------------------------------------

    def compute(self, order: ComputeOrder) -> None:
        super().compute(order)
        took = self.seconds(order.worker, order)
        if ends_s := ends_of(order, took):
            self.ends_s[order.grad_id], took = ends_s, ends_s[-1]
        self.push(self.t + took, 1, lambda t: self._computed(t, order, took))

    def apply(self, order: ApplyOrder) -> None:
        super().apply(order)
        if order.measure is not None:
            for node in self.core.members.layout.holders or (NodeId.server(0),):
                self.push(self.t, 0, partial(self._norm_part, order.measure, node.number))

    def _norm_part(self, ticket: int, server: int, t: float) -> None:
        """Half of any unit, from each server."""
        self.measured(ticket, 0.5, server, t)

    def wake(self, at_s: float, tag: str) -> None:
        # a deadline comes after whatever arrives at the very same time
        self.push(at_s, 2, lambda t: self.core.receive(t, inputs.TimerFired(tag)))

    def evaluate(self, version: int, *, last: bool) -> None:
        self.core.receive(self.t, inputs.Evaluated(version, self.t, {}))

    def checkpoint(self, version: int, state: bytes) -> None:
        super().checkpoint(version, state)
        self.happen(self.t, recovery.Save(version, state))

    def order_node(self, order: NodeOrder) -> None:
        super().order_node(order)
        match order:
            case RestartOrder(node, pending_s):
                self.restart_node(node, pending_s)
            case LaunchOrder(node=node, pending_s=pending_s):
                self.happen(self.t, recovery.Admit(NodeId.parse(node), pending_s))
            case RetireOrder(node, reason):
                self._retire(recovery.Dismiss(NodeId.parse(node), reason))
            case RepartitionOrder(shares):
                self._divide(tuple((NodeId.parse(server), share) for server, share in shares))
            case SuspendOrder():
                self.push(self.t, 0, lambda t: self.happen(t, recovery.Suspend()))

    def _retire(self, dismissed: recovery.Dismiss) -> None:
        if self.core.course.halted:  # the others have rolled back only when the strategy has answered
            self.push(self.t, 0, lambda t: self.happen(t, dismissed))
        else:
            self.happen(self.t, dismissed)

    def _divide(self, parts: tuple[tuple[NodeId, float], ...]) -> None:
        generation = self.recovery.state.generation

        def divide(t: float) -> None:
            if generation == self.recovery.state.generation:  # else a loss came first
                self.happen(t, recovery.Repartition(parts))

        self.push(self.t, 0, divide)

    def _computed(self, t: float, order: ComputeOrder, took: float) -> None:
        if self.core.members.members[order.worker].incarnation != order.incarnation:
            return
        outcome = self.outcome(order)
        if outcome == "failed" and order.grad_id in {work.grad_id for work in self.core.ledger.busy.values()}:
            self.core.receive(t, inputs.WorkerFailed(order.worker, "out of luck", retryable=True))
        elif order.holds and outcome == "ok":
            self.took_s[order.grad_id] = took
            timings = Timings(compute_s=took)
            held = inputs.GradientReady(order.grad_id, order.worker, timings, self.grad_bytes, 1.0, sqr_norm=1.0)
            self.core.receive(t, held)
        elif outcome != "failed":
            about = (order.grad_id, order.worker, Timings(compute_s=took), 1.0, 1.0, outcome == "ok")
            self.core.receive(t, inputs.GradientArrived(*about, ends_s=self.ends_s.pop(order.grad_id, ())))

    def send(self, order: SendOrder) -> None:
        super().send(order)
        self.push(self.t + self.send_s, 1, partial(self._pushed, order))

    def send_sum(self, order: SumOrder) -> None:
        super().send_sum(order)
        self.push(self.t + 2 * self.send_s, 1, partial(self._summed, order))

    def _summed(self, order: SumOrder, t: float) -> None:
        """Whoever is lost by then was lost before the sum was sent, or after, by turns."""
        here = [one for one in order.members if self.core.members.members[one.worker].incarnation == one.incarnation]
        members = tuple(one.grad_id for one in (here if order.grad_id % 2 else order.members))
        if here:
            arrived = inputs.GradientArrived(
                order.grad_id, here[0].worker, Timings(send_s=self.send_s), members=members
            )
            self.core.receive(t, arrived)

    def _pushed(self, order: SendOrder, t: float) -> None:
        timings = Timings(compute_s=self.took_s[order.grad_id], send_s=self.send_s)
        if self.core.members.members[order.worker].incarnation == order.incarnation:
            self.core.receive(t, inputs.GradientArrived(order.grad_id, order.worker, timings, 1.0, sqr_norm=1.0))

    # ---- faults ------------------------------------------------------------------------------------------------------

    def _striking(self, fault: Fault) -> Callable[[float], None]:
        if isinstance(fault, Preempted):
            return lambda t: self._preempt(t, fault)
        return lambda t: self._crash(t, fault) if isinstance(fault, Crash) else self._outage(t, fault)

    def _preempt(self, t: float, fault: Preempted) -> None:
        self.away_for_s = fault.away_s
        self.happened.append(fault)
        self.core.receive(t, inputs.PreemptionOrdered(fault.grace_s))

    def _crash(self, t: float, fault: Crash) -> None:
        """The last worker never leaves."""
        members = self.core.members.members
        staying = [worker for worker, member in members.items() if member.state != "left"]
        back_s = None if fault.back_after_s is None else t + fault.back_after_s
        if (back_s is not None or staying != [fault.worker]) and self.kill(t, ("worker", fault.worker), back_s):
            self.happened.append(fault)

    def _outage(self, t: float, fault: Outage) -> None:
        """Lose the first running server: one that is being restarted has no process to lose."""
        if any(self.kill(t, ("server", server), t + fault.down_s) for server in range(self.job.num_servers)):
            self.happened.append(fault)

    # ---- the clock ---------------------------------------------------------------------------------------------------

    def push(self, t: float, priority: int, call: Callable[[float], None]) -> None:
        heapq.heappush(self.heap, (t, priority, next(self.sequence), call))

    def step(self) -> bool:
        """One event; False when the job is over or nothing is left to happen."""
        if self.core.status or not self.heap:
            return False
        self.t, _, _, call = heapq.heappop(self.heap)
        call(self.t)
        return True

    def run(self) -> HeapRun:
        """To the end, or until it is plain that there is none."""
        self.start()
        for _ in range(MAX_STEPS):
            if not self.step():
                return self
        raise RuntimeError(f"no end after {MAX_STEPS} steps, at t={self.t:g}")
