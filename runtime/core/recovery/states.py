"""States of tasks, phases of a recovery, and their transitions: two tables (pure).

``docs/recovery.md`` is generated from here, which a test checks.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar


class TaskState(StrEnum):
    """The state of a task's newest incarnation."""

    LAUNCHING = "launching"
    READY = "ready"
    ATTACHED = "attached"
    HELD = "held"
    PENDING = "pending"
    LEFT = "left"


class TaskStep(StrEnum):
    """Steps that change the state of a task."""

    BUILT = "built"
    DETACHED = "detached"
    CONNECTED = "connected"
    REPLACED = "replaced"
    STOPPED = "stopped"
    MOVED = "moved"
    CROWDED = "crowded"
    RELEASED = "released"
    DEPARTED = "departed"


class Phase(StrEnum):
    """The phase of a recovery towards one version."""

    RENDEZVOUS = "rendezvous"
    LOADING = "loading"
    ATTACHING = "attaching"
    RUNNING = "running"


class PhaseStep(StrEnum):
    """Steps that change the phase of a recovery."""

    LOSS = "loss"
    ALL_READY = "all_ready"
    AGREED = "agreed"
    LOADED = "loaded"
    COMPLETE = "complete"


MEANING: dict[TaskState | TaskStep | Phase | PhaseStep, str] = {
    TaskState.LAUNCHING: "its process has been ordered and has not said yet that it is built",
    TaskState.READY: "it can be reached, and waits for its part",
    TaskState.ATTACHED: "it is connected to all whose parameters it needs",
    TaskState.HELD: "the plan has killed it, or the cluster has taken its place, and it may not start yet",
    TaskState.PENDING: "the strategy wants it, or wants it elsewhere, and the scheduler has no place yet",
    TaskState.LEFT: "it is gone for good",
    TaskStep.BUILT: "its process is ready",
    TaskStep.DETACHED: "it has to connect again, since the parameters are elsewhere or of another generation",
    TaskStep.CONNECTED: "it says that it is connected",
    TaskStep.REPLACED: "it is gone; its next incarnation is launched",
    TaskStep.STOPPED: "the plan kills it, or the cluster takes its place",
    TaskStep.MOVED: "the strategy restarts it",
    TaskStep.CROWDED: "its device has too little memory left, and may soon have more",
    TaskStep.RELEASED: "nobody keeps it from starting any more; it is launched",
    TaskStep.DEPARTED: "it is gone and does not come back, or the request for it is taken back",
    Phase.RENDEZVOUS: "waits for the servers to be ready, or for all replicas to say which version they hold",
    Phase.LOADING: "the servers read the checkpoint",
    Phase.ATTACHING: "workers connect to the servers, or replicas take over what they lack",
    Phase.RUNNING: "the job trains",
    PhaseStep.LOSS: "the parameters of one are gone, all roll back, or others hold them; a new generation begins",
    PhaseStep.ALL_READY: "all servers are ready",
    PhaseStep.AGREED: "the state that everybody continues from is known, and no server has to read it first",
    PhaseStep.LOADED: "all servers have read the checkpoint",
    PhaseStep.COMPLETE: "everybody who is waited for is attached",
}

_GONE = {
    TaskStep.REPLACED: TaskState.LAUNCHING,
    TaskStep.STOPPED: TaskState.HELD,
    TaskStep.DEPARTED: TaskState.LEFT,
}
"""Steps that every state of a live process has: it can end at any time."""
_BUILT = {
    TaskStep.DETACHED: TaskState.READY,
    TaskStep.CONNECTED: TaskState.ATTACHED,
    TaskStep.MOVED: TaskState.PENDING,
    TaskStep.CROWDED: TaskState.PENDING,
}

TASK_TABLE: Mapping[TaskState, Mapping[TaskStep, TaskState]] = {
    TaskState.LAUNCHING: {TaskStep.BUILT: TaskState.READY, TaskStep.CROWDED: TaskState.PENDING, **_GONE},
    TaskState.READY: {**_BUILT, **_GONE},
    TaskState.ATTACHED: {**_BUILT, **_GONE},
    TaskState.HELD: {TaskStep.RELEASED: TaskState.LAUNCHING, TaskStep.DEPARTED: TaskState.LEFT},
    TaskState.PENDING: {
        TaskStep.RELEASED: TaskState.LAUNCHING,
        TaskStep.STOPPED: TaskState.HELD,
        TaskStep.DEPARTED: TaskState.LEFT,
    },
    TaskState.LEFT: {},
}

PHASE_TABLE: Mapping[Phase, Mapping[PhaseStep, Phase]] = {
    Phase.RENDEZVOUS: {
        PhaseStep.LOSS: Phase.RENDEZVOUS,
        PhaseStep.ALL_READY: Phase.LOADING,
        PhaseStep.AGREED: Phase.ATTACHING,
    },
    Phase.LOADING: {PhaseStep.LOSS: Phase.RENDEZVOUS, PhaseStep.LOADED: Phase.ATTACHING},
    Phase.ATTACHING: {PhaseStep.LOSS: Phase.RENDEZVOUS, PhaseStep.COMPLETE: Phase.RUNNING},
    Phase.RUNNING: {PhaseStep.LOSS: Phase.RENDEZVOUS},
}


class ImpossibleTransitionError(RuntimeError):
    """A step that the table does not have: an error of the caller. The message contains the history."""


State = TypeVar("State", TaskState, Phase)
Step = TypeVar("Step", TaskStep, PhaseStep)


def after(
    table: Mapping[State, Mapping[Step, State]], state: State, step: Step, who: str, history: Iterable[object]
) -> State:
    """The state that follows; raises :class:`ImpossibleTransitionError` where none does.

    ``who`` and ``history`` (its earlier inputs, oldest first) are for the message.
    """
    following = table[state].get(step)
    if following is None:
        possible = ", ".join(table[state]) or "nothing"
        before = "; ".join(map(str, history)) or "nothing"
        raise ImpossibleTransitionError(
            f"{who} is {state}: {step} is impossible (possible: {possible}; before: {before})"
        )
    return following
