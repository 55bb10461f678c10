"""Recovery where parameter servers hold the parameters, each a part (pure).

A lost server takes every version since the last checkpoint with it: when all servers are ready again, they read that
checkpoint, all clients connect again, and the job continues. The loss of a server that holds nothing yet has no effect.
A worker's lost work can be computed again; with ``failover=checkpoint`` all roll back nevertheless, as training without
a data service must.
"""

from __future__ import annotations

from typing import final

from runtime.core.recovery.effects import FOLLOWED, Load, Restored, ServerJoined
from runtime.core.recovery.inputs import Loaded
from runtime.core.recovery.policy import Policy
from runtime.core.recovery.state import RecoveryState
from runtime.core.recovery.states import Phase, PhaseStep, TaskState
from runtime.core.recovery.task import REACHABLE, Key, TaskLife


@final
class Servers(Policy):
    """The policy of parameter servers, see :class:`runtime.core.recovery.policy.Policy`."""

    primary: Key | None = None

    def __init__(self, state: RecoveryState) -> None:
        self.state = state
        self._loaded: dict[int, Loaded] = {}
        self._reading = False
        """Whether servers were ordered to read a checkpoint and have not all done so."""
        self._following = {server.key for server in state.servers if state.is_replica(server)}
        """Replicas that have a copy of all parameters and follow: at the start all, since parameters are equal."""
        self._heir: Key | None = None
        """The replica that takes over in this recovery."""

    @property
    def savers(self) -> tuple[Key, ...]:
        """The servers that hold parameters."""
        return self.state.members.layout.holders

    def ready(self, task: TaskLife, version: int) -> None:
        """The last server completes the set; a client connects if the set is complete."""
        state = self.state
        if task.role == "server":
            if not state.holds(task):
                if state.started or not state.is_replica(task):
                    state.emit(ServerJoined(task.id, task.incarnation))
                else:
                    self._following.add(task.key)
            elif state.phase == Phase.RENDEZVOUS and self._all_servers_ready():
                self._on_gathered()
        elif state.phase in (Phase.RUNNING, Phase.ATTACHING):
            state.attach(task, self.savers)
        elif self._reads_on_return and task.role == "worker" and self._all_servers_ready() and not self._reading:
            self._read()

    def _all_servers_ready(self) -> bool:
        return all(server.state == TaskState.READY for server in self.state.holders())

    def _on_gathered(self) -> None:
        """All servers are ready: read a checkpoint, except at the start."""
        if self.state.generation:
            self._read()
        else:
            self._attach_all(PhaseStep.AGREED)

    def _read(self) -> None:
        if self.state.phase == Phase.RENDEZVOUS:
            self.state.step(PhaseStep.ALL_READY)
        self._loaded, self._reading = {}, True
        number = self.state.checkpoints.complete if self._heir is None else FOLLOWED
        self.state.emit(Load(number, self.state.generation, self.savers))

    def loaded(self, server: TaskLife, said: Loaded) -> None:
        """When the last server has read its part, clients connect."""
        state = self.state
        if state.phase != Phase.LOADING or said.generation != state.generation:
            return
        self._loaded[server.id] = said
        if len(self._loaded) == len(self.savers):
            self._reading = False
            if not (self._reads_on_return and self._anyone_away()):
                self._attach_all(PhaseStep.LOADED)

    def _attach_all(self, step: PhaseStep) -> None:
        self.state.step(step)
        for client in self.state.clients:
            self.state.attach(client, self.savers)

    # ---- losses ------------------------------------------------------------------------------------------------------

    def concerns_all(self, worker: TaskLife) -> bool:
        """Whether all roll back: with ``failover=checkpoint``, unless it was never there."""
        new = not worker.awaited and self.state.phase == Phase.RUNNING
        return self.state.rules.failover == "checkpoint" and not new

    def begin_again(self) -> None:
        """Servers read as soon as all are ready, or when the lost worker is back; or a replica takes over at once.

        All other replicas need another copy then.
        """
        self.state.lose()
        self._reading = False
        self._heir = None if self._all_servers_ready() else self._find_heir()
        if self.state.started:
            self._following.clear()
        if self._heir is not None:
            self.state.members.divide(((self._heir, 1.0),))
        if self._all_servers_ready() and not (self._reads_on_return and self._anyone_away()):
            self._on_gathered()

    def _find_heir(self) -> Key | None:
        """The first replica that follows, in place of the one server that there is with replicas.

        Before the job begins there is nothing to lose: the server starts again.
        """
        tasks = self.state.tasks
        if not self.state.started:
            return None
        return min((key for key in self._following if tasks[key].state in REACHABLE), default=None)

    def follows(self, server: TaskLife) -> None:
        """It can take over from now on."""
        if self.state.is_replica(server) and self.state.phase == Phase.RUNNING:
            self._following.add(server.key)

    def lost_copy(self, server: TaskLife) -> None:
        """It cannot take over before it has another."""
        self._following.discard(server.key)

    @property
    def _reads_on_return(self) -> bool:
        rules = self.state.rules
        return rules.reads_on_return and rules.failover == "checkpoint"

    def _anyone_away(self) -> bool:
        return any(self.state.is_awaited(one) and one.state not in REACHABLE for one in self.state.workers)

    # ---- the end of a recovery ---------------------------------------------------------------------------------------

    def takes_part(self, task: TaskLife) -> bool:
        return True

    def still_attaching(self) -> bool:
        """Whether a worker is not attached yet; the evaluator and the scorer are not awaited."""
        return self.state.unattached(reversed(self.state.workers))

    def complete(self) -> Restored:
        """Restore the checkpoint that all have read; each part has the same version and state."""
        said = self._loaded[self.savers[0].number]
        return Restored(said.version, said.state)
