"""The state of a recovery, and its elementary changes (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence

from runtime.core.membership import Membership
from runtime.core.recovery.checkpoints import Checkpoints
from runtime.core.recovery.effects import AnyEffect, Attach
from runtime.core.recovery.rules import Rules
from runtime.core.recovery.states import PHASE_TABLE, Phase, PhaseStep, TaskState, TaskStep, after
from runtime.core.recovery.task import REACHABLE, REMEMBERED_STEPS, Key, TaskLife


class RecoveryState:
    """The state that the automaton and its policy share.

    ``generation`` counts the losses after which all had to connect again; ``started``: the job has begun.
    """

    def __init__(self, rules: Rules, members: Membership, auxiliaries: Sequence[Key]) -> None:
        self.rules, self.members = rules, members
        self.servers = [TaskLife(role=node.role, id=node.number) for node in members.layout.servers]
        self.workers = [TaskLife(role=node.role, id=node.number) for node in members.layout.workers]
        self.auxiliaries = [TaskLife(role=key.role, id=key.number) for key in auxiliaries]
        self.clients = [*self.workers, *self.auxiliaries]
        self.tasks = members.tasks
        self.tasks.update({task.key: task for task in (*self.servers, *self.clients)})
        self.phase = Phase.RENDEZVOUS
        self.generation = 0
        self.started = False
        self.checkpoints = Checkpoints()
        self.leaving: tuple[Key, int, int, float] | None = None
        """Servers that are to restart: incarnation, the checkpoint before, and the pending time."""
        self.moving: tuple[int, tuple[tuple[Key, float], ...]] | None = None
        """The shares of a repartition, and the checkpoint before it."""
        self.suspending: int | None = None
        """The checkpoint with which all leave."""
        self.history: deque[str] = deque(maxlen=REMEMBERED_STEPS)
        self._effects: list[AnyEffect] = []
        self._absent = frozenset(
            {TaskState.LEFT} if rules.failover == "checkpoint" else {TaskState.LEFT, TaskState.PENDING}
        )

    # ---- effects -----------------------------------------------------------------------------------------------------

    def emit(self, effect: AnyEffect) -> None:
        """Append an effect to those emitted before."""
        self._effects.append(effect)

    def take_effects(self) -> list[AnyEffect]:
        """All effects since the last call."""
        effects, self._effects = self._effects, []
        return effects

    # ---- phases ------------------------------------------------------------------------------------------------------

    def step(self, step: PhaseStep) -> None:
        """Change to the next phase; raises :class:`runtime.core.recovery.states.ImpossibleTransitionError`."""
        self.phase = after(PHASE_TABLE, self.phase, step, "the recovery", self.history)
        self.history.append(f"{step} (generation {self.generation})")

    def lose(self) -> None:
        """Begin a new generation: inputs of the last one and incomplete checkpoints are void."""
        self.generation += 1
        self.step(PhaseStep.LOSS)
        self.checkpoints.abandon()
        self.leaving = self.moving = None

    # ---- tasks -------------------------------------------------------------------------------------------------------

    def holds(self, task: TaskLife) -> bool:
        """Whether this is a server that holds a part of the parameters."""
        return task.key in self.members.layout.holders

    def is_replica(self, task: TaskLife) -> bool:
        """Whether this is a server that holds no part of the parameters, and is to hold a copy of all."""
        return self.rules.num_replicas > 0 and task.role == "server" and not self.holds(task)

    def replicas(self) -> list[TaskLife]:
        """The servers that are replicas of the holder, in any state."""
        return [server for server in self.servers if self.is_replica(server)]

    def holders(self) -> list[TaskLife]:
        """The servers that hold parameters, in the order of the vector."""
        return [self.tasks[server] for server in self.members.layout.holders]

    def admit(self, node: Key) -> TaskLife:
        """Add a node that waits for its place; workers, servers and clients include it from now on."""
        task = TaskLife(
            role=node.role,
            id=node.number,
            state=TaskState.PENDING,
            holders={"scheduler"},
            admitted=True,
            awaited=False,
        )
        if node.role == "server":
            self.servers.append(task)
        else:
            self.workers.append(task)
            self.clients.insert(len(self.workers) - 1, task)
        self.tasks[node] = task
        return task

    # ---- attachments -------------------------------------------------------------------------------------------------

    def is_awaited(self, task: TaskLife) -> bool:
        """Whether a recovery waits for this worker.

        Not for one that is gone for good, nor, if the others can continue without it, for one that waits for a place;
        they always can without one that was never there.
        """
        return task.state not in self._absent and (task.awaited or task.state != TaskState.PENDING)

    def unattached(self, clients: Iterable[TaskLife]) -> bool:
        """Whether one of these is awaited and not attached yet; found fastest if the last ones to attach come first."""
        return any(task.state != TaskState.ATTACHED and self.is_awaited(task) for task in clients)

    def attach(self, task: TaskLife, to: Sequence[Key]) -> None:
        """Order a task to connect, if it is reachable."""
        if task.state in REACHABLE:
            task.step(TaskStep.DETACHED)
            self.emit(Attach(task.key, self.generation, tuple(to)))
