"""What can happen to tasks and parameters, as a runtime tells the recovery (pure).

What a former incarnation or generation still says is not heard; the automaton sees to that, so runtimes pass on
everything.
"""

from __future__ import annotations

import msgspec

from runtime.core.recovery.task import Key

NOTHING = -1
"""The version of a replica that has not got any parameters yet."""


class Input(msgspec.Struct, frozen=True):
    """Base class."""


# ---- of one incarnation of a task ------------------------------------------------------------------------------------


class Ready(Input, frozen=True):
    """Its process is built and can be reached; a replica holds ``version``."""

    key: Key
    incarnation: int
    version: int = NOTHING


class Attached(Input, frozen=True):
    """It has the connections that the ``Attach`` or ``Reconfigure`` of this ``generation`` asked for."""

    key: Key
    incarnation: int
    generation: int


class Gone(Input, frozen=True):
    """Its process has ended.

    ``retryable``: not by an error of its own code; ``full``: because there was no room to write; ``for_good``: it does
    not come back, whatever the limits are.
    """

    key: Key
    incarnation: int
    reason: str
    retryable: bool = True
    full: bool = False
    for_good: bool = False


class Silent(Input, frozen=True):
    """It may still be there, but is of no use: no sign of life, no gradient in time, or its connection is lost."""

    key: Key
    incarnation: int
    reason: str


class LinkLost(Input, frozen=True):
    """It has lost its connection to a server or another replica, and nobody has turned out to be dead since."""

    key: Key
    incarnation: int
    generation: int
    reason: str


class Worked(Input, frozen=True):
    """It has done something useful."""

    key: Key
    incarnation: int


# ---- who is to be started and stopped --------------------------------------------------------------------------------


class Begin(Input, frozen=True):
    """Tasks can be launched from now on."""


class Hold(Input, frozen=True):
    """The plan kills a task, and keeps it from being started."""

    key: Key
    reason: str


class Release(Input, frozen=True):
    """The plan lets it start again."""

    key: Key


class Restart(Input, frozen=True):
    """The strategy wants it elsewhere, where there will be a place ``pending_s`` from when it is killed."""

    key: Key
    pending_s: float


class Leave(Input, frozen=True):
    """A server that is to restart goes now: what all hold is stored, or nobody waits for that any longer."""

    key: Key
    incarnation: int


class PlaceFree(Input, frozen=True):
    """The scheduler has a place for this incarnation."""

    key: Key
    incarnation: int


# ---- parameters ------------------------------------------------------------------------------------------------------


class Save(Input, frozen=True):
    """Store a checkpoint of this version, with the data service's state."""

    version: int
    state: bytes


class Saved(Input, frozen=True):
    """A task has stored its part of checkpoint ``number``."""

    key: Key
    number: int


class Loaded(Input, frozen=True):
    """A server has read its part of a checkpoint, which was taken at this version with this state."""

    key: Key
    generation: int
    version: int
    state: bytes


class Halted(Input, frozen=True):
    """A replica has stopped and holds ``version``; :data:`NOTHING` if its parameters are of no single version."""

    key: Key
    incarnation: int
    generation: int
    version: int


OfTask = Ready | Attached | Gone | Silent | LinkLost | Worked
Control = Begin | Hold | Release | Restart | Leave | PlaceFree
OfParameters = Save | Saved | Loaded | Halted
AnyInput = OfTask | Control | OfParameters
