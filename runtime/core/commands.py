"""Carries out a strategy's commands to the whole job: restarts, evaluations, checkpoints, timers, its end (pure).

The :class:`runtime.core.executor.Executor` carries out those to workers, gradients and data.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import partial
from typing import Literal, assert_never

import msgspec

from runtime.core.course import Course
from runtime.core.elastic import Elastic
from runtime.core.evaluations import Evaluations
from runtime.core.executor import Executor
from runtime.core.job import Job, Port, RecordSink
from runtime.core.node_orders import RestartOrder
from runtime.core.recovery.automaton import RESTARTED
from runtime.core.reservations import Reservations, check_demands
from runtime.core.scheduling import Scheduler
from runtime.core.stuck import Promised
from strategies.protocol import (
    Allocate,
    AnyCommand,
    AnyEvent,
    Apply,
    Average,
    Checkpoint,
    Compute,
    Drop,
    Evaluate,
    Launch,
    LossCause,
    Lost,
    NodeId,
    Partition,
    ProtocolError,
    PushHalf,
    Repartition,
    Replicate,
    Reserve,
    Restart,
    Retire,
    Scheduling,
    Score,
    Send,
    StepAlone,
    Stop,
    SumFragment,
    Wake,
)


class Commands:
    """``tell`` notifies the strategy of events that follow at once from a command."""

    def __init__(
        self,
        job: Job,
        port: Port,
        record: RecordSink,
        executor: Executor,
        course: Course,
        evaluations: Evaluations,
        promised: Promised,
        scheduler: Scheduler,
        reservations: Reservations,
        tell: Callable[[AnyEvent], None],
    ) -> None:
        self.job, self.port, self.record, self.executor = job, port, record, executor
        self.course, self.evaluations, self.promised = course, evaluations, promised
        self.scheduler, self.reservations, self.tell = scheduler, reservations, tell
        self.elastic = Elastic(
            executor,
            port,
            record,
            scheduler,
            job.seed,
            tell=tell,
            lose=partial(self.lose, restarting=False),
            store_and_halt=self.store_and_halt,
            void=self.void,
        )
        self._restarts = 0
        self._deferred: list[Callable[[float], None]] = []

    def carry_out(self, command: AnyCommand) -> None:  # noqa: C901  (a table)
        """Carry out one command, at the time of the event that it answers."""
        t = self.course.t
        match command:
            case Compute():
                self.executor.compute(t, command)
            case Apply():
                self.executor.apply(t, command)
            case StepAlone():
                self.executor.step_alone(command)
            case Average():
                self.executor.own_steps.average(command)
            case PushHalf():
                self.executor.own_steps.push_half(command)
            case SumFragment():
                self.executor.own_steps.sum_fragment(command)
            case Drop():
                self.executor.drop(t, command)
            case Send():
                self.executor.transfers.send(command)
            case Replicate():
                self.executor.replication.replicate(command, self.executor.version)
            case Partition():
                self.executor.partition(t, command)
            case Score():
                self.executor.score(command)
            case Restart():
                self._restart(t, command)
            case Launch():
                self.elastic.launch(t, command)
            case Retire():
                self.elastic.retire(t, command)
            case Repartition():
                self.elastic.repartition(t, command)
            case Allocate():
                self.elastic.allocate(t, command)
            case Reserve():
                self._reserve(t, command)
            case Wake():
                self.promised.timers += 1
                self.port.wake(command.at_s, f"strategy:{command.tag}")
            case Evaluate():
                self.evaluate()
            case Checkpoint():
                self.checkpoint()
            case Stop():
                self.course.finish(t, "done" if command.ok else "failed", command.reason)
            case _:
                assert_never(command)

    def evaluate(self) -> None:
        """Evaluate the current parameters, unless an evaluation is in progress."""
        self.evaluations.ask(self.executor.version)

    def checkpoint(self) -> None:
        """Store the current parameters, with the data service's state at their version."""
        if not self.course.halted:
            self.port.checkpoint(self.executor.version, self.snapshot())

    def snapshot(self) -> bytes:
        """The data service's state as a checkpoint carries it."""
        return msgspec.json.encode(self.executor.shards.state())

    def _reserve(self, t: float, command: Reserve) -> None:
        """Ask the cluster of all jobs on the same hosts; the answer follows at once."""
        nodes = [str(node) for node in self.executor.members.layout.nodes if node not in self.executor.members.awaited]
        check_demands(command, nodes)
        self.tell(self.reservations.reserve(t, command))

    # ---- restarts ----------------------------------------------------------------------------------------------------

    def _restart(self, t: float, command: Restart) -> None:
        """KILL_RESTART: a worker is gone from now on; a server once all servers have stored their parts."""
        members, ledger = self.executor.members, self.executor.ledger
        role, node = self.elastic.member(command)
        if role == "worker" and not members.is_here(node):
            raise ledger.error(node, f"{command} although it is not running")
        pending_s = self.scheduler.draw_s(t, self.job.seed, self._restarts)
        self._restarts += 1
        self.record.note(t, "Restarting", node=command.node, pending_s=pending_s)
        if role == "server":
            if NodeId(role, node) not in self.executor.members.layout.holders:
                raise ProtocolError(f"{command}: it holds nothing; retire it, and launch another")
            self.store_and_halt()
        else:
            incarnation = members.restarted(node)
            self.executor.lost(t, node, here=True, restarting=False, reason=RESTARTED)
            self.tell_lost(t, node, incarnation, RESTARTED, "restarted", here=True, restarting=False)
        self.port.order_node(RestartOrder(command.node, pending_s))

    def quote(self, t: float) -> None:
        """Notify the scheduler's expectation, now and whenever it changes."""
        self.tell(Scheduling(t=t, pending_s=self.scheduler.expected_s(t)))
        if math.isfinite(following := self.scheduler.next_change_s(t)):
            self.port.wake(following, "runtime:scheduling")

    def operated(self, t: float, change: Literal["join", "leave"], node: str) -> None:
        """An operator's order, like a command that the strategy did not give; it waits while all roll back."""
        layout = self.executor.members.layout
        if self.course.halted:
            self._defer(t, change, node, lambda t: self.operated(t, change, node))
        elif change == "join":
            self.elastic.launch(t, Launch(node=str(NodeId.worker(layout.next_worker))))
        elif NodeId.parse(node) in layout.workers:
            self.elastic.retire(t, Retire(node=node))

    def evicted(self, t: float, node: str) -> None:
        """The cluster takes a node away; not while all roll back, when it is not known who will hold parameters."""
        if self.course.halted:
            self._defer(t, "evict", node, lambda t: self.evicted(t, node))
        else:
            self.elastic.evict(t, node)

    def _defer(self, t: float, order: str, node: str, call: Callable[[float], None]) -> None:
        """Carry an order out when all continue; its effects are then recorded far from their cause."""
        self.record.note(self.course.advance(t), "Deferred", order=order, **({"node": node} if node else {}))
        self._deferred.append(call)

    def restored(self, t: float) -> None:
        """All continue: operators' orders and evictions do, too."""
        for node in self.elastic.not_evicted():
            self.evicted(t, node)
        deferred, self._deferred = self._deferred, []
        for call in deferred:
            call(t)

    # ---- halts and rollbacks -----------------------------------------------------------------------------------------

    def lose(self, t: float, worker: int, reason: str, cause: LossCause, *, restarting: bool) -> None:
        """A worker's process is gone, with its computations."""
        members = self.executor.members
        here = members.is_here(worker)
        incarnation = members.lost(worker, restarting)
        self.executor.lost(t, worker, here=here, restarting=restarting, reason=reason)
        if not restarting:
            self.executor.remove(t, NodeId.worker(worker))
        if (here or not restarting) and not self.course.halted:
            self.tell_lost(t, worker, incarnation, reason, cause, here=here, restarting=restarting)

    def tell_lost(
        self, t: float, worker: int, incarnation: int, reason: str, cause: LossCause, *, here: bool, restarting: bool
    ) -> None:
        """Notify the strategy of a lost worker; its answer is void if all tasks now roll back.

        If the worker was not here, the runtime reports this (``RolledBack``): replicas continue without it.
        """
        if here and self.job.halts_on_loss:
            self.halt(t, f"worker {worker} is lost")
        lost = Lost(t=t, worker=worker, incarnation=incarnation, reason=reason, restarting=restarting, cause=cause)
        self.tell(lost)

    def halt(self, t: float, reason: str) -> None:
        """Void all work until the runtime has brought all tasks to one version (``Restored``)."""
        if not self.course.halted and not self.course.status:
            self.record.note(self.course.advance(t), "Rollback", reason=reason)
            self.void()

    def store_and_halt(self) -> None:
        """Store a checkpoint of the present version; everything else is void until the servers have read it."""
        self.checkpoint()
        self.void()

    def void(self) -> None:
        """Void work in progress, and all commands until ``Restored``."""
        self.course.halt()
        self.executor.void()
