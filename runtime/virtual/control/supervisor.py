"""Prices the recovery of a virtual run: events of tasks become its inputs, its effects events in time.

:mod:`runtime.core.recovery` decides; durations, and the effects on virtual tasks, are here.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, assert_never, final

from runtime.core.coordinator import Coordinator
from runtime.core.disturbing import BY_PLAN
from runtime.core.recovery import effects, inputs
from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.states import TaskState
from runtime.core.recovery.task import Key
from runtime.virtual.clock import Clock
from runtime.virtual.control.pauses import Pauses
from runtime.virtual.control.places import Places
from runtime.virtual.control.priced import PricedRecovery
from runtime.virtual.control.starts import Starts
from runtime.virtual.control.versions import Versions
from runtime.virtual.costs import Costs
from runtime.virtual.tasks.models import TaskModels
from runtime.virtual.tasks.replicas import ReplicaGroup
from strategies.protocol import NodeId

if TYPE_CHECKING:
    from runtime.virtual.control.session import VirtualSession


@final
class VirtualSupervisor:
    """Like the live one it is a part of the coordinator, so events of a machine wait while the coordinator decides.

    Otherwise the coordinator would continue to order lost tasks, and learn of a return before the loss. ``lease_s``:
    after so many seconds a paused task counts as lost.
    """

    def __init__(
        self,
        clock: Clock,
        costs: Costs,
        coordinator: Coordinator,
        models: TaskModels,
        places: Places,
        owner: VirtualSession,
        *,
        lease_s: float,
    ) -> None:
        self.clock, self.coordinator, self.places, self.owner = clock, coordinator, places, owner
        self.servers, self.workers, self._followers = models.servers, models.workers, models.followers
        job = coordinator.job
        rules = Rules(
            failover=job.failover,
            max_losses=job.max_losses,
            num_replicas=job.num_replicas,
            reads_on_return=True,
            plan_ends_wait=True,
            regroups=True,
        )
        self.recovery = Recovery(rules, coordinator.members)
        priced = PricedRecovery(self.recovery, clock, costs, self.tell, owner.drive)
        self._pauses = Pauses(priced, places.machines, lease_s)
        self.versions = Versions(priced, coordinator, models, self._pauses, owner.note)
        self._starts = Starts(priced, self._pauses, self.versions, models.workers, owner.moved)
        self.tell(0.0, inputs.Begin())

    # ---- events of tasks ---------------------------------------------------------------------------------------------

    def hold(self, task: str, *, moved: bool = False) -> None:
        """Kill a task, whose next incarnation is not scheduled before :meth:`release`; ``moved``: to a dead host."""
        self.owner.drive(lambda t: self.tell(t, inputs.Hold(NodeId.parse(task), BY_PLAN, moved)))

    def release(self, task: str) -> None:
        """Allow the task's next incarnation to start."""
        self.owner.drive(lambda t: self._release(t, NodeId.parse(task)))

    def _release(self, t: float, key: Key) -> None:
        self._starts.released_s[key] = t
        self.tell(t, inputs.Release(key))

    def resume(self) -> None:
        """All tasks start again, on the job's next places."""
        self.versions.resuming = True
        self.tell(self.clock.now, inputs.Resume())

    def follows(self, server: int) -> None:
        """A replica of the servers has a copy of all."""
        key = NodeId.server(server)
        self.tell(self.clock.now, inputs.Follows(key, self.recovery.tasks[key].incarnation))

    def watch(self, task: str) -> None:
        """Pause a task from now on."""
        self._pauses.watch(task)

    # ---- effects -----------------------------------------------------------------------------------------------------

    def tell(self, t: float, given: inputs.AnyInput) -> None:
        """Pass an input at ``t``, which may be when the coordinator's orders leave it."""
        for effect in self.recovery.receive(given):
            if isinstance(effect, effects.OfProcess):
                self._of_process(t, effect)
            elif isinstance(effect, effects.OfCheckpoint):
                self.versions.of_checkpoint(t, effect)
            elif isinstance(effect, effects.OfGroup):
                self.versions.of_group(t, effect)
            else:
                self._announce(t, effect)

    # ---- processes ---------------------------------------------------------------------------------------------------

    def _of_process(self, t: float, effect: effects.OfProcess) -> None:
        match effect:
            case effects.Launch():
                self._starts.launch(t, effect.key, effect.incarnation, effect.cause)
            case effects.Fence():
                self._fence(effect)
            case effects.Wait():
                self._starts.wait(t, effect)
            case effects.Kill():
                if effect.reason:
                    role, number = effect.key
                    self.owner.note(
                        "Fenced", role=role, id=number, incarnation=effect.incarnation, reason=effect.reason
                    )
            case _:
                assert_never(effect)

    def _fence(self, effect: effects.Fence) -> None:
        role, number = effect.key
        self.owner.note("Exited", role=role, id=number, incarnation=effect.incarnation, reason=effect.reason)
        if self._followers is not None:
            self._followers.lose(str(effect.key))
        if role == "worker":
            self.workers.lose(number)
            if isinstance(self.servers, ReplicaGroup):
                self.servers.lost(number)
                self.versions.model_state.lose(number)
        elif effect.key in self.coordinator.members.layout.holders:
            self._pauses.away.add(number)
        if self.recovery.tasks[effect.key].state == TaskState.LEFT:
            self.places.leave(effect.key)

    # ---- the coordinator ---------------------------------------------------------------------------------------------

    def _announce(self, t: float, news: effects.News) -> None:
        coordinator = self.coordinator
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
                self.owner.port.discard()
            case effects.RolledBack():
                self._roll_back(t, news)
            case effects.Restored():
                self._restore(t, news)
            case effects.Suspended():
                self._on_suspended()
            case effects.Failed():
                self.owner.fail(news.reason)
            case effects.Started():
                pass
            case _:
                assert_never(news)

    def _on_suspended(self) -> None:
        self.versions.resuming = False
        self._void()
        self.owner.left()

    def _roll_back(self, t: float, news: effects.RolledBack) -> None:
        self.versions.roll_back(t)
        self._void()
        self.coordinator.receive(t, news)
        self.versions.compare(t)

    def _void(self) -> None:
        """Void work in progress: all roll back to a version that all can have."""
        self.workers.lose_all()
        self.servers.halt()
        self.owner.port.discard()

    def _restore(self, t: float, news: effects.Restored) -> None:
        state = self.versions.restore()
        self.servers.begin_again(t)
        if self._followers is not None:
            self._followers.begin_again()
        for worker in self.coordinator.members.members:
            self.workers.ready(worker, t)
        self.coordinator.receive(t, effects.Restored(news.version, state))
