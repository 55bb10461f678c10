"""The Brain's decisions: changes of a job's resources as plain data, and the numbers that led to them (pure)."""

from __future__ import annotations

from typing import Literal

import msgspec

from strategies.protocol import NodeId


class Resize(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """Afterwards there are ``count`` nodes of this role, each with so many cores and so much memory."""

    role: Literal["worker", "server"]
    count: int
    cores: int
    memory_bytes: int


class AddWorkers(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """``count`` more workers; the last ``low_priority`` of them are above the job's total and preempted first."""

    count: int
    cores: int
    memory_bytes: int
    low_priority: int = 0


class Replace(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A new node takes the place of ``node``, which may be gone already; ``elsewhere``: on another host."""

    node: NodeId
    cores: int
    memory_bytes: int
    elsewhere: bool = False


class StopWaiting(msgspec.Struct, frozen=True, kw_only=True, tag=True):
    """A worker without any progress: its samples go to others."""

    node: NodeId


Change = Resize | AddWorkers | Replace | StopWaiting


class Decision(msgspec.Struct, frozen=True, kw_only=True):
    """One line of the table of decisions.

    Attributes:
        t: seconds since the start of the job.
        stage: of the job when this was decided.
        rule: which rule led to it.
        changes: to be made together; none: everything stays, for the reason in ``why``.
        numbers: measured and computed values, by name.
        why: in words, where numbers do not say it.
    """

    t: float
    stage: str
    rule: str
    changes: tuple[Change, ...] = ()
    numbers: dict[str, float] = {}
    why: str = ""
