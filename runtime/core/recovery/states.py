"""States of tasks, phases of a recovery, and their transitions: two tables (pure)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from enum import StrEnum
from typing import TypeVar


class TaskState(StrEnum):
    """The state of a task's newest incarnation."""

    LAUNCHING = "launching"
    """Its process has been ordered and has not said yet that it is built."""
    READY = "ready"
    """It can be reached, and waits for its part."""
    ATTACHED = "attached"
    """It is connected to all whose parameters it needs."""
    HELD = "held"
    """The plan has killed it, or the cluster has taken its place, and it may not start yet."""
    PENDING = "pending"
    """The strategy wants it, or wants it elsewhere, and the scheduler has no place yet."""
    LEFT = "left"
    """It is gone for good."""


class TaskStep(StrEnum):
    """Steps that change the state of a task."""

    BUILT = "built"
    """Its process is ready."""
    DETACHED = "detached"
    """It has to connect again, since the parameters are elsewhere or of another generation."""
    CONNECTED = "connected"
    """It says that it is connected."""
    REPLACED = "replaced"
    """It is gone; its next incarnation is launched."""
    STOPPED = "stopped"
    """The plan kills it, or the cluster takes its place."""
    MOVED = "moved"
    """The strategy restarts it."""
    CROWDED = "crowded"
    """Its device has too little memory left, and may soon have more."""
    RELEASED = "released"
    """Nobody keeps it from starting any more; it is launched."""
    DEPARTED = "departed"
    """It is gone and does not come back, or the request for it is taken back."""


class Phase(StrEnum):
    """The phase of a recovery towards one version."""

    RENDEZVOUS = "rendezvous"
    """Waits for the servers to be ready, or for all replicas to say which version they hold."""
    LOADING = "loading"
    """The servers read the checkpoint."""
    ATTACHING = "attaching"
    """Workers connect to the servers, or replicas take over what they lack."""
    RUNNING = "running"
    """The job trains."""


class PhaseStep(StrEnum):
    """Steps that change the phase of a recovery."""

    LOSS = "loss"
    """The parameters of one are gone, all roll back, or others hold them; a new generation begins."""
    ALL_READY = "all_ready"
    """All servers are ready."""
    AGREED = "agreed"
    """The state that everybody continues from is known, and no server has to read it first."""
    LOADED = "loaded"
    """All servers have read the checkpoint."""
    COMPLETE = "complete"
    """Everybody who is waited for is attached."""


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
