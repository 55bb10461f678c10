"""The coordinator: events to the strategy, its commands to the ledger, the data service and the runtime (pure).

Both runtimes drive this one object: they pass it inputs (:mod:`runtime.core.inputs`), it answers through a
:class:`runtime.core.job.Port`. It knows no clock and no socket; ``stopwatch`` only measures what a decision cost.

The :class:`runtime.core.executor.Executor` carries out what a command does to gradients and data, the
:class:`runtime.core.dialogue.Dialogue` orders events and answers. A Compute that is starved of data ends as an arrival
of zero samples when nothing in progress could bring any: so a barrier at the end of an epoch does not hang, and
an asynchronous worker that has finished its part idles instead of spinning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import assert_never

import msgspec

from runtime.core import inputs
from runtime.core.commands import Commands
from runtime.core.course import Course
from runtime.core.dialogue import Dialogue
from runtime.core.evaluations import Evaluations
from runtime.core.executor import Disturb, Executor, LoaderFor
from runtime.core.job import Job, Port, RecordSink, Status
from runtime.core.ledger import Order
from runtime.core.membership import Membership
from runtime.core.missing import Missing
from runtime.core.preemption import Preemption
from runtime.core.reservations import Alone, Reservations
from runtime.core.scheduling import ConstantPending, Scheduler
from runtime.core.stuck import Promised, Watch
from strategies.protocol import (
    AGGREGATOR,
    AnyEvent,
    Arrived,
    Evaluated,
    Failed,
    Joined,
    Measured,
    NodeId,
    Observed,
    Ready,
    Replicated,
    Restart,
    Restored,
    Scored,
    Send,
    ServerJoined,
    ServerLost,
    Started,
    Strategy,
    Updated,
    Woke,
)

MAX_NONFINITE = 3
"""Non-finite gradients in a row of one worker after which its failure is not retryable."""
ROLLED_BACK = "all begin again from one version"


class Coordinator:
    """Drives one strategy through one job.

    ``status`` is None while the job runs; then ``reason`` says why it has ended so.
    """

    def __init__(
        self,
        job: Job,
        strategy: Strategy,
        port: Port,
        record: RecordSink,
        *,
        members: Membership,
        disturb: Disturb,
        loader_for: LoaderFor = lambda worker, t: 0.0,
        stopwatch: Callable[[], float],
        scheduler: Scheduler | None = None,
        place_of: Callable[[str], str | None] = lambda node: None,
        reservations: Reservations | None = None,
    ) -> None:
        self.job, self.strategy, self.port, self.record = job, strategy, port, record
        self.scheduler, self.place_of = scheduler or ConstantPending(), place_of
        self.course = Course()
        holds = Send in strategy.needs
        self.executor = Executor(
            job,
            strategy.data,
            members,
            port,
            record,
            disturb,
            self._epochs_done,
            holds=holds,
            outer=strategy.outer,
            meanwhile=strategy.sums_meanwhile,
            loader_for=loader_for,
        )
        self.ledger, self.shards, self.members = self.executor.ledger, self.executor.shards, members
        self.cut = self.executor.cut
        self.evaluations = Evaluations(job, port, self.course)
        self.promised = Promised()
        self.watch = Watch(strategy, self.executor, self.course, record, self.evaluations, self.promised)
        self.commands = Commands(
            job,
            port,
            record,
            self.executor,
            self.course,
            self.evaluations,
            self.promised,
            self.scheduler,
            reservations or Alone(),
            self._tell,
        )
        self.elastic = self.commands.elastic
        self.dialogue = Dialogue(strategy, self.executor, self.course, record, stopwatch, self.commands.carry_out)
        self.preemption = Preemption(port, record, self.course, self.dialogue, self.commands.store_and_halt)
        self.nonfinite: Counter[int] = Counter()
        self.missing = Missing()

    @property
    def version(self) -> int:
        return self.executor.version

    @property
    def status(self) -> Status | None:
        """The way in which the job has ended; None while it runs."""
        return self.course.status

    @property
    def reason(self) -> str:
        """The reason for the job's end."""
        return self.course.reason

    @property
    def finished_s(self) -> float:
        """The time at which the job ended."""
        return self.course.finished_s

    @property
    def strategy_state(self) -> dict[str, float | int | str]:
        """The strategy's last logged state."""
        return self.dialogue.state

    def snapshot(self) -> bytes:
        """The data service's state as a checkpoint carries it."""
        return self.commands.snapshot()

    def _tell(self, event: AnyEvent) -> None:
        self.dialogue.tell(event)

    def finish(self, t: float, status: Status, reason: str) -> None:
        """End the job (the first reason counts)."""
        self.course.finish(t, status, reason)

    # ---- inputs of a runtime -----------------------------------------------------------------------------------------

    def receive(self, t: float, given: inputs.AnyInput) -> None:  # noqa: C901  (a table)
        """Process an input at time ``t``. Inputs after the end of the job have no effect."""
        if self.course.status:
            self._on_ended(t, given)
            return
        match given:
            case inputs.GradientArrived():
                self._gradient_arrived(t, given)
            case inputs.GradientReady():
                self._gradient_ready(t, given)
            case inputs.Replicated():
                self._on_replicated(t, given)
            case inputs.TimerFired():
                self._timer_fired(t, given.tag)
            case inputs.ScorePart():
                self._score_part(t, given)
            case inputs.NormPart():
                self._norm_part(t, given)
            case inputs.ReferenceReady():
                self.executor.scoring.reference_ready(given.number)
            case inputs.Observed():
                self._on_observed(t, given)
            case inputs.ServerBusy():
                self._server_busy(t, given)
            case inputs.Evaluated():
                self._on_evaluated(t, given)
            case inputs.WorkerFailed():
                self._worker_failed(t, given)
            case inputs.WorkerLost():
                self._worker_lost(t, given)
            case inputs.WorkerJoined():
                self._worker_joined(t, given)
            case inputs.ServerJoined():
                self._server_joined(t, given)
            case inputs.ServerLost():
                self._server_lost(t, given)
            case inputs.Operated():
                self.commands.operated(self.course.advance(t), given.change, given.node)
            case inputs.RolledBack():
                self.commands.halt(t, ROLLED_BACK)
            case inputs.Restored():
                self._on_restored(t, given)
            case inputs.AuxiliaryLost():
                self._auxiliary_lost(t, given)
            case inputs.AuxiliaryJoined():
                self._auxiliary_joined(given)
            case inputs.JobStarted():
                self._job_started(given)
            case inputs.PreemptionOrdered():
                self._preempt(t, given)
            case inputs.Interrupted():
                self.finish(t, "interrupted", given.reason)
            case _:
                assert_never(given)
        if self.preemption.due:
            self.preemption.settle(self.course.advance(t), self.version)

    def _on_ended(self, t: float, given: inputs.AnyInput) -> None:
        """Process an input after the end of the job: it only ends pending work of its kind."""
        if isinstance(given, inputs.Evaluated):
            self.evaluations.under_way = False
        elif isinstance(given, inputs.ServerBusy):
            self._note_busy(t, given)

    def _job_started(self, given: inputs.JobStarted) -> None:
        for worker in self.members.members:
            self.members.begin(worker, given.incarnations.get(worker, 0))
        self.executor.note_layout(0.0)
        self.executor.transfers.aggregators = frozenset(given.aggregators)
        self.executor.replication.incarnations.update(given.replicas)
        self.record.note(0.0, "EpochStarted", epoch=0)
        for every, tag in ((self.job.eval_every_s, "evaluate"), (self.job.checkpoint_every_s, "checkpoint")):
            if every:
                self.port.wake(every, f"runtime:{tag}")
        self.port.wake(self.job.max_time_s, "runtime:limit")
        self.commands.evaluate()
        self._tell(
            Started(
                t=0.0,
                workers=self.members.here(),
                batch_samples=self.executor.batches,
                num_servers=len(self.members.layout.holders),
                total_samples=self.job.total_samples,
                lr=self.job.lr,
                model_bytes=given.model_bytes,
                places=self._places() | {name: host for name, host in given.aggregators.items() if host is not None},
                links=given.links,
                replicas=tuple(self.executor.replication.followed),
                step=given.step,
                momentum=given.momentum,
            )
        )
        if Restart in self.strategy.needs:
            self.commands.quote(0.0)

    def _places(self) -> dict[str, str]:
        found = {str(node): self.place_of(str(node)) for node in self.members.layout.nodes}
        return {node: place for node, place in found.items() if place is not None}

    # ---- of workers --------------------------------------------------------------------------------------------------

    def _gradient_ready(self, t: float, given: inputs.GradientReady) -> None:
        """Its worker holds it; reports of work that is no longer outstanding are ignored here, too."""
        order = self.ledger.busy.get(given.worker)
        if order is None or order.grad_id != given.grad_id:
            return
        self.nonfinite[given.worker] = 0
        grad = self.executor.grad_of(order)
        self.executor.transfers.ready(grad)
        self.executor.replication.ready(grad)
        fields = msgspec.structs.asdict(given)
        about = {name: fields[name] for name in ("num_bytes", "loss", "sqr_norm")}
        self._tell(Ready(t=t, grad=grad, timings=order.told(given.timings), **about))

    def _gradient_arrived(self, t: float, given: inputs.GradientArrived) -> None:
        """Reports of work that is no longer outstanding are ignored."""
        worker = given.worker
        if given.members:
            self._sum_arrived(t, given)
            return
        order = self.ledger.busy.get(worker)
        if order is None or order.grad_id != given.grad_id:
            return
        del self.ledger.busy[worker]
        if not given.finite:
            self._nonfinite(t, order)
            return
        self.nonfinite[worker] = 0
        if given.ends_s:
            order = self.executor.in_time(self.course.advance(t), order, given.ends_s)
        grad, timings = self.executor.arrived(order), order.told(given.timings)
        self._tell(Arrived(t=t, grad=grad, timings=timings, loss=given.loss, sqr_norm=given.sqr_norm))

    def _sum_arrived(self, t: float, given: inputs.GradientArrived) -> None:
        """A sum is used whole, or not at all: one with a gradient whose samples are back in the queue is discarded."""
        self.executor.transfers.sums.pop(given.grad_id, None)
        orders = self.ledger.busy_with(given.members)
        if len(orders) == len(given.members):
            grad = self.executor.summed(given.grad_id, orders)
            self._tell(Arrived(t=t, grad=grad, timings=given.timings))
            return
        self.port.drop((given.grad_id,))
        self._sum_lost(t, orders, "another gradient of its sum is lost")

    def _sum_lost(self, t: float, orders: list[Order], reason: str) -> None:
        """Nobody gets these gradients of a sum: their samples are computed again."""
        t = self.course.advance(t)
        for order in orders:
            self.ledger.end(order.worker)
            self.executor.iterations[order.worker] += 1
            self.executor.give_back(t, order, to_holder=False, reason=reason)
        for order in orders:
            self._tell(Failed(t=t, worker=order.worker, reason=reason))

    def _nonfinite(self, t: float, order: Order) -> None:
        t, worker = self.course.advance(t), order.worker
        self.nonfinite[worker] += 1
        self.executor.iterations[worker] += 1
        self.record.note(t, "Nonfinite", worker=worker, grad=order.grad_id)
        self.executor.give_back(t, order, to_holder=False, reason="gradient is not finite")
        retryable = self.nonfinite[worker] < MAX_NONFINITE
        reason = "gradient is not finite" + ("" if retryable else f", {MAX_NONFINITE} times in a row")
        self._tell(Failed(t=t, worker=worker, reason=reason, retryable=retryable))

    def _worker_failed(self, t: float, given: inputs.WorkerFailed) -> None:
        order = self.ledger.end(given.worker)
        if order is None:
            return
        t = self.course.advance(t)
        self.executor.give_back(t, order, to_holder=True, reason=given.reason)
        self._tell(Failed(t=t, worker=given.worker, reason=given.reason, retryable=given.retryable))

    def _worker_lost(self, t: float, given: inputs.WorkerLost) -> None:
        """A worker's process is lost, or fenced because it no longer answers."""
        t, node, restarting = self.course.advance(t), NodeId.worker(given.worker), given.restarting
        if node in self.members.awaited:
            self.elastic.died_early(t, node, given.reason, restarting=restarting)
        else:
            self.missing.lost(t, node, given.cause)
            self.commands.lose(t, given.worker, given.reason, given.cause, restarting=restarting)

    def _worker_joined(self, t: float, given: inputs.WorkerJoined) -> None:
        """A restarted worker is connected to all servers."""
        worker, incarnation = given.worker, given.incarnation
        joined = self.members.joined(worker, incarnation)
        if joined:
            self.missing.back(NodeId.worker(worker))
            self.members.awaited.discard(NodeId.worker(worker))
        if joined and not self.course.halted:
            self.executor.joined(t, worker)
            place = self.place_of(str(NodeId.worker(worker)))
            self._tell(Joined(t=t, worker=worker, incarnation=incarnation, place=place))

    # ---- recovery ----------------------------------------------------------------------------------------------------

    def _server_lost(self, t: float, given: inputs.ServerLost) -> None:
        """A server is lost, with every version since the last checkpoint if it held parameters."""
        if given.holding:
            self.missing.lost(self.course.advance(t), NodeId.server(given.server), given.cause)
            self.commands.void()
            given = self.elastic.explained(given)
        elif self.job.num_replicas:
            if not self.executor.replication.lost(given.server):
                return
        elif not self.elastic.server_left(self.course.advance(t), NodeId.server(given.server), given.reason):
            return
        self._tell(ServerLost(t=t, **msgspec.structs.asdict(given)))

    def _server_joined(self, t: float, given: inputs.ServerJoined) -> None:
        """A server that was launched is there, and holds nothing."""
        node = NodeId.server(given.server)
        if self.job.num_replicas:
            self.executor.replication.joined(given.server, given.incarnation)
            self._replica_joined(t, given.server)
            return
        self.elastic.server_joined(t, node, given.incarnation, self.place_of(str(node)))

    def _replica_joined(self, t: float, server: int) -> None:
        """It gets a copy, if the parameters are anywhere at present."""
        if not self.course.halted:
            incarnation = self.executor.replication.incarnations[server]
            place = self.place_of(str(NodeId.server(server)))
            self._tell(ServerJoined(t=t, server=server, incarnation=incarnation, place=place))

    def _on_replicated(self, t: float, given: inputs.Replicated) -> None:
        if not self.course.halted and self._has_followed(given):
            self._tell(Replicated(t=t, server=given.server, version=given.version, grad=given.grad_id))

    def _has_followed(self, given: inputs.Replicated) -> bool:
        return self.executor.replication.replicated(given.server, given.version, given.grad_id)

    def _on_restored(self, t: float, given: inputs.Restored) -> None:
        """All servers hold the checkpoint that was taken with this state, and all workers are idle."""
        assert given.state is not None, "the runtime adds the state of the data to a version that replicas held"
        self.course.halted = False
        self.executor.version = given.version
        self.executor.note_layout(self.course.advance(t))
        self.shards.load_state(msgspec.json.decode(given.state))
        for worker, member in self.members.members.items():
            if member.state in ("left", "pending"):
                self.shards.leave(worker)
            else:
                self.shards.back(worker)
        servers = tuple(server.number for server in self.members.layout.holders)
        self._look_who_is_missing()
        self.preemption.restored(self.course.t, self.job.max_time_s, self._places())
        for server in servers:
            self.executor.replication.lost(server)
        self._tell(Restored(t=t, version=given.version, workers=self.members.here(), servers=servers))
        for replica in tuple(self.executor.replication.followed):
            self._replica_joined(self.course.t, replica)
        self.commands.restored(t)

    def _preempt(self, t: float, given: inputs.PreemptionOrdered) -> None:
        """The cluster takes the job's places; gradients that wait to be used are in progress, too."""
        ledger = self.ledger
        works = bool(ledger.busy or ledger.starved or ledger.grads or self.executor.scoring.asked)
        self.preemption.order(self.course.advance(t), given.grace_s, works=works)

    # ---- measurements ------------------------------------------------------------------------------------------------

    def _on_evaluated(self, t: float, given: inputs.Evaluated) -> None:
        self.evaluations.under_way = False
        if given.metrics:
            self.promised.scored = given.version
            self._tell(Evaluated(t=t, version=given.version, asked_s=given.asked_s, metrics=given.metrics))
            self.evaluations.judge(t, given.metrics)

    def _score_part(self, t: float, given: inputs.ScorePart) -> None:
        scored = self.executor.scoring.score_parts(given.server, given.grad_id, given.reference, given.part)
        if scored is not None:
            self._tell(Scored(t=t, grad=scored[0], ref_version=scored[1], **scored[2]._asdict()))

    def _norm_part(self, t: float, given: inputs.NormPart) -> None:
        if (measured := self.executor.measuring.part(given.server, given.ticket, given.sqr_norm)) is not None:
            self._tell(Measured(t=t, version=measured[0], sqr_norm=measured[1]))

    def _on_observed(self, t: float, given: inputs.Observed) -> None:
        if not self.course.halted:
            self._tell(Observed(t=t, period_s=given.period_s, nodes=given.nodes))

    def _server_busy(self, t: float, given: inputs.ServerBusy) -> None:
        if self.strategy.watches_servers and not self.course.halted:
            self._tell(Updated(t=t, **msgspec.structs.asdict(given)))
        else:
            self._note_busy(t, given)

    def _note_busy(self, t: float, given: inputs.ServerBusy) -> None:
        self.record.note(t, "Updated", **msgspec.structs.asdict(given))

    def _auxiliary_lost(self, t: float, given: inputs.AuxiliaryLost) -> None:
        """A pending evaluation is not answered; a pending reference is ordered again when a scorer joins.

        Gradients that an aggregator has not sent on are lost with it.
        """
        if given.role == "evaluator":
            self.evaluations.under_way = False
        elif given.role == AGGREGATOR:
            name = str(NodeId.aggregator(given.number))
            for made in self.executor.transfers.lost(name):
                self.port.drop((made.grad_id,))  # some servers may have it
                orders = self.ledger.busy_with(tuple([member.grad_id for member in made.members]))
                self._sum_lost(t, orders, f"{name} is lost")

    def _auxiliary_joined(self, given: inputs.AuxiliaryJoined) -> None:
        """Order its predecessor's pending work from the new task."""
        if given.role == "scorer":
            self.executor.scoring.repeat()
        elif given.role == AGGREGATOR:
            self.executor.transfers.joined(str(NodeId.aggregator(given.number)))

    # ---- timers ------------------------------------------------------------------------------------------------------

    def _timer_fired(self, t: float, tag: str) -> None:
        owner, _, name = tag.partition(":")
        if owner == "strategy":
            self.promised.timers = max(0, self.promised.timers - 1)
            self._tell(Woke(t=t, tag=name))
        elif self.preemption.holds_back(t, name, self.job.max_time_s):
            return
        elif name == "limit" and self.job.stuck_after_s is not None and not self.watch.awaits():
            self.watch.declare(t)
        elif name == "limit":
            self._time_is_up(t)
        elif name.startswith("evict:"):
            self.commands.evicted(self.course.advance(t), name.removeprefix("evict:"))
        elif name == "scheduling":
            self.commands.quote(self.course.advance(t))
        elif name == "evaluate" and self.job.eval_every_s:
            self.course.advance(t)
            self.commands.evaluate()
            self.port.wake(t + self.job.eval_every_s, tag)
        elif name == "checkpoint" and self.job.checkpoint_every_s:
            self.course.advance(t)
            self.commands.checkpoint()
            self.port.wake(t + self.job.checkpoint_every_s, tag)

    def _time_is_up(self, t: float) -> None:
        """A job that has made no progress, since somebody is lost and not back, has not ended well."""
        self._look_who_is_missing()
        reached = f"max_time_s={self.job.max_time_s:g} reached"
        words = f"; {self.missing.words}" if self.missing.since_s else ""
        since_s = self.course.halted_s if self.course.halted else None
        idle_s = self.missing.idle_s(t, since_s, self.job.max_time_s, self.job.stuck_after_s)
        if idle_s is None or self.ledger.progresses:
            self.finish(t, "done", f"{reached}{words}")
        else:
            self.finish(t, "failed", f"{reached}, and nothing was computed in the last {idle_s:.1f} s{words}")

    def _look_who_is_missing(self) -> None:
        """A worker is as long as it starts, a server until all hold one version."""
        members = self.members.members
        starting = {NodeId.worker(worker) for worker, member in members.items() if member.state == "launching"}
        for node in list(self.missing.since_s):
            if node not in starting and not (self.course.halted and node.role == "server"):
                self.missing.back(node)

    def _epochs_done(self, t: float, reason: str) -> None:
        self.finish(t, "done", reason)
