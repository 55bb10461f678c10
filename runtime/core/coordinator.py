"""The coordinator: events to the strategy, its commands to the ledger, the data service and the runtime (pure).

Both runtimes drive this one object: they call it with what happened, it answers through a
:class:`runtime.core.job.Port`. It knows no clock and no socket; ``stopwatch`` only measures what a decision cost.

What a command does to gradients and data is the :class:`runtime.core.executor.Executor`'s business. A Compute that it
holds for want of data ends as an arrival of zero samples when nothing else is under way that could bring any: so a
barrier at the end of an epoch is not waited for in vain, and an asynchronous worker that has finished its part idles
instead of spinning.
"""

from __future__ import annotations

import math
from collections import deque
from collections.abc import Callable, Mapping
from typing import assert_never

import msgspec

from runtime.core.answers import checked
from runtime.core.executor import Disturb, Executor
from runtime.core.job import Job, Port, RecordSink, Status
from runtime.core.ledger import Order
from runtime.core.recovery.automaton import RESTARTED
from runtime.core.scheduling import ConstantPending, Scheduler
from runtime.core.scoring import Products
from runtime.core.stuck import Promised, awaits, declare
from strategies.protocol import (
    AnyCommand,
    AnyEvent,
    Apply,
    Arrived,
    Checkpoint,
    Compute,
    Drop,
    Evaluate,
    Evaluated,
    Failed,
    Joined,
    Lost,
    NodeId,
    NodeUse,
    Observed,
    Partition,
    ProtocolError,
    Restart,
    Restored,
    Scheduling,
    Score,
    Scored,
    ServerLost,
    Started,
    Stop,
    Strategy,
    Timings,
    Updated,
    Wake,
    Woke,
)

MAX_NONFINITE = 3
"""Non-finite gradients in a row of one worker after which its failure is not retryable."""


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
        disturb: Disturb,
        stopwatch: Callable[[], float],
        scheduler: Scheduler | None = None,
    ) -> None:
        self.job, self.strategy, self.port, self.record = job, strategy, port, record
        self.stopwatch, self.scheduler = stopwatch, scheduler or ConstantPending()
        self.restarts = 0
        self.executor = Executor(job, strategy.data, port, record, disturb, self._epochs_done)
        self.ledger, self.shards, self.members = self.executor.ledger, self.executor.shards, self.executor.members
        self.cut = self.executor.cut
        self.nonfinite = [0] * job.num_workers
        self.halted = False
        self.promised = Promised()
        self.status: Status | None = None
        self.reason = ""
        self.finished_s = 0.0
        self._t = 0.0
        self.evaluating = False
        self._values: list[float] = []
        self._queue: deque[AnyEvent] = deque()
        self.strategy_state: dict[str, float | int | str] = {}

    @property
    def version(self) -> int:
        return self.executor.version

    # ---- what happens: called by a runtime ---------------------------------------------------------------------------

    def start(self, incarnations: Mapping[int, int] | None = None) -> None:
        """All workers and servers are there: the job's clock starts now.

        ``incarnations``: of the workers that are there, by worker; some may have died while the job was starting.
        """
        for worker in self.members.members:
            self.members.begin(worker, (incarnations or {}).get(worker, 0))
        self.record.note(0.0, "EpochStarted", epoch=0)
        for every, tag in ((self.job.eval_every_s, "evaluate"), (self.job.checkpoint_every_s, "checkpoint")):
            if every:
                self.port.wake(every, f"runtime:{tag}")
        self.port.wake(self.job.max_time_s, "runtime:limit")
        self._evaluate()
        self._tell(
            Started(
                t=0.0,
                workers=self.members.here(),
                batch_samples=self.executor.batches,
                num_servers=self.job.num_servers,
                total_samples=self.job.total_samples,
                lr=self.job.lr,
            )
        )
        if Restart in self.strategy.needs:
            self._quote(0.0)

    def arrived(
        self,
        t: float,
        grad_id: int,
        worker: int,
        timings: Timings,
        loss: float | None = None,
        sqr_norm: float | None = None,
        finite: bool = True,
    ) -> None:
        """All servers hold a gradient. Reports of work that is no longer outstanding are ignored."""
        order = self.ledger.busy.get(worker)
        if order is None or order.grad_id != grad_id or self.status:
            return
        del self.ledger.busy[worker]
        if not finite:
            self._nonfinite(t, order)
            return
        self.nonfinite[worker] = 0
        grad = self.executor.arrived(order)
        self._tell(Arrived(t=t, grad=grad, timings=timings, loss=loss, sqr_norm=sqr_norm))

    def worker_failed(self, t: float, worker: int, reason: str, retryable: bool) -> None:
        """A Compute ended without a gradient although its worker lives."""
        order = self.ledger.busy.pop(worker, None)
        if order is None or self.status:
            return
        t = self._advance(t)
        self.executor.give_back(t, order, to_holder=True, reason=reason)
        self._tell(Failed(t=t, worker=worker, reason=reason, retryable=retryable))

    def worker_lost(self, t: float, worker: int, reason: str, restarting: bool) -> None:
        """A worker's process is gone, or is fenced off because it no longer answers."""
        if self.status:
            return
        t = self._advance(t)
        here = self.members.is_here(worker)
        incarnation = self.members.lost(worker, restarting)
        self.executor.lost(t, worker, here=here, restarting=restarting, reason=reason)
        if (here or not restarting) and not self.halted:
            self._tell_lost(t, worker, incarnation, reason, restarting)

    def _tell_lost(self, t: float, worker: int, incarnation: int, reason: str, restarting: bool) -> None:
        """What the strategy answers does not count where all now go back."""
        if self.job.halts_on_loss:
            self.halt(t, f"worker {worker} is lost")
        self._tell(Lost(t=t, worker=worker, incarnation=incarnation, reason=reason, restarting=restarting))

    def halt(self, t: float, reason: str) -> None:
        """Nothing counts until the runtime has brought everybody to one version: see :meth:`restored`."""
        if not self.halted and not self.status:
            self.record.note(self._advance(t), "GoingBack", reason=reason)
            self._halt()

    def _halt(self) -> None:
        """Nothing counts until the runtime has brought everybody back to the last checkpoint."""
        self.halted = True
        self.executor.void()

    def worker_joined(self, t: float, worker: int, incarnation: int) -> None:
        """A restarted worker is connected to all servers."""
        if not self.status and self.members.joined(worker, incarnation) and not self.halted:
            self.executor.joined(t, worker)
            self._tell(Joined(t=t, worker=worker, incarnation=incarnation))

    def server_lost(self, t: float, server: int, incarnation: int, reason: str) -> None:
        """A server is gone: its part of the parameters, and so every version since the last checkpoint."""
        if self.status:
            return
        self._halt()
        self._tell(ServerLost(t=t, server=server, incarnation=incarnation, reason=reason))

    def restored(self, t: float, version: int, state: bytes) -> None:
        """All servers hold the checkpoint that was taken with ``state``, and all workers are idle."""
        if self.status:
            return
        self.halted = False
        self.executor.version = version
        self.shards.load_state(msgspec.json.decode(state))
        for worker, member in self.members.members.items():
            if member.state in ("left", "pending"):
                self.shards.leave(worker)
        self._tell(Restored(t=t, version=version, workers=self.members.here()))

    def evaluated(self, t: float, version: int, asked_s: float, metrics: dict[str, float]) -> None:
        """The evaluator is done with one snapshot (or gave up: no metrics)."""
        self.evaluating = False
        if not metrics or self.status:
            return
        self.promised.scored = version
        self._tell(Evaluated(t=t, version=version, asked_s=asked_s, metrics=metrics))
        value = metrics.get(self.job.metric)
        if self.job.stop_at_target and value is not None and self.job.reached(value):
            self.finish(t, "done", f"target {self.job.metric} reached")
        if self.job.stop_at_convergence and self.job.convergence is not None and value is not None:
            self._values.append(value)
            if self.job.convergence.reached(self._values):
                self.finish(t, "done", f"{self.job.metric} has converged")

    def score_parts(self, t: float, server: int, grad_id: int, reference: int, part: Products) -> None:
        """A server has compared its part of a gradient with its part of a reference."""
        scored = None if self.status else self.executor.scoring.score_parts(server, grad_id, reference, part)
        if scored is not None:
            self._tell(Scored(t=t, grad=scored[0], ref_version=scored[1], **scored[2]._asdict()))

    def observed(self, t: float, period_s: float, nodes: tuple[NodeUse, ...]) -> None:
        """A sample of what tasks and hosts use."""
        if not self.status and not self.halted:
            self._tell(Observed(t=t, period_s=period_s, nodes=nodes))

    def updated(self, t: float, server: int, version: int, updates: int, busy_s: float, injected_s: float) -> None:
        """A server has told what it was busy with."""
        about = {"server": server, "version": version, "updates": updates}
        if self.strategy.watches_servers and not self.status and not self.halted:
            self._tell(Updated(t=t, busy_s=busy_s, injected_s=injected_s, **about))
        else:
            self.record.note(t, "Updated", **about, busy_s=busy_s, injected_s=injected_s)

    def woke(self, t: float, tag: str) -> None:
        """A timer has fired."""
        if self.status:
            return
        owner, _, name = tag.partition(":")
        if owner == "strategy":
            self.promised.timers = max(0, self.promised.timers - 1)
            self._tell(Woke(t=t, tag=name))
        elif name == "limit" and self.job.stuck_after_s is not None and not awaits(self):
            declare(self, t)
        elif name == "limit":
            self.finish(t, "done", f"max_time_s={self.job.max_time_s:g} reached")
        elif name == "scheduling":
            self._quote(self._advance(t))
        elif name == "evaluate" and self.job.eval_every_s:
            self._advance(t)
            self._evaluate()
            self.port.wake(t + self.job.eval_every_s, tag)
        elif name == "checkpoint" and self.job.checkpoint_every_s:
            self._advance(t)
            self._checkpoint()
            self.port.wake(t + self.job.checkpoint_every_s, tag)

    def finish(self, t: float, status: Status, reason: str) -> None:
        """End the job (the first reason counts)."""
        if self.status is None:
            self.finished_s = self._advance(t)
            self.status, self.reason = status, reason

    def _epochs_done(self, t: float, reason: str) -> None:
        self.finish(t, "done", reason)

    def snapshot(self) -> bytes:
        """The data service's state as a checkpoint carries it."""
        return msgspec.json.encode(self.shards.state())

    def _advance(self, t: float) -> float:
        """Time never goes back, whatever comes late."""
        self._t = max(self._t, t)
        return self._t

    # ---- telling the strategy ----------------------------------------------------------------------------------------

    def _tell(self, event: AnyEvent) -> None:
        self._queue.append(event)
        if len(self._queue) > 1:
            return
        while self._queue:
            self._handle(self._queue[0])
            self._queue.popleft()
            if not self._queue and not self.halted and not self.status:
                for grad in self.executor.empty_arrivals():
                    self._queue.append(Arrived(t=self._t, grad=grad, timings=Timings()))

    def _handle(self, event: AnyEvent) -> None:
        if event.t < self._t:
            event = msgspec.structs.replace(event, t=self._t)
        self._t = event.t
        worker = event.grad.worker if isinstance(event, Arrived | Scored) else getattr(event, "worker", None)
        if worker is not None:
            self.ledger.note_event(worker, event)
        begun = self.stopwatch()
        try:
            commands = checked(self.strategy, event, self.strategy.handle(event))
        except Exception:  # what it fell over must be in the record; its state is not to be trusted
            self.record.event(self._t, event, (), self.version, (self.stopwatch() - begun) * 1e6, None)
            raise
        decide_us = (self.stopwatch() - begun) * 1e6
        try:
            for command in commands:
                if self.status is None and not self.halted:
                    self._execute(command)
        finally:
            state = self.strategy.log_state()
            changed = state if state != self.strategy_state else None
            self.strategy_state = state
            self.record.event(self._t, event, commands, self.version, decide_us, changed)

    def _execute(self, command: AnyCommand) -> None:
        match command:
            case Compute() | Partition() | Apply() | Drop() | Score():
                self.executor.carry_out(self._t, command)
            case Restart():
                self._restart(command)
            case Wake():
                self.promised.timers += 1
                self.port.wake(command.at_s, f"strategy:{command.tag}")
            case Evaluate():
                self._evaluate()
            case Checkpoint():
                self._checkpoint()
            case Stop():
                self.finish(self._t, "done" if command.ok else "failed", command.reason)
            case _:
                assert_never(command)

    def _restart(self, command: Restart) -> None:
        """KILL_RESTART: a worker is gone from now on; a server when all servers have stored what they hold."""
        try:
            role, node = NodeId.parse(command.node)
        except ValueError as error:
            raise ProtocolError(f"{command}: there is no such node; {error}") from None
        if node >= {"worker": self.job.num_workers, "server": self.job.num_servers}.get(role, 0):
            raise ProtocolError(f"{command}: there is no such node")
        if role == "worker" and not self.members.is_here(node):
            raise self.ledger.error(node, f"{command} although it is not there")
        pending_s = self.scheduler.draw_s(self._t, self.job.seed, self.restarts)
        self.restarts += 1
        self.record.note(self._t, "Restarting", node=command.node, pending_s=pending_s)
        if role == "server":
            self._checkpoint()
            self._halt()
        else:
            incarnation = self.members.restarted(node)
            self.executor.lost(self._t, node, here=True, restarting=False, reason=RESTARTED)
            self._tell_lost(self._t, node, incarnation, RESTARTED, restarting=False)
        self.port.restart(command.node, pending_s)

    def _quote(self, t: float) -> None:
        """Tell what the scheduler expects, now and whenever that changes."""
        self._tell(Scheduling(t=t, pending_s=self.scheduler.expected_s(t)))
        if math.isfinite(following := self.scheduler.next_change_s(t)):
            self.port.wake(following, "runtime:scheduling")

    def _nonfinite(self, t: float, order: Order) -> None:
        t, worker = self._advance(t), order.worker
        self.nonfinite[worker] += 1
        self.executor.iterations[worker] += 1
        self.record.note(t, "Nonfinite", worker=worker, grad=order.grad_id)
        self.executor.give_back(t, order, to_holder=False, reason="gradient is not finite")
        retryable = self.nonfinite[worker] < MAX_NONFINITE
        reason = "gradient is not finite" + ("" if retryable else f", {MAX_NONFINITE} times in a row")
        self._tell(Failed(t=t, worker=worker, reason=reason, retryable=retryable))

    def _evaluate(self) -> None:
        if not self.evaluating and not self.halted:
            self.evaluating = True
            self.port.evaluate(self.version, last=False)

    def _checkpoint(self) -> None:
        if not self.halted:
            self.port.checkpoint(self.version, self.snapshot())
