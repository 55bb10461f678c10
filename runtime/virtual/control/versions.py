"""Which version of the parameters all come back to, and when: checkpoints, and the agreement of replicas."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any, assert_never, final

from runtime.core.coordinator import Coordinator
from runtime.core.recovery import effects, inputs
from runtime.core.recovery.states import Phase, TaskState
from runtime.core.recovery.task import Key
from runtime.virtual.clock import MESSAGE
from runtime.virtual.control.files import File, Files
from runtime.virtual.control.pauses import Pauses
from runtime.virtual.control.priced import PricedRecovery
from runtime.virtual.tasks.models import TaskModels
from runtime.virtual.tasks.replicas import ReplicaGroup
from strategies.protocol import NodeId


@final
class Versions:
    """Carries out what the recovery orders about parameters: of checkpoints and, among replicas, of the group.

    ``note`` writes to the record.
    """

    def __init__(
        self,
        priced: PricedRecovery,
        coordinator: Coordinator,
        models: TaskModels,
        pauses: Pauses,
        note: Callable[..., None],
    ) -> None:
        self.recovery, self.clock, self.costs, self.tell, self.drive = priced
        self.coordinator, self.pauses, self.note = coordinator, pauses, note
        self.servers, self.model_state, self.followers = models.servers, models.model_state, models.followers
        self.are_replicas = isinstance(models.servers, ReplicaGroup)
        """Whether the workers hold the parameters themselves."""
        self._copies = self.are_replicas and coordinator.job.failover != "checkpoint"
        """A returning replica copies the parameters of those that stayed."""
        self.resuming = False
        """Whether the job has its places back and does not train yet."""
        self._files = Files()
        self._before: File
        """The replicas' state before the last update."""
        self._held: File
        """The state on which they agree, or which the servers have read."""
        self._agreeing = False
        """Whether replicas agree on a version; losses meanwhile do not change it."""
        self._forming = (0, 0.0)
        """The generation whose replicas agree, and the time of its start."""

    # ---- what there is -----------------------------------------------------------------------------------------------

    @property
    def copy_s(self) -> float:
        """Seconds in which a replica copies the state that it lacks, now."""
        return self.servers.copy_s if isinstance(self.servers, ReplicaGroup) else 0.0

    def holds(self) -> int:
        """The version of every replica, new ones too, since one model represents all.

        So nothing is lost even if all replicas are; live, the last checkpoint is used then. Replicas of a preempted job
        have no version until they have read the checkpoint with which it left.
        """
        if self.resuming:
            return inputs.NOTHING
        return self._held.version if self._agreeing else self.coordinator.version

    def remember(self, version: int) -> None:
        """The update after this version is ordered: replicas may have to return to it."""
        if self.followers is not None:
            self.followers.remember(version, self.coordinator.snapshot())
        elif self.are_replicas:
            self._before = self._as_of_now(version)

    def _as_of_now(self, version: int) -> File:
        return File(version, self.coordinator.snapshot(), self.model_state.dump())

    # ---- checkpoints -------------------------------------------------------------------------------------------------

    def save(self, asked_s: float, version: int, state: bytes, dumped: Any) -> None:
        """The servers write a checkpoint; it is complete when the last has done so."""
        self._files.add(self.recovery.state.checkpoints.next, File(version, state, dumped), asked_s)
        self.tell(asked_s, inputs.Save(version, state))

    def of_checkpoint(self, t: float, effect: effects.OfCheckpoint) -> None:
        """Carry out an effect at ``t``."""
        match effect:
            case effects.Store():
                self._store(t, effect)
            case effects.Checkpointed():
                took_s = self.clock.now - self._files.complete(effect.number)
                self.note("Checkpointed", id=effect.number, version=effect.version, seconds=took_s)
            case effects.MayLeave():
                leave = inputs.Leave(effect.key, effect.incarnation)
                self.drive(lambda t: self.tell(t, leave))
            case effects.Load():
                self.servers.divide(self.coordinator.members.layout)
                number = self._newest(effect.number)
                told_s = t + self.costs.control_s if number == effects.FOLLOWED else self._read_by(t)
                self.clock.at(told_s, MESSAGE, self._read, number, effect.generation)
            case _:
                assert_never(effect)

    def _store(self, t: float, effect: effects.Store) -> None:
        stored = partial(self._on_stored, effect.number, effect.savers)

        def written(done_s: float) -> None:
            self.clock.at(done_s + self.costs.control_s, MESSAGE, stored)

        self.servers.store(t, written)

    def _on_stored(self, number: int, savers: tuple[Key, ...]) -> None:
        if self.coordinator.status is None:
            for saver in savers:
                self.tell(self.clock.now, inputs.Saved(saver, number))

    def _newest(self, number: int) -> int:
        """The checkpoint, where a replica that takes over has not even followed to that."""
        if number != effects.FOLLOWED:
            return number
        assert self.followers is not None
        state = self.recovery.state
        stored, heir = self._files.read(state.checkpoints.complete), self.coordinator.members.layout.holders[0].number
        return number if self.followers.replicas[heir].version >= stored.version else state.checkpoints.complete

    def _read_by(self, t: float) -> float:
        """The time at which a checkpoint is read whose reading begins at ``t``."""
        if self.resuming:
            return t
        # the order of these sums must not change: records are compared by their bytes
        restore_s, control_s = self.servers.restore_s(), self.costs.control_s
        return t + restore_s + control_s if self.pauses.away else t + (restore_s + control_s)

    def _read(self, number: int, generation: int) -> None:
        if generation != self.recovery.state.generation:
            return
        again, restore_s = partial(self._read, number, generation), self.servers.restore_s()
        if not any(
            self.pauses.starts_late(str(NodeId.server(server)), restore_s, again) for server in sorted(self.pauses.away)
        ):
            self.drive(lambda t: self._on_loaded(t, number, generation))

    def _on_loaded(self, t: float, number: int, generation: int) -> None:
        """All servers have read the checkpoint, possibly for the second of two workers that returned."""
        state = self.recovery.state
        if generation != state.generation or state.phase != Phase.LOADING:
            return
        self.pauses.away.clear()
        if number == effects.FOLLOWED:
            assert self.followers is not None
            self._held = File(*self.followers.take_over(self.coordinator.members.layout.holders[0].number))
        else:
            self._held = self._files.read(number)
        for server in self.coordinator.members.layout.holders:
            self.tell(t, inputs.Loaded(server, generation, self._held.version, self._held.state))

    # ---- replicas that agree: only copying takes time ----------------------------------------------------------------

    def of_group(self, t: float, effect: effects.OfGroup) -> None:
        """Carry out an effect at ``t``."""
        incarnation = self.recovery.tasks[effect.key].incarnation
        match effect:
            case effects.Attach():
                self.tell(t, inputs.Attached(effect.key, incarnation, effect.generation))
            case effects.Halt():
                self.tell(t, inputs.Halted(effect.key, incarnation, effect.generation, self.holds()))
            case effects.Reconfigure():
                self._reconfigure(t, effect)
            case effects.TransferState():
                self.model_state.take_over(effect.to.number, effect.key.number)
            case _:
                assert_never(effect)

    def _reconfigure(self, t: float, effect: effects.Reconfigure) -> None:
        """A newcomer's copy is a part of its launch; at the start all are equal."""
        state = self.recovery.state
        task = self.recovery.tasks[effect.key]
        if state.phase == Phase.RUNNING or not state.started:
            if task.state == TaskState.READY:
                self.tell(t, inputs.Attached(task.key, task.incarnation, effect.generation))
            return
        if state.rules.failover == "checkpoint" or self.resuming:
            self._held = self._files.read(effect.number)
            self._agree(t, self._read_by(t))
        else:
            self._agree(t, t + self.copy_s)

    def _agree(self, t: float, formed_s: float) -> None:
        """Schedule the end of an agreement that begins at ``t``, once for all simultaneous effects."""
        forming = (self.recovery.state.generation, t)
        if self._forming != forming:
            self._forming = forming
            self.clock.at(formed_s, MESSAGE, self.drive, partial(self._on_formed, forming=forming))

    def _on_formed(self, t: float, forming: tuple[int, float]) -> None:
        if forming == self._forming:
            for key in self.coordinator.members.ring:
                self.tell(t, inputs.Attached(key, self.recovery.tasks[key].incarnation, forming[0]))

    # ---- all come back -----------------------------------------------------------------------------------------------

    def roll_back(self, t: float) -> None:
        """The remaining replicas' state: with the last update, or without it if a worker was lost within its ring."""
        if isinstance(self.servers, ReplicaGroup) and not self._agreeing:
            lacks = self.servers.lacks(t)
            self._held = self._before if lacks else self._as_of_now(self.coordinator.version)
            self._agreeing = True

    def compare(self, t: float) -> None:
        """The remaining replicas compare versions, whichever workers are still to come."""
        if self._copies:
            self._agree(t, t + self.copy_s)

    def restore(self) -> bytes:
        """All have what they agreed on, or what the servers have read; returns the state of the data service then."""
        self._agreeing = self.resuming = False
        self.model_state.load(self._held.dumped)
        return self._held.state
