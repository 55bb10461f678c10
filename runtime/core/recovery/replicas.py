"""Recovery where every worker holds all parameters, and they agree on one version after any loss (pure).

A lost replica takes a gradient with it and breaks the ring in the middle of a sum, which some of the others may have
completed and some not. So all halt, drop work in progress and report the version they hold; the newest wins, replicas
that are behind or new copy all state from a current one, and the data service returns to just before the first update
that this version lacks. If no replica has any parameters left, the last checkpoint is the newest.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import NamedTuple, final

from runtime.core.recovery.effects import Halt, Reconfigure, Restored, TransferState
from runtime.core.recovery.inputs import NOTHING, Halted
from runtime.core.recovery.policy import Policy
from runtime.core.recovery.state import RecoveryState
from runtime.core.recovery.states import Phase, PhaseStep, TaskState, TaskStep
from runtime.core.recovery.task import REACHABLE, Key, TaskLife
from strategies.protocol import NodeId


class Agreement(NamedTuple):
    """The agreed version, its holder, and the replicas that copy it."""

    version: int
    source: int
    behind: tuple[int, ...]


def agree(versions: Mapping[int, int]) -> Agreement | None:
    """Choose the newest version, from the lowest worker that has it; None if no replica has any.

    Versions differ by one update at most, the last that was ordered, so nothing that was applied is lost.
    """
    newest = max(versions.values())
    if newest == NOTHING:
        return None
    source = min(worker for worker, version in versions.items() if version == newest)
    return Agreement(newest, source, tuple(sorted(worker for worker in versions if versions[worker] != newest)))


@final
class Replicas(Policy):
    """The policy of replicas, see :class:`runtime.core.recovery.policy.Policy`."""

    def __init__(self, state: RecoveryState) -> None:
        self.state, self.members = state, state.members
        self._primary = 0
        self._versions: dict[int, int] = {}
        self._restored = Restored(0, b"")

    @property
    def primary(self) -> Key | None:
        """The lowest replica when the group last formed, unless it has left the ring since."""
        return NodeId.worker(self._primary)

    @property
    def savers(self) -> tuple[Key, ...]:
        """One replica, since all hold the same parameters."""
        return (NodeId.worker(self._primary),)

    def elect_primary(self, worker: Key) -> None:
        """Auxiliary tasks connect to it. During a recovery nothing changes: all are in the ring after it."""
        if self.state.phase == Phase.RUNNING:
            self._primary = worker.number
            for auxiliary in self.state.auxiliaries:
                self._attach(auxiliary)

    # ---- membership --------------------------------------------------------------------------------------------------

    def ready(self, task: TaskLife, version: int) -> None:
        """Use the version of a ready worker during an agreement; otherwise the others train already."""
        phase = self.state.phase
        if task.role != "worker":
            if phase != Phase.RENDEZVOUS:
                self._attach(task)
        elif phase == Phase.RENDEZVOUS:
            self._stands(task, version)
        elif phase == Phase.ATTACHING and self.state.rules.regroups:
            self.begin_again()
        elif phase == Phase.RUNNING:
            self._welcome()

    def halted(self, worker: TaskLife, said: Halted) -> None:
        if said.generation == self.state.generation and worker.state in REACHABLE:
            self._stands(worker, said.version)

    def _stands(self, worker: TaskLife, version: int) -> None:
        self._versions[worker.id] = version
        self._settle()

    def _settle(self) -> None:
        """When the last awaited replica has reported, all continue from the same version."""
        state, said = self.state, self._versions
        # of ten thousand that report in order, a silent one is found fastest from the end
        silent = (one.id not in said and state.is_awaited(one) for one in reversed(state.workers))
        if state.phase != Phase.RENDEZVOUS or any(silent):
            return
        awaited = [worker for worker in state.workers if state.is_awaited(worker)]
        if not awaited:
            return
        self.members.ring = tuple(worker.key for worker in awaited)
        self._primary = awaited[0].id
        self.state.step(PhaseStep.AGREED)
        by_file = self.state.rules.failover == "checkpoint"
        found = None if by_file else agree({worker.id: self._versions[worker.id] for worker in awaited})
        if found is None:
            self._from_the_disk()
        else:
            self._from_each_other(found)
        for auxiliary in self.state.auxiliaries:
            self._attach(auxiliary)

    def _from_the_disk(self) -> None:
        """Continue from the last checkpoint or, before there is one, from the initial parameters."""
        checkpoints = self.state.checkpoints
        number = checkpoints.complete
        self._restored = Restored(*checkpoints.contents.get(number, (0, b"")))
        for key in self.members.ring:
            self._reconfigure(key, number=number, anew=number < 0)

    def _from_each_other(self, found: Agreement) -> None:
        self._restored = Restored(found.version, None)
        for key in self.members.ring:
            self._reconfigure(key, source=found.source if key.number in found.behind else -1)
        for worker in found.behind:
            self._donate(found.source, worker)

    def _welcome(self) -> None:
        """Admit newcomers while the others train: they copy the state, and join the ring of the next ordered update."""
        workers = self.state.workers
        new = [one.key for one in workers if one.state == TaskState.READY and one.key not in self.members.ring]
        if not new:
            return
        self.members.ring = tuple(sorted((*self.members.ring, *new)))
        for key in self.members.ring:
            self._reconfigure(key, source=self._primary if key in new else -1)
        for _, worker in sorted(new):
            self._donate(self._primary, worker)

    def _reconfigure(self, key: Key, source: int = -1, number: int = -1, anew: bool = False) -> None:
        """Send the new ring; replicas that only gain newcomers remain attached."""
        if source >= 0 or self.state.phase == Phase.ATTACHING:
            self.state.tasks[key].step(TaskStep.DETACHED)
        ring, generation = self.members.ring, self.state.generation
        self.state.emit(Reconfigure(key, generation, ring, source=source, number=number, anew=anew))

    def _donate(self, source: int, worker: int) -> None:
        to = self.state.tasks[NodeId.worker(worker)]
        self.state.emit(TransferState(NodeId.worker(source), to.key, to.incarnation))

    def _attach(self, auxiliary: TaskLife) -> None:
        """Attach the evaluator to one replica."""
        self.state.attach(auxiliary, self.savers)

    # ---- losses ------------------------------------------------------------------------------------------------------

    def concerns_all(self, worker: TaskLife) -> bool:
        """Every loss, except of a worker that was never announced."""
        return worker.key in self.members.ring or self.state.phase != Phase.RUNNING

    def lost_early(self, worker: TaskLife) -> None:
        """Nothing to do: the others wait for its next incarnation."""
        self.begin_again()

    def begin_again(self) -> None:
        """All replicas halt and report their version."""
        self.state.lose()
        self.members.ring, self._versions = (), {}
        for worker in self.state.workers:
            if worker.state in REACHABLE:
                self.state.emit(Halt(worker.key, self.state.generation))
        self._settle()

    # ---- the end of a recovery ---------------------------------------------------------------------------------------

    def takes_part(self, task: TaskLife) -> bool:
        """A worker counts only once it is in the ring."""
        return task.role != "worker" or task.key in self.members.ring

    def still_attaching(self) -> bool:
        """Whether a member of the ring is not attached yet."""
        return self.state.unattached(self.state.tasks[key] for key in reversed(self.members.ring))

    def complete(self) -> Restored:
        """Restore the agreed version, then admit workers that came meanwhile."""
        self._welcome()
        return self._restored
