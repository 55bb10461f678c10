"""Inputs of a recovery: facts about tasks and parameters, from a runtime (pure).

The automaton ignores inputs of earlier incarnations and generations, so runtimes pass on everything.
"""

from __future__ import annotations

import msgspec

from runtime.core.recovery.task import Key
from strategies.protocol import LossCause

NOTHING = -1
"""The version of a replica without parameters."""


class Input(msgspec.Struct, frozen=True):
    """Base of all inputs."""


# ---- of one incarnation of a task ------------------------------------------------------------------------------------


class Ready(Input, frozen=True):
    """The task's process is built and reachable; a replica holds ``version``."""

    key: Key
    incarnation: int
    version: int = NOTHING


class Attached(Input, frozen=True):
    """The task has the connections of the ``Attach`` or ``Reconfigure`` of this ``generation``."""

    key: Key
    incarnation: int
    generation: int


class Gone(Input, frozen=True):
    """The task's process has ended.

    ``retryable``: not by an error of its own code; ``full``: because the disk was full; ``for_good``: it does not
    return, whatever the limits are; ``device_full``: its device had too little memory left.
    """

    key: Key
    incarnation: int
    reason: str
    retryable: bool = True
    full: bool = False
    for_good: bool = False
    cause: LossCause = "killed"
    device_full: bool = False


class Silent(Input, frozen=True):
    """The process may still run, but is useless: no heartbeat, no gradient in time, or no connection."""

    key: Key
    incarnation: int
    reason: str


class LinkLost(Input, frozen=True):
    """The task has lost its connection to a server or replica, and no death was found since."""

    key: Key
    incarnation: int
    generation: int
    reason: str


class Worked(Input, frozen=True):
    """The task has done useful work."""

    key: Key
    incarnation: int


# ---- starts and stops ------------------------------------------------------------------------------------------------


class Begin(Input, frozen=True):
    """Tasks can be launched from now on."""


class Admit(Input, frozen=True):
    """A worker or server that nobody had before starts after ``pending_s``; the coordinator knows it already."""

    key: Key
    pending_s: float = 0.0


class Dismiss(Input, frozen=True):
    """A node ends and does not come back, whatever its state; the coordinator has booked its loss already.

    A server must not hold parameters.
    """

    key: Key
    reason: str


class Repartition(Input, frozen=True):
    """Divide the parameters by these shares, as soon as the checkpoint that was ordered last is stored."""

    shares: tuple[tuple[Key, float], ...]


class Hold(Input, frozen=True):
    """The plan kills a task, and keeps it from starting.

    ``moved``: it comes to a host that the plan keeps dead. A task that waits for a place there is lost already.
    """

    key: Key
    reason: str
    moved: bool = False


class Release(Input, frozen=True):
    """The plan lets the task start again."""

    key: Key


class Restart(Input, frozen=True):
    """The strategy restarts a node elsewhere, with a place ``pending_s`` after it is killed."""

    key: Key
    pending_s: float


class Leave(Input, frozen=True):
    """A server that is to restart leaves now: its checkpoint is stored, or no longer awaited."""

    key: Key
    incarnation: int


class Suspend(Input, frozen=True):
    """The cluster takes all places, as soon as the checkpoint that was ordered last is stored or abandoned."""


class Resume(Input, frozen=True):
    """The job has places again: all tasks start, and continue from the last complete checkpoint."""


class PlaceFree(Input, frozen=True):
    """The scheduler has a place for this incarnation."""

    key: Key
    incarnation: int


# ---- parameters ------------------------------------------------------------------------------------------------------


class ElectPrimary(Input, frozen=True):
    """This replica delivers to auxiliary tasks and stores checkpoints from now on; the last one leaves the ring."""

    key: Key


class Save(Input, frozen=True):
    """Store a checkpoint of this version, with the data service's state."""

    version: int
    state: bytes


class Saved(Input, frozen=True):
    """A task has stored its part of checkpoint ``number``."""

    key: Key
    number: int


class Loaded(Input, frozen=True):
    """A server has read its part of a checkpoint, which was taken at this version with this state.

    One that was a replica continues from what it holds, with the data's state at that version.
    """

    key: Key
    generation: int
    version: int
    state: bytes


class Follows(Input, frozen=True):
    """A replica of the servers has a copy of all parameters and follows them."""

    key: Key
    incarnation: int


class Halted(Input, frozen=True):
    """A replica has halted with ``version``; :data:`NOTHING` if its parameters mix versions."""

    key: Key
    incarnation: int
    generation: int
    version: int


OfTask = Ready | Attached | Gone | Silent | LinkLost | Worked
Control = Begin | Admit | Dismiss | Hold | Release | Restart | Leave | Suspend | Resume | PlaceFree
OfParameters = Repartition | ElectPrimary | Save | Saved | Loaded | Follows | Halted
AnyInput = OfTask | Control | OfParameters
