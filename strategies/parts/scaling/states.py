"""Phases of a switch to other servers, their transitions and effects: two tables (pure).

``SEAMLESS`` is DLRover's (section 5.3): workers train until all new servers are ready. ``STOP_RESTART`` is native
TensorFlow's, also for Optimus and Or et al. in DLRover's comparison: training stops first, then new nodes start.

Commands are void while the parameters are lost, so an abandoned switch is cleared up only when they are restored. A
pair of phase and input that a table lacks does not happen: :func:`after` raises.
"""

from __future__ import annotations

from collections.abc import Mapping
from enum import StrEnum
from typing import NamedTuple


class Phase(StrEnum):
    """How far the switch is; the last three while a server is lost and the runtime restores the parameters."""

    TRAINING = "training"
    """No switch is under way."""
    LAUNCHING = "launching"
    """Workers train, new servers start."""
    DRAINING = "draining"
    """No worker begins to compute; gradients that are being computed arrive."""
    STOPPED = "stopped"
    """Training has stopped, new servers start."""
    MOVING = "moving"
    """Parameters are stored, divided again and read by the new set of servers."""
    DOWN = "down"
    """There is no switch."""
    DOWN_SWITCHING = "down while switching"
    """The switch continues afterwards."""
    DOWN_ABANDONED = "down, switch abandoned"
    """The new servers, as far as they do not hold the parameters, are retired afterwards."""


class Input(StrEnum):
    """Events that change the phase of a switch."""

    ASKED = "asked"
    """The strategy wants other servers."""
    ALL_JOINED = "all joined"
    """Every new server can be reached."""
    NEW_LOST = "new server lost"
    """A new server was denied or has died."""
    TOO_LATE = "too late"
    """A new server is still pending after the time that it may take."""
    DRAINED = "drained"
    """No worker computes any more."""
    DRAIN_OVER = "drain over"
    """A worker still computes after the allowed time."""
    SERVER_LOST = "server lost"
    """A server that holds parameters has died; the runtime restores them."""
    RESTORED_OLD = "restored on the old"
    """The servers of before hold the parameters, everybody is idle."""
    RESTORED_NEW = "restored on the new"
    """The new set of servers holds them, everybody is idle."""
    GIVEN_UP = "given up"
    """The servers of before hold them again, after as many moves as may be tried."""


class Effect(StrEnum):
    """Actions that follow from an input."""

    LAUNCH = "launch"
    """Start the new servers."""
    DROP = "drop"
    """Do without the gradients that are still being computed; their samples return to the queue."""
    CHECKPOINT = "checkpoint"
    """Store parameters and queues."""
    RESTART_WORKERS = "restart workers"
    """Start all workers again."""
    MOVE = "move"
    """Divide the parameters among the new set of servers."""
    RESUME = "resume"
    """Waiting workers may compute."""
    RETIRE_OLD = "retire old"
    """Stop the servers that hold nothing any more."""
    RETIRE_NEW = "retire new"
    """Stop the new servers, or take their requests back."""
    FINISHED = "finished"
    """The switch is done."""
    ABANDONED = "abandoned"
    """There will be none; the strategy may ask again."""


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
"""Phases in which no worker may begin to compute; while a server is lost that is void anyway."""

LAUNCHES = frozenset({Phase.LAUNCHING, Phase.STOPPED, Phase.DOWN_SWITCHING})
"""Phases in which new servers may be awaited, for as long as that may take."""


def after(table: Table, phase: Phase, given: Input) -> Way:
    """The next phase, and what is to be done; raises ``RuntimeError`` if the input is impossible in this phase."""
    ways = table.get(phase, {})
    if given not in ways:
        raise RuntimeError(f"switch {phase}: {given} is impossible (possible: {', '.join(ways) or 'nothing'})")
    return ways[given]
