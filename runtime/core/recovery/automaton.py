"""The automaton of a recovery: inputs in, effects out (pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import assert_never

from runtime.core.membership import Membership
from runtime.core.recovery.effects import (
    AnyEffect,
    AuxiliaryJoined,
    AuxiliaryLost,
    Cause,
    Checkpointed,
    Failed,
    Fence,
    Kill,
    Launch,
    MayLeave,
    RolledBack,
    ServerLost,
    Started,
    Store,
    Suspended,
    Wait,
    WorkerJoined,
    WorkerLost,
)
from runtime.core.recovery.inputs import (
    Admit,
    AnyInput,
    Attached,
    Begin,
    Control,
    Dismiss,
    ElectPrimary,
    Follows,
    Gone,
    Halted,
    Hold,
    Leave,
    LinkLost,
    Loaded,
    OfParameters,
    OfTask,
    PlaceFree,
    Ready,
    Release,
    Repartition,
    Restart,
    Resume,
    Save,
    Saved,
    Silent,
    Suspend,
    Worked,
)
from runtime.core.recovery.limits import Limits
from runtime.core.recovery.policy import Policy
from runtime.core.recovery.replicas import Replicas
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.servers import Servers
from runtime.core.recovery.state import RecoveryState
from runtime.core.recovery.states import Phase, PhaseStep, TaskState, TaskStep
from runtime.core.recovery.task import ALIVE, REACHABLE, Holder, Key, TaskLife
from strategies.protocol import LossCause, NodeId

RESTARTED = "restarted by the strategy"
"""Reason for the loss of a node that a strategy restarts."""
PREEMPTED = "preempted by the cluster"
"""Reason for the end of all tasks of a job that loses its places."""


class Recovery:
    """The automaton. Without servers every worker is a replica. ``state`` is read-only for others.

    Args:
        rules: limits and choices.
        members: the nodes of the start; without servers the workers are replicas.
        auxiliaries: roles of which there is one task each, that nobody waits for once the job runs.
        num_aggregators: tasks that sum gradients on their way, numbered from 0; nobody waits for them either.
    """

    def __init__(
        self,
        rules: Rules,
        members: Membership,
        auxiliaries: Sequence[str] = (),
        num_aggregators: int = 0,
    ) -> None:
        self.rules = rules
        keys = [Key(role, 0) for role in auxiliaries] + [*map(NodeId.aggregator, range(num_aggregators))]
        self.state = RecoveryState(rules, members, keys)
        self.policy: Policy = Servers(self.state) if members.layout.shares else Replicas(self.state)
        self.limits = Limits(rules)

    @property
    def tasks(self) -> dict[Key, TaskLife]:
        """The tasks by role and number."""
        return self.state.tasks

    def receive(self, given: AnyInput) -> list[AnyEffect]:
        """Process an input; returns the effects to carry out, in order.

        Raises :class:`runtime.core.recovery.states.ImpossibleTransitionError` for an input impossible in this state,
        such as a process that is built twice; then nothing has changed.
        """
        try:
            if isinstance(given, OfTask):
                task = self.tasks[given.key]
                if task.expects(given.incarnation):
                    self._of_task(task, given)
            elif isinstance(given, Control):
                self._control(given)
            else:
                self._of_parameters(given)
            if self.state.suspending is not None:
                self._look_who_suspends()
        finally:
            effects = self.state.take_effects()
        return effects

    # ---- inputs of tasks ---------------------------------------------------------------------------------------------

    def _of_task(self, task: TaskLife, given: OfTask) -> None:
        match given:
            case Ready():
                task.step(TaskStep.BUILT)
                task.useful = task.role != "worker"
                self.policy.ready(task, given.version)
                if self.state.is_replica(task):
                    self._check()
            case Attached():
                self._on_attached(task, given)
            case Worked():
                task.useful = True
            case Gone():
                self._gone(task, given)
            case Silent():
                self._kill(task, given.reason)
            case LinkLost():
                if given.generation == self.state.generation and self.state.phase in (Phase.RUNNING, Phase.ATTACHING):
                    self._kill(task, f"lost its connection to a server ({given.reason})")
            case _:
                assert_never(given)

    def _on_attached(self, task: TaskLife, given: Attached) -> None:
        current = given.generation == self.state.generation and self.state.phase in (Phase.RUNNING, Phase.ATTACHING)
        if not current or not self.policy.takes_part(task):
            return
        task.step(TaskStep.CONNECTED)
        if self.state.started and task.role != "worker":
            self.state.emit(AuxiliaryJoined(task.role, task.id))
        elif self.state.started and not task.notified:
            self.state.emit(WorkerJoined(task.id, task.incarnation))
            task.awaited = True
        task.notified = True
        self._check()

    def _check(self) -> None:
        """Complete a recovery, or the start, if all awaited tasks are attached."""
        state = self.state
        if state.phase == Phase.ATTACHING and not self.policy.still_attaching():
            state.step(PhaseStep.COMPLETE)
            if state.started:
                state.emit(self.policy.complete())
        if state.phase == Phase.RUNNING and not state.started and self._all_there():
            state.started = True
            state.emit(Started())

    def _all_there(self) -> bool:
        """Whether the job can start: replicas of the server have to be there, too."""
        state = self.state
        return not state.unattached(reversed(state.clients)) and all(
            task.state in REACHABLE for task in state.replicas()
        )

    # ---- death -------------------------------------------------------------------------------------------------------

    def _kill(self, task: TaskLife, reason: str) -> None:
        """Kill an incarnation that is fenced anyway."""
        self.state.emit(Kill(task.key, task.incarnation, reason))
        self._gone(task, Gone(task.key, task.incarnation, reason, cause="silent"))

    def _gone(self, task: TaskLife, given: Gone) -> None:
        """Start the next incarnation, or end the run if a limit is reached."""
        limits, reason = self.limits, given.reason
        if given.device_full and limits.may_find_room(task):
            self._try_later(task, reason)
            return
        if not given.retryable:
            self.state.emit(Failed(f"{task.name} crashed: {reason}", given.full))
            return
        if self._fails(limits.lost(task, reason)):
            return
        if task.role == "server" and not self.state.holds(task) and not self.state.is_replica(task):
            self._end(task, given.cause, reason, TaskStep.DEPARTED)
            return
        if task.admitted and task.role == "worker" and limits.is_futile(task):
            self._end(task, given.cause, reason, TaskStep.DEPARTED)  # the others do not need it
            return
        if limits.is_futile(task):
            self._fails(limits.futile(task, reason))
            return
        restarting = limits.may_restart()
        if not restarting and not (task.role == "worker" and self.state.started):
            self._fails(limits.used_up(task, reason))
            return
        final = given.for_good or (given.cause == "oom" and self.rules.replaces_workers and task.role == "worker")
        if not self._fails(limits.inseparable(task, reason)):
            self._end(task, given.cause, reason, TaskStep.REPLACED if restarting and not final else TaskStep.DEPARTED)

    def _fails(self, why: str | None) -> bool:
        """Whether the run cannot continue, for that reason."""
        if why is not None:
            self.state.emit(Failed(why))
        return why is not None

    def _try_later(self, task: TaskLife, reason: str) -> None:
        """Start the next incarnation soon, or at once if all wait for it to begin; that counts for no other limit."""
        futile, step = task.futile, TaskStep.REPLACED
        task.crowded += 1
        if self.state.started:
            step = TaskStep.CROWDED
            task.holders.add("scheduler")
        self._end(task, "oom", reason, step, self.rules.crowded_s)
        task.futile = futile

    def _end(self, task: TaskLife, cause: LossCause, reason: str, step: TaskStep, pending_s: float = 0.0) -> None:
        """End an incarnation, and recover what others lose with it."""
        gone = task.end(step)
        self.state.emit(Fence(task.key, gone, reason))
        if step == TaskStep.REPLACED:
            self.state.emit(Launch(task.key, task.incarnation, "crash"))
        elif step in (TaskStep.MOVED, TaskStep.CROWDED):
            self.state.emit(Wait(task.key, task.incarnation, pending_s, moves=step == TaskStep.MOVED))
        if task.role == "server":
            self._server_ended(task, gone, cause, reason)
        elif task.role == "worker":
            self._worker_ended(task, gone, cause, reason, step)
        elif self.state.started:
            self.state.emit(AuxiliaryLost(task.role, task.id))

    def _server_ended(self, task: TaskLife, gone: int, cause: LossCause, reason: str) -> None:
        """All roll back, unless it held nothing: then it has left, or was a replica, which comes back."""
        holding = self.state.holds(task)
        self.policy.lost_copy(task)
        if not holding and not self.state.is_replica(task):
            self.state.servers.remove(task)
        if self.state.started and not (cause == "retired" and not holding):
            self.state.emit(ServerLost(task.id, gone, reason, cause, holding))
        if holding:
            self.policy.begin_again()

    def _worker_ended(self, task: TaskLife, gone: int, cause: LossCause, reason: str, step: TaskStep) -> None:
        """Notify the loss of a worker, unless the coordinator has ordered it and booked it already."""
        if not self.state.started:
            self.policy.lost_early(task)
            return
        if cause not in ("retired", "restarted"):
            self.state.emit(WorkerLost(task.id, gone, reason, restarting=step != TaskStep.DEPARTED, cause=cause))
        if all(worker.state == TaskState.LEFT for worker in self.state.workers):
            self.state.emit(Failed("no worker is left"))
        elif self.policy.concerns_all(task):
            self.state.emit(RolledBack())
            self.policy.begin_again()
        else:
            self._check()

    # ---- starts and stops --------------------------------------------------------------------------------------------

    def _control(self, given: Control) -> None:  # noqa: C901  (a table)
        match given:
            case Begin():
                for task in self.tasks.values():
                    self.state.emit(Launch(task.key, task.incarnation, "start"))
            case Admit():
                task = self.state.admit(given.key)
                self.state.emit(Wait(task.key, task.incarnation, given.pending_s, moves=False))
            case Dismiss():
                self._dismiss(self.tasks[given.key], given.reason)
            case Hold():
                self._hold(self.tasks[given.key], given.reason, given.moved)
            case Release():
                self._free(self.tasks[given.key], "plan", "released")
            case Restart():
                self._restart(self.tasks[given.key], given.pending_s)
            case Leave():
                self._leave(given)
            case Suspend():
                self.state.suspending = self.state.checkpoints.last
            case Resume():
                for task in [one for one in self.tasks.values() if "cluster" in one.holders]:
                    self._free(task, "cluster", "resumed")
            case PlaceFree():
                task = self.tasks[given.key]
                if task.incarnation == given.incarnation:
                    self._free(task, "scheduler", "place" if task.incarnation else "new")
            case _:
                assert_never(given)

    def _dismiss(self, task: TaskLife, reason: str) -> None:
        """Nothing keeps it from ending, and nothing starts it again, so that counts for no limit."""
        if task.state == TaskState.LEFT or self._fails(self.limits.inseparable(task, reason)):
            return
        if task.state in ALIVE:
            self.state.emit(Kill(task.key, task.incarnation))
        task.holders.clear()
        self._end(task, "retired", reason, TaskStep.DEPARTED)

    def _hold(self, task: TaskLife, reason: str, moved: bool) -> None:
        """Keep a task from starting, by the plan: such a death counts towards no limit but ``max_losses``."""
        if task.state == TaskState.LEFT or self._fails(self.limits.inseparable(task, reason)):
            return
        waits = bool(task.holders)
        if not waits and self._fails(self.limits.lost(task, reason)):
            return
        if task.role == "server" and not self.state.holds(task) and not self.state.is_replica(task):
            self._drop(task, reason)
            return
        task.holders.add("plan")
        came_before = task.incarnation > 0 or not task.admitted
        if waits and not (self.rules.plan_ends_wait and not moved and came_before and "scheduler" in task.holders):
            return
        task.holders.discard("scheduler")
        if not waits:
            self.state.emit(Kill(task.key, task.incarnation))
        self._end(task, "killed", reason, TaskStep.STOPPED)
        task.futile = 0

    def _drop(self, task: TaskLife, reason: str) -> None:
        """A server that holds nothing is killed, or not awaited any more; it does not start again."""
        if not task.holders:
            self.state.emit(Kill(task.key, task.incarnation))
        task.holders.clear()
        self._end(task, "killed", reason, TaskStep.DEPARTED)

    def _free(self, task: TaskLife, holder: Holder, cause: Cause) -> None:
        if holder not in task.holders:
            return
        task.holders.discard(holder)
        if not task.holders:
            task.step(TaskStep.RELEASED)
            self.state.emit(Launch(task.key, task.incarnation, cause))

    def _restart(self, task: TaskLife, pending_s: float) -> None:
        """Restart a node; a server once the last checkpoint that was ordered is stored, unless it was abandoned."""
        if task.role != "server":
            self._move(task, pending_s)
            return
        self.state.leaving = (task.key, task.incarnation, self.state.checkpoints.last, pending_s)
        self._look_who_leaves()

    def _look_who_leaves(self) -> None:
        if self.state.leaving is not None:
            key, incarnation, ordered, _ = self.state.leaving
            if self.state.checkpoints.complete >= ordered:
                self.state.emit(MayLeave(key, incarnation))

    def _leave(self, given: Leave) -> None:
        """A server leaves, unless a loss came first: then all have rolled back already."""
        leaving = self.state.leaving
        if leaving is not None and leaving[:2] == (given.key, given.incarnation):
            self.state.leaving = None
            self._move(self.tasks[given.key], leaving[3])

    def _move(self, task: TaskLife, pending_s: float) -> None:
        """End the old incarnation now; the next one starts elsewhere once the scheduler has a place."""
        if self._fails(self.limits.inseparable(task, RESTARTED)):
            return
        self.state.emit(Kill(task.key, task.incarnation))
        task.holders.add("scheduler")
        self._end(task, "restarted", RESTARTED, TaskStep.MOVED, pending_s)
        task.futile = 0

    def _look_who_suspends(self) -> None:
        """All end when the checkpoint is stored, or when a loss came first: then the one before is the newest."""
        state = self.state
        if state.phase == Phase.RUNNING and state.checkpoints.complete < (state.suspending or 0):
            return
        state.suspending = None
        for task in self.tasks.values():
            if task.role == "server" and task.state != TaskState.LEFT and not state.holds(task):
                self._drop(task, PREEMPTED)
            elif task.state != TaskState.LEFT:
                self._suspend(task)
        self.policy.begin_again()
        state.emit(Suspended())

    def _suspend(self, task: TaskLife) -> None:
        """Other reasons that keep it from starting, such as a kill of the plan, remain."""
        waits = task.state == TaskState.HELD
        task.holders.discard("scheduler")
        task.holders.add("cluster")
        if waits:
            return
        if task.state in ALIVE:
            self.state.emit(Kill(task.key, task.incarnation))
        gone = task.end(TaskStep.STOPPED)
        task.futile = 0
        self.state.emit(Fence(task.key, gone, PREEMPTED))
        if task.role == "worker":
            self.state.emit(WorkerLost(task.id, gone, PREEMPTED, restarting=True))
        elif task.role != "server":
            self.state.emit(AuxiliaryLost(task.role, task.id))

    # ---- parameters --------------------------------------------------------------------------------------------------

    def _of_parameters(self, given: OfParameters) -> None:  # noqa: C901  (a table)
        match given:
            case Repartition():
                if self.state.phase == Phase.RUNNING:  # else a loss came first, and all have rolled back already
                    self.state.moving = (self.state.checkpoints.last, given.shares)
                    self._look_who_moves()
            case ElectPrimary():
                self.policy.elect_primary(given.key)
            case Save():
                self._save(given)
            case Saved():
                self._on_saved(given)
            case Loaded():
                self.policy.loaded(self.tasks[given.key], given)
            case Follows():
                task = self.tasks[given.key]
                if task.expects(given.incarnation):
                    self.policy.follows(task)
            case Halted():
                task = self.tasks[given.key]
                if task.expects(given.incarnation):
                    self.policy.halted(task, given)
            case _:
                assert_never(given)

    def _save(self, given: Save) -> None:
        checkpoints, savers = self.state.checkpoints, self.policy.savers
        number = checkpoints.begin(given.version, given.state, savers)
        self.state.emit(Store(number, given.version, given.state, max(checkpoints.complete, 0), savers))

    def _on_saved(self, given: Saved) -> None:
        if self.state.phase != Phase.RUNNING:
            return
        if (done := self.state.checkpoints.stored(given.number, given.key)) is not None:
            self.state.emit(Checkpointed(given.number, done.version))
            self._look_who_leaves()
            self._look_who_moves()

    def _look_who_moves(self) -> None:
        """Others hold the parameters once the checkpoint is stored, or the same if one of the others is gone."""
        state = self.state
        if state.moving is None or state.checkpoints.complete < state.moving[0]:
            return
        shares = state.moving[1]
        if all(server in state.tasks and state.tasks[server].state in REACHABLE for server, _ in shares):
            state.members.divide(shares)
        self.policy.begin_again()
