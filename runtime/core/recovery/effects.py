"""Effects of a recovery: actions and notifications, all to be carried out in order (pure)."""

from __future__ import annotations

from typing import Literal

import msgspec

from runtime.core.recovery.task import Key
from strategies.protocol import LossCause

Cause = Literal["start", "crash", "released", "place", "new", "resumed"]
"""Reasons for a launch: start of the job, death of the predecessor, release by the plan, a place elsewhere for a task
that was restarted, the place for a node that was not there before, or places for a job that was preempted."""


class Effect(msgspec.Struct, frozen=True):
    """Base of all effects."""


# ---- processes -------------------------------------------------------------------------------------------------------


class Launch(Effect, frozen=True):
    """Start this incarnation; answered by ``Ready``."""

    key: Key
    incarnation: int
    cause: Cause


class Kill(Effect, frozen=True):
    """Kill this incarnation. ``reason``: why it is fenced; empty where the plan or the strategy kills it."""

    key: Key
    incarnation: int
    reason: str = ""


class Fence(Effect, frozen=True):
    """This incarnation has ended, or counts as ended: ignore its messages everywhere."""

    key: Key
    incarnation: int
    reason: str


class Wait(Effect, frozen=True):
    """Give this task a machine; answered by ``PlaceFree`` after ``pending_s`` in the scheduler's queue.

    ``moves``: another machine than its predecessor had; else it is a node that was not there before.
    """

    key: Key
    incarnation: int
    pending_s: float
    moves: bool = True


# ---- checkpoints -----------------------------------------------------------------------------------------------------


class Store(Effect, frozen=True):
    """Each of ``savers`` stores its part; answered by ``Saved``. Files older than ``keep_from`` are not needed."""

    number: int
    version: int
    state: bytes
    keep_from: int
    savers: tuple[Key, ...]


FOLLOWED = -2
"""Instead of a checkpoint: a replica's parameters."""


class Load(Effect, frozen=True):
    """Each of ``savers`` reads its range of this checkpoint (-1: the initial parameters); answered by ``Loaded``.

    With :data:`FOLLOWED` it was a replica, and continues from the version that it has followed to.
    """

    number: int
    generation: int
    savers: tuple[Key, ...]


class Checkpointed(Effect, frozen=True):
    """A checkpoint is complete."""

    number: int
    version: int


class MayLeave(Effect, frozen=True):
    """A server that is to restart may leave as soon as the coordinator is free; answered by ``Leave``."""

    key: Key
    incarnation: int


# ---- connections -----------------------------------------------------------------------------------------------------


class Attach(Effect, frozen=True):
    """Connect to these; answered by ``Attached``."""

    key: Key
    generation: int
    to: tuple[Key, ...]


class Halt(Effect, frozen=True):
    """A replica drops its work in progress; answered by ``Halted``."""

    key: Key
    generation: int


class Reconfigure(Effect, frozen=True):
    """This replica is one of ``ring``; answered by ``Attached``.

    It copies the parameters from worker ``source``, reads checkpoint ``number``, returns to the initial parameters
    (``anew``), or keeps its own.
    """

    key: Key
    generation: int
    ring: tuple[Key, ...]
    source: int = -1
    number: int = -1
    anew: bool = False


class TransferState(Effect, frozen=True):
    """A replica sends its state to another, which will connect."""

    key: Key
    to: Key
    incarnation: int


# ---- for the coordinator ---------------------------------------------------------------------------------------------


class WorkerLost(Effect, frozen=True):
    """A worker's incarnation is lost."""

    worker: int
    incarnation: int
    reason: str
    restarting: bool
    cause: LossCause = "killed"


class WorkerJoined(Effect, frozen=True):
    """A new incarnation of a worker is connected; notified once for each."""

    worker: int
    incarnation: int


class ServerJoined(Effect, frozen=True):
    """A server that was admitted is ready; it holds nothing."""

    server: int
    incarnation: int


class AuxiliaryLost(Effect, frozen=True):
    """An auxiliary task is lost; its pending requests are not answered."""

    role: str
    number: int


class AuxiliaryJoined(Effect, frozen=True):
    """An auxiliary task is connected, at first or again: earlier requests are lost."""

    role: str
    number: int


class ServerLost(Effect, frozen=True):
    """A server is lost, with every version since the last checkpoint: all work is void until ``Restored``.

    One that held nothing (not ``holding``) takes nothing with it, and does not start again.
    """

    server: int
    incarnation: int
    reason: str
    cause: LossCause = "killed"
    holding: bool = True


class RolledBack(Effect, frozen=True):
    """All must agree on a version again: work in progress and all work until ``Restored`` is void."""


class Restored(Effect, frozen=True):
    """All tasks hold this version and are connected.

    ``state`` is the data service's at that version; None: replicas held the version, and the session knows the state
    of the data before the next update was ordered.
    """

    version: int
    state: bytes | None


class Started(Effect, frozen=True):
    """All tasks are connected for the first time: the job can start."""


class Suspended(Effect, frozen=True):
    """All tasks have ended, and none starts before the job has places again (``Resume``)."""


class Failed(Effect, frozen=True):
    """The run cannot continue; ``full``: because the disk is full."""

    reason: str
    full: bool = False


OfProcess = Launch | Kill | Fence | Wait
OfCheckpoint = Store | Load | Checkpointed | MayLeave
OfGroup = Attach | Halt | Reconfigure | TransferState
OfMembers = WorkerLost | WorkerJoined | ServerJoined | ServerLost
News = OfMembers | AuxiliaryLost | AuxiliaryJoined | RolledBack | Restored | Started | Suspended | Failed
AnyEffect = OfProcess | OfCheckpoint | OfGroup | News
