"""Phases of a switch to other servers, what changes them, and what is to be done then: two tables (pure).

``SEAMLESS`` is DLRover's (section 5.3): workers train until all new servers are ready. ``STOP_RESTART`` is what native
TensorFlow does, and so Optimus and Or et al. in its comparison: training stops first, then new nodes start.

Whatever is commanded while the parameters are not there is void, so an abandoned switch is cleared up only when they
are restored. A phase and an input that a table does not have do not happen: :func:`after` raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """How far the switch is; the last three while a server is lost and the runtime restores the parameters."""

    TRAINING = "training"
    LAUNCHING = "launching"
    DRAINING = "draining"
    STOPPED = "stopped"
    MOVING = "moving"
    DOWN = "down"
    DOWN_SWITCHING = "down while switching"
    DOWN_ABANDONED = "down, switch abandoned"


class Input(StrEnum):
    """What changes the phase of a switch."""

    ASKED = "asked"
    ALL_JOINED = "all joined"
    NEW_LOST = "new server lost"
    TOO_LATE = "too late"
    DRAINED = "drained"
    DRAIN_OVER = "drain over"
    SERVER_LOST = "server lost"
    RESTORED_OLD = "restored on the old"
    RESTORED_NEW = "restored on the new"
    GIVEN_UP = "given up"


class Effect(StrEnum):
    """What is to be done."""

    LAUNCH = "launch"
    DROP = "drop"
    CHECKPOINT = "checkpoint"
    RESTART_WORKERS = "restart workers"
    MOVE = "move"
    RESUME = "resume"
    RETIRE_OLD = "retire old"
    RETIRE_NEW = "retire new"
    FINISHED = "finished"
    ABANDONED = "abandoned"


MEANING: dict[Phase | Input | Effect, str] = {
    Phase.TRAINING: "no switch is under way",
    Phase.LAUNCHING: "workers train, new servers start",
    Phase.DRAINING: "nobody begins to compute; gradients that are being computed arrive",
    Phase.STOPPED: "training has stopped, new servers start",
    Phase.MOVING: "parameters are stored, divided again and read by the new set of servers",
    Phase.DOWN: "there is no switch",
    Phase.DOWN_SWITCHING: "the switch continues afterwards",
    Phase.DOWN_ABANDONED: "the new servers, as far as they do not hold the parameters, are retired afterwards",
    Input.ASKED: "the strategy wants other servers",
    Input.ALL_JOINED: "every new server can be reached",
    Input.NEW_LOST: "a new server was denied or has died",
    Input.TOO_LATE: "a new server is still pending after the time that it may take",
    Input.DRAINED: "nobody computes any more",
    Input.DRAIN_OVER: "somebody still computes after the time that this may take",
    Input.SERVER_LOST: "a server that holds parameters has died; the runtime restores them",
    Input.RESTORED_OLD: "the servers of before hold the parameters, everybody is idle",
    Input.RESTORED_NEW: "the new set of servers holds them, everybody is idle",
    Input.GIVEN_UP: "the servers of before hold them again, after as many moves as may be tried",
    Effect.LAUNCH: "start the new servers",
    Effect.DROP: "do without the gradients that are still being computed; their samples return to the queue",
    Effect.CHECKPOINT: "store parameters and queues",
    Effect.RESTART_WORKERS: "start all workers again",
    Effect.MOVE: "divide the parameters among the new set of servers",
    Effect.RESUME: "who waits may compute",
    Effect.RETIRE_OLD: "stop the servers that hold nothing any more",
    Effect.RETIRE_NEW: "stop the new servers, or take their requests back",
    Effect.FINISHED: "the switch is done",
    Effect.ABANDONED: "there will be none; the strategy may ask again",
}


class Way(NamedTuple):
    """The phase that follows, and what is to be done, in this order."""

    phase: Phase
    effects: tuple[Effect, ...] = ()


Table = Mapping[Phase, Mapping[Input, Way]]

_BACK = Way(Phase.TRAINING, (Effect.RETIRE_NEW, Effect.RESUME, Effect.ABANDONED))
_DONE = Way(Phase.TRAINING, (Effect.RETIRE_OLD, Effect.RESUME, Effect.FINISHED))

_COMMON: Table = {
    Phase.DOWN: {Input.SERVER_LOST: Way(Phase.DOWN), Input.RESTORED_OLD: Way(Phase.TRAINING)},
    Phase.DOWN_ABANDONED: {
        Input.SERVER_LOST: Way(Phase.DOWN_ABANDONED),
        Input.NEW_LOST: Way(Phase.DOWN_ABANDONED),
        Input.RESTORED_OLD: _BACK,
        Input.RESTORED_NEW: _DONE,
    },
}

SEAMLESS: Table = {
    **_COMMON,
    Phase.TRAINING: {
        Input.ASKED: Way(Phase.LAUNCHING, (Effect.LAUNCH,)),
        Input.SERVER_LOST: Way(Phase.DOWN),
        Input.RESTORED_OLD: Way(Phase.TRAINING),
    },
    Phase.LAUNCHING: {
        Input.ALL_JOINED: Way(Phase.DRAINING),
        Input.NEW_LOST: _BACK,
        Input.TOO_LATE: _BACK,
        Input.SERVER_LOST: Way(Phase.DOWN_SWITCHING),
        Input.RESTORED_OLD: Way(Phase.LAUNCHING),
    },
    Phase.DRAINING: {
        Input.DRAINED: Way(Phase.MOVING, (Effect.CHECKPOINT, Effect.MOVE)),
        Input.DRAIN_OVER: Way(Phase.MOVING, (Effect.DROP, Effect.CHECKPOINT, Effect.MOVE)),
        Input.NEW_LOST: _BACK,
        Input.SERVER_LOST: Way(Phase.DOWN_SWITCHING),
        Input.RESTORED_OLD: Way(Phase.DRAINING),
    },
    Phase.MOVING: {
        Input.NEW_LOST: Way(Phase.DOWN_ABANDONED),
        Input.SERVER_LOST: Way(Phase.MOVING),
        Input.RESTORED_OLD: Way(Phase.MOVING, (Effect.CHECKPOINT, Effect.MOVE)),
        Input.RESTORED_NEW: _DONE,
        Input.GIVEN_UP: _BACK,
    },
    Phase.DOWN_SWITCHING: {
        Input.NEW_LOST: Way(Phase.DOWN_ABANDONED),
        Input.TOO_LATE: Way(Phase.DOWN_ABANDONED),
        Input.SERVER_LOST: Way(Phase.DOWN_SWITCHING),
        Input.RESTORED_OLD: Way(Phase.LAUNCHING),
    },
}

_STOP = (Effect.CHECKPOINT, Effect.RESTART_WORKERS, Effect.LAUNCH)

STOP_RESTART: Table = {
    **_COMMON,
    Phase.TRAINING: {**SEAMLESS[Phase.TRAINING], Input.ASKED: Way(Phase.DRAINING)},
    Phase.DRAINING: {
        Input.DRAINED: Way(Phase.STOPPED, _STOP),
        Input.DRAIN_OVER: Way(Phase.STOPPED, (Effect.DROP, *_STOP)),
        Input.SERVER_LOST: Way(Phase.DOWN_ABANDONED),
        Input.RESTORED_OLD: Way(Phase.DRAINING),
    },
    Phase.STOPPED: {
        Input.ALL_JOINED: Way(Phase.MOVING, (Effect.MOVE,)),
        Input.NEW_LOST: _BACK,
        Input.TOO_LATE: _BACK,
        Input.SERVER_LOST: Way(Phase.DOWN_SWITCHING),
        Input.RESTORED_OLD: Way(Phase.STOPPED),
    },
    Phase.MOVING: {**SEAMLESS[Phase.MOVING], Input.RESTORED_OLD: Way(Phase.MOVING, (Effect.MOVE,))},
    Phase.DOWN_SWITCHING: {**SEAMLESS[Phase.DOWN_SWITCHING], Input.RESTORED_OLD: Way(Phase.STOPPED)},
}

HOLDING = frozenset({Phase.DRAINING, Phase.STOPPED, Phase.MOVING})
"""Phases in which nobody may begin to compute; while a server is lost that is void anyway."""

LAUNCHES = frozenset({Phase.LAUNCHING, Phase.STOPPED, Phase.DOWN_SWITCHING})
"""Phases in which new servers may be awaited, for as long as that may take."""


def after(table: Table, phase: Phase, given: Input) -> Way:
    """What follows.

    Raises:
        RuntimeError: nothing does; a mistake of whoever gave the input.
    """
    ways = table.get(phase, {})
    if given not in ways:
        raise RuntimeError(f"switch {phase}: {given} is impossible (possible: {', '.join(ways) or 'nothing'})")
    return ways[given]
