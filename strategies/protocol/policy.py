"""The interfaces of a cluster's plug-ins: the policy says which job goes, the placement says where."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from strategies.protocol.cluster import ClusterCommand, JobRequest, JobState, Machine, Places
from strategies.protocol.room import Room


@runtime_checkable
class Placement(Protocol):
    """Where the tasks of a job go. It has no state: the same books give the same answer."""

    def place(self, request: JobRequest, room: Room) -> Places | None:
        """The places of the whole gang, or None while there are none; ``room`` stays as it is.

        Whether there are any depends on the free GPUs and on ``request.gpus``, and on nothing else of the request; with
        more free GPUs, or for a smaller gang, there still are some. So a policy that finds no place for a gang need not
        ask for another one of this size or above.
        """

    def validate(self, machines: Sequence[Machine]) -> None:
        """Raise ``ValueError`` naming the field when the hyper-parameters do not fit the machines."""
        return None


@runtime_checkable
class Policy(Protocol):
    """Which job starts, and which gives its GPUs back. Hyper-parameters are dataclass fields, the state is its own.

    It is notified of every change, then asked; its commands are carried out in order, and it is notified of them, too.
    Its answers depend on these calls alone, and on no job's name.
    """

    needs_durations: bool = False
    """Whether it cannot decide about jobs of unknown duration; such jobs are refused before the run."""

    preempts: bool = False
    """Whether it may command ``PreemptJob``."""

    work_conserving: bool = False
    """Whether no waiting job has a place among the free GPUs once it has decided, except while a job is leaving."""

    def begin(self, machines: Sequence[Machine]) -> None:
        """The cluster's machines; no job was submitted yet."""

    def changed(self, old: JobState | None, new: JobState | None) -> None:
        """A job is as ``new`` from now on. ``old`` is None: it was just submitted; ``new`` is None: it has ended.

        In the same phase as before, one of its tasks has moved.
        """

    def decide(self, t: float, room: Room, placement: Placement) -> Sequence[ClusterCommand]:
        """Commands at ``t`` seconds of the cluster's clock.

        It is asked while a job waits, after every change except a job's from ``starting`` to ``running``.

        ``room`` is a copy, in which the answer may be tried out.
        """

    def next_s(self, t: float) -> float:
        """When it wants to be asked again although nothing has changed, later than ``t``; infinity: never."""
        return math.inf

    def validate(self, machines: Sequence[Machine]) -> None:
        """Raise ``ValueError`` naming the field when the hyper-parameters do not fit the machines."""
        return None
