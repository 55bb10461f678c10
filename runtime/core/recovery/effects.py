"""What a recovery wants done, and whom it wants told what; in this order, and all of it (pure)."""

from __future__ import annotations

from typing import Literal

import msgspec

from runtime.core.recovery.task import Key

Cause = Literal["start", "crash", "released", "place"]
"""Why a task is launched: the job starts; its predecessor has died; the plan lets it; the scheduler has a place."""


class Effect(msgspec.Struct, frozen=True):
    """Base class."""


# ---- processes -------------------------------------------------------------------------------------------------------


class Launch(Effect, frozen=True):
    """Start this incarnation; answered by ``Ready``."""

    key: Key
    incarnation: int
    cause: Cause


class Kill(Effect, frozen=True):
    """End this incarnation. ``reason``: why nobody hears it any more; empty where the plan or the strategy wants it."""

    key: Key
    incarnation: int
    reason: str = ""


class Fence(Effect, frozen=True):
    """This incarnation has ended, or is taken to have: what it still says to anybody is not to be heard."""

    key: Key
    incarnation: int
    reason: str


class Wait(Effect, frozen=True):
    """Give this task another machine; ``PlaceFree`` when the scheduler has had it wait for ``pending_s``."""

    key: Key
    incarnation: int
    pending_s: float


# ---- checkpoints -----------------------------------------------------------------------------------------------------


class Store(Effect, frozen=True):
    """Each of ``keepers`` stores its part; answered by ``Saved``. Files older than ``keep_from`` are not needed."""

    number: int
    version: int
    state: bytes
    keep_from: int
    keepers: tuple[Key, ...]


class Load(Effect, frozen=True):
    """All servers go back to this checkpoint (-1: to the initial parameters); answered by ``Loaded``."""

    number: int
    generation: int


class Checkpointed(Effect, frozen=True):
    """A checkpoint is complete."""

    number: int
    version: int


class MayLeave(Effect, frozen=True):
    """A server that is to restart may go, when whoever decides has time for it; answered by ``Leave``."""

    key: Key
    incarnation: int


# ---- who is connected to whom ----------------------------------------------------------------------------------------


class Attach(Effect, frozen=True):
    """Connect to these; answered by ``Attached``."""

    key: Key
    generation: int
    to: tuple[Key, ...]


class Halt(Effect, frozen=True):
    """A replica drops what is under way; answered by ``Halted``."""

    key: Key
    generation: int


class Reconfigure(Effect, frozen=True):
    """This replica is one of ``ring``; answered by ``Attached``.

    It takes the parameters over from worker ``source``, reads checkpoint ``number``, goes back to the initial
    parameters (``anew``), or keeps what it has.
    """

    key: Key
    generation: int
    ring: tuple[Key, ...]
    source: int = -1
    number: int = -1
    anew: bool = False


class Donate(Effect, frozen=True):
    """A replica hands its state to another, which will call."""

    key: Key
    to: Key
    incarnation: int


# ---- for the coordinator ---------------------------------------------------------------------------------------------


class WorkerLost(Effect, frozen=True):
    """A worker is gone."""

    worker: int
    incarnation: int
    reason: str
    restarting: bool


class WorkerJoined(Effect, frozen=True):
    """A new incarnation of a worker is connected; told once of each."""

    worker: int
    incarnation: int


class AuxiliaryLost(Effect, frozen=True):
    """The evaluator or the scorer is gone; what it was asked is not answered."""

    role: str


class AuxiliaryJoined(Effect, frozen=True):
    """The evaluator or the scorer is connected, for the first time or again: what it was asked meanwhile got lost."""

    role: str


class ServerLost(Effect, frozen=True):
    """A server is gone, and with it every version since the last checkpoint: nothing counts until ``Restored``."""

    server: int
    incarnation: int
    reason: str


class RolledBack(Effect, frozen=True):
    """Everybody has to agree on a version again: what is under way is void, nothing counts until ``Restored``."""


class Restored(Effect, frozen=True):
    """Everybody holds this version and is connected.

    ``state`` is the data service's when it was taken; None: the version is one that replicas held, and whoever runs
    the job knows the state of the data before the next update was ordered.
    """

    version: int
    state: bytes | None


class Started(Effect, frozen=True):
    """Everybody is there for the first time: the job can start."""


class Failed(Effect, frozen=True):
    """The run cannot go on; ``full``: since there is no room for what was to be written."""

    reason: str
    full: bool = False


OfProcess = Launch | Kill | Fence | Wait
OfCheckpoint = Store | Load | Checkpointed | MayLeave
OfGroup = Attach | Halt | Reconfigure | Donate
News = (
    WorkerLost | WorkerJoined | AuxiliaryLost | AuxiliaryJoined | ServerLost | RolledBack | Restored | Started | Failed
)
AnyEffect = OfProcess | OfCheckpoint | OfGroup | News
