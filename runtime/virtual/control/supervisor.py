"""Prices the recovery of a virtual run: events of tasks become its inputs, its effects events in time.

:mod:`runtime.core.recovery` decides; durations, and the effects on virtual tasks, are here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, assert_never, final

from runtime.core.coordinator import Coordinator
from runtime.core.recovery import effects, inputs
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.states import Phase, TaskState
from runtime.core.recovery.task import Key
from runtime.virtual.clock import MESSAGE, Clock
from runtime.virtual.control.behind import Behind
from runtime.virtual.control.files import File, Files
from runtime.virtual.control.places import Places
from runtime.virtual.control.standstill import Standstill
from runtime.virtual.control.starts import Starts
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.followers import Followers
from runtime.virtual.tasks.iteration import WorkerModel
from runtime.virtual.tasks.model_state import ModelState
from runtime.virtual.tasks.replicas import ReplicaGroup
from runtime.virtual.tasks.servers import ServerGroup
from strategies.protocol import NodeId

Call = Callable[[float], None]

BY_PLAN = "killed by the plan"


@final
class VirtualSupervisor:
    """Like the live one it is a part of the coordinator, so events of a machine wait while the coordinator decides.

    Otherwise the coordinator would continue to order lost tasks, and learn of a return before the loss. ``drive`` lets
    the coordinator react to something now or when it is free, ``discard`` drops orders that were not sent, ``note``
    writes to the record, ``fail`` is called with the reason if the run cannot continue. ``behind``: by how much the
    servers' time is behind. ``left`` is called when the cluster has all places of a preempted job back.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        coordinator: Coordinator,
        learner: ModelState,
        servers: ServerGroup,
        workers: WorkerModel,
        places: Places,
        *,
        lease_s: float,
        drive: Callable[[Call], None],
        discard: Callable[[], None],
        note: Callable[..., None],
        fail: Callable[[str], None],
        moved: Callable[[str], None],
        left: Callable[[], None],
        behind: Behind,
        followers: Followers | None = None,
    ) -> None:
        self.clock, self.costs, self.coordinator, self.learner = clock, costs, coordinator, learner
        self.servers, self.workers, self.places, self.lease_s = servers, workers, places, lease_s
        self.drive, self.discard, self.note, self.fail, self.left = drive, discard, note, fail, left
        self._behind, self._followers = behind, followers
        job = coordinator.job
        self._copies = isinstance(servers, ReplicaGroup) and job.failover == "shards"
        """A returning replica copies the parameters of those that stayed."""
        self._copy_s = servers.copy_s if isinstance(servers, ReplicaGroup) else 0.0
        """The time until which replicas copy the state that they lack."""
        self._files = Files()
        self._before: File
        """The replicas' state before the last update."""
        self._held: File
        """The state on which they agree, or which the servers have read."""
        self._agreeing = False
        """Whether replicas agree on a version; losses meanwhile do not change it."""
        self._forming = (0, 0.0)
        """The generation whose replicas agree, and the time of its start."""
        self._away: set[int] = set()
        """Lost servers that have not returned."""
        self._resuming = False
        """Whether the job has its places back and does not train yet."""
        self._t = 0.0
        """The time of the input that is being carried out."""
        rules = Rules(
            failover=job.failover,
            max_losses=job.max_losses,
            num_replicas=job.num_replicas,
            reads_on_return=True,
            plan_ends_wait=True,
            regroups=True,
        )
        self.recovery = Recovery(rules, job.num_workers, job.num_servers, shares=job.shares_of(job.num_servers))
        self._standstill = Standstill(
            clock, costs, places.machines, self.recovery, lease_s=lease_s, away=self._away, give_up=self._give_up
        )
        self._starts = Starts(
            clock,
            costs,
            self.recovery,
            self._standstill,
            workers,
            copy_s=self._copy_s,
            holds=lambda: self._holds,
            tell=self.tell,
            drive=drive,
            moved=moved,
        )
        self.tell(0.0, inputs.Begin())

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, asked_s: float, version: int, state: bytes, dumped: Any) -> None:
        """The servers write a checkpoint; it is complete when the last has done so."""
        self._files.add(self.recovery.state.checkpoints.next, File(version, state, dumped), asked_s)
        self.tell(asked_s, inputs.Save(version, state))

    def _store(self, effect: effects.Store) -> None:
        stored = partial(self._stored, effect.number, effect.keepers)

        def written(done_s: float) -> None:
            self.clock.at(done_s + self._behind.s + self.costs.control_s, MESSAGE, stored)

        self.servers.store(self._t - self._behind.s, written)

    def _stored(self, number: int, keepers: tuple[Key, ...]) -> None:
        if self.coordinator.status is None:
            for keeper in keepers:
                self.tell(self.clock.now, inputs.Saved(keeper, number))

    def _checkpointed(self, effect: effects.Checkpointed) -> None:
        took_s = self.clock.now - self._files.complete(effect.number)
        self.note("Checkpointed", id=effect.number, version=effect.version, seconds=took_s)

    # ---- events of tasks ---------------------------------------------------------------------------------------------

    def lose_worker(self, worker: int, reason: str, *, restarting: bool = True) -> None:
        """A worker's process is lost; with ``restarting`` the next incarnation joins after its restart time."""
        self.drive(lambda t: self._lose(t, NodeId.worker(worker), reason, for_good=not restarting))

    def lose_server(self, server: int, reason: str) -> None:
        """A server's part of the parameters is lost: the job is paused until all have restored the last checkpoint."""
        self.drive(lambda t: self._lose(t, NodeId.server(server), reason))

    def _lose(self, t: float, key: Key, reason: str, *, for_good: bool = False) -> None:
        incarnation = self.recovery.tasks[key].incarnation
        self.tell(t, inputs.Gone(key, incarnation, reason, for_good=for_good))

    def hold(self, task: str) -> None:
        """Kill a task, whose next incarnation is not scheduled before :meth:`release`."""
        self.drive(lambda t: self.tell(t, inputs.Hold(NodeId.parse(task), BY_PLAN)))

    def release(self, task: str) -> None:
        """Allow the task's next incarnation to start."""
        self.drive(lambda t: self.tell(t, inputs.Release(NodeId.parse(task))))

    def resume(self) -> None:
        """All tasks start again, on the job's next places."""
        self._resuming = True
        self.tell(self.clock.now, inputs.Resume())

    def remember(self, version: int) -> None:
        """The update after this version is ordered."""
        if self._followers is not None:
            self._followers.remember(version, self.coordinator.snapshot())
        else:
            self._before = self._as_of_now(version)

    def follows(self, server: int) -> None:
        """A replica of the servers has a copy of all."""
        key = NodeId.server(server)
        self.tell(self.clock.now, inputs.Follows(key, self.recovery.tasks[key].incarnation))

    def watch(self, task: str) -> None:
        """Pause a task from now on."""
        self._standstill.watch(task)

    def _give_up(self, task: str, living: int) -> None:
        self.drive(lambda t: self._silent(t, task, living))

    def _silent(self, t: float, task: str, living: int) -> None:
        if self._standstill.living(task) == living:
            self.tell(t, inputs.Silent(NodeId.parse(task), living, f"no heartbeat for {self.lease_s:.1f} s"))

    # ---- effects -----------------------------------------------------------------------------------------------------

    def tell(self, t: float, given: inputs.AnyInput) -> None:
        """Pass an input at ``t``, which may be when the coordinator's orders leave it."""
        self._t = t
        for effect in self.recovery.receive(given):
            self._t = t
            if isinstance(effect, effects.OfProcess):
                self._of_process(effect)
            elif isinstance(effect, effects.OfCheckpoint):
                self._of_checkpoint(effect)
            elif isinstance(effect, effects.OfGroup):
                self._of_group(effect)
            else:
                self._announce(effect)

    # ---- processes ---------------------------------------------------------------------------------------------------

    def _of_process(self, effect: effects.OfProcess) -> None:
        match effect:
            case effects.Launch():
                self._starts.launch(self._t, effect.key, effect.incarnation, effect.cause)
            case effects.Fence():
                self._fence(effect)
            case effects.Wait():
                self._starts.wait(self._t, effect)
            case effects.Kill():
                if effect.reason:
                    role, number = effect.key
                    self.note("Fenced", role=role, id=number, incarnation=effect.incarnation, reason=effect.reason)
            case _:
                assert_never(effect)

    def _fence(self, effect: effects.Fence) -> None:
        role, number = effect.key
        self.note("Exited", role=role, id=number, incarnation=effect.incarnation, reason=effect.reason)
        if self._followers is not None:
            self._followers.lose(str(effect.key))
        if role == "worker":
            self.workers.lose(number)
            if isinstance(self.servers, ReplicaGroup):
                self.servers.lost(number)
        elif effect.key in self.recovery.state.layout.holders:
            self._away.add(number)
        if self.recovery.tasks[effect.key].state == TaskState.LEFT:
            self.places.leave(effect.key)

    @property
    def _holds(self) -> int:
        """The version of every replica, new ones too, since one model represents all.

        So nothing is lost even if all replicas are; live, the last checkpoint is used then. Those of a job that was
        preempted have none until they have read the checkpoint with which it left.
        """
        if self._resuming:
            return inputs.NOTHING
        return self._held.version if self._agreeing else self.coordinator.version

    # ---- parameters --------------------------------------------------------------------------------------------------

    def _of_checkpoint(self, effect: effects.OfCheckpoint) -> None:
        match effect:
            case effects.Store():
                self._store(effect)
            case effects.Checkpointed():
                self._checkpointed(effect)
            case effects.MayLeave():
                leave = inputs.Leave(effect.key, effect.incarnation)
                self.drive(lambda t: self.tell(t, leave))
            case effects.Load():
                self.servers.divide(self.recovery.state.layout)
                number = self._newest(effect.number)
                told_s = self._t + self.costs.control_s if number == effects.FOLLOWED else self._read_by()
                self.clock.at(told_s, MESSAGE, self._read, number, effect.generation)
            case _:
                assert_never(effect)

    def _newest(self, number: int) -> int:
        """The checkpoint, where a replica that takes over has not even followed to that."""
        if number != effects.FOLLOWED:
            return number
        assert self._followers is not None
        state = self.recovery.state
        stored, heir = self._files.read(state.checkpoints.complete), state.layout.holders[0].number
        return number if self._followers.replicas[heir].version >= stored.version else state.checkpoints.complete

    def _read_by(self) -> float:
        """The time at which a checkpoint is read whose reading begins now."""
        if self._resuming:
            return self._t
        # the order of these sums must not change: records are compared by their bytes
        restore_s, control_s = self.servers.restore_s(), self.costs.control_s
        return self._t + restore_s + control_s if self._away else self._t + (restore_s + control_s)

    def _read(self, number: int, generation: int) -> None:
        if generation != self.recovery.state.generation:
            return
        again, restore_s = partial(self._read, number, generation), self.servers.restore_s()
        if not any(
            self._standstill.starts_late(str(NodeId.server(server)), restore_s, again) for server in sorted(self._away)
        ):
            self.drive(lambda t: self._loaded(t, number, generation))

    def _loaded(self, t: float, number: int, generation: int) -> None:
        """All servers have read the checkpoint, possibly for the second of two workers that returned."""
        state = self.recovery.state
        if generation != state.generation or state.phase != Phase.LOADING:
            return
        self._away.clear()
        if number == effects.FOLLOWED:
            assert self._followers is not None
            self._held = File(*self._followers.take_over(state.layout.holders[0].number))
        else:
            self._held = self._files.read(number)
        for server in state.layout.holders:
            self.tell(t, inputs.Loaded(server, generation, self._held.version, self._held.state))

    def _of_group(self, effect: effects.OfGroup) -> None:
        """Replicas agree: only copying takes time."""
        incarnation = self.recovery.tasks[effect.key].incarnation
        match effect:
            case effects.Attach():
                self.tell(self._t, inputs.Attached(effect.key, incarnation, effect.generation))
            case effects.Halt():
                self.tell(self._t, inputs.Halted(effect.key, incarnation, effect.generation, self._holds))
            case effects.Reconfigure():
                self._reconfigure(effect)
            case effects.Donate():
                pass
            case _:
                assert_never(effect)

    def _reconfigure(self, effect: effects.Reconfigure) -> None:
        """A newcomer's copy is a part of its launch; at the start all are equal."""
        state = self.recovery.state
        task = self.recovery.tasks[effect.key]
        if state.phase == Phase.RUNNING or not state.started:
            if task.state == TaskState.READY:
                self.tell(self._t, inputs.Attached(task.key, task.incarnation, effect.generation))
            return
        if state.rules.failover == "checkpoint" or self._resuming:
            self._held = self._files.read(effect.number)
            self._agree_by(self._read_by())
        else:
            self._agree_by(self._t + self._copy_s)

    def _agree_by(self, formed_s: float) -> None:
        """Schedule the end of an agreement, once for all simultaneous effects."""
        forming = (self.recovery.state.generation, self._t)
        if self._forming != forming:
            self._forming = forming
            self.clock.at(formed_s, MESSAGE, self.drive, partial(self._formed, forming=forming))

    def _formed(self, t: float, forming: tuple[int, float]) -> None:
        if forming == self._forming:
            for key in self.recovery.policy.ring:
                self.tell(t, inputs.Attached(key, self.recovery.tasks[key].incarnation, forming[0]))

    # ---- the coordinator ---------------------------------------------------------------------------------------------

    def _announce(self, news: effects.News) -> None:
        t, coordinator = self._t, self.coordinator
        match news:
            case (
                effects.WorkerLost()
                | effects.WorkerJoined()
                | effects.ServerJoined()
                | effects.ServerLost(holding=False)
                | effects.AuxiliaryLost()
                | effects.AuxiliaryJoined()
            ):
                coordinator.receive(t, news)
            case effects.ServerLost():
                if self._followers is not None:
                    self._followers.remember(coordinator.version, coordinator.snapshot())
                self._void()
                coordinator.receive(t, news)
                self.discard()
            case effects.RolledBack():
                self._roll_back(t, news)
            case effects.Restored():
                self._restore(t, news)
            case effects.Suspended():
                self._suspended()
            case effects.Failed():
                self.fail(news.reason)
            case effects.Started():
                pass
            case _:
                assert_never(news)

    def _suspended(self) -> None:
        self._resuming = False
        self._void()
        self.left()

    def _roll_back(self, t: float, news: effects.RolledBack) -> None:
        """The remaining replicas' state: with the last update, or without it if a worker was lost within its ring."""
        if isinstance(self.servers, ReplicaGroup) and not self._agreeing:
            lacks = self.servers.lacks(t)
            self._held = self._before if lacks else self._as_of_now(self.coordinator.version)
            self._agreeing = True
        self._void()
        self.coordinator.receive(t, news)
        if self._copies:  # the remaining replicas compare versions, whichever workers are still to come
            self._agree_by(t + self._copy_s)

    def _as_of_now(self, version: int) -> File:
        return File(version, self.coordinator.snapshot(), self.learner.dump())

    def _void(self) -> None:
        """Void work in progress: all roll back to a version that all can have."""
        self.workers.lose_all()
        self.servers.halt()
        self.discard()

    def _restore(self, t: float, news: effects.Restored) -> None:
        self._agreeing = self._resuming = False
        self.learner.load(self._held.dumped)
        self.servers.begin_again(t)
        if self._followers is not None:
            self._followers.begin_again()
        for worker in self.coordinator.members.members:
            self.workers.ready(worker, t)
        self.coordinator.receive(t, effects.Restored(news.version, self._held.state, news.shares))
