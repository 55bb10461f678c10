"""The vocabulary between a policy of prevention and whatever runs several jobs on the same hosts.

A strategy may not command another job's tasks. It says what its own tasks will need in addition (``Reserve``); the
policy, as pure as a strategy, decides what tasks of other jobs give up for that, and the runtime carries it out.

A *share* is the part of its host that a task holds: its average use over an iteration of its own without waiting (for
the job that asks: over time, as it waits less in another mode). With a smaller share an iteration takes longer in
proportion. A task that works by turns is limited while it works (:func:`limit_of`).
"""

from __future__ import annotations

import math
from typing import ClassVar, Literal, Protocol, runtime_checkable

import msgspec

Resource = Literal["cpu_cores", "link_bytes_per_s"]
RESOURCES: tuple[Resource, ...] = ("cpu_cores", "link_bytes_per_s")
"""Resources to reserve: processor cores, and the rate at which a task sends. Fields of these names have these units."""


class Demand(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Resources that a node (``server:0``) will use in addition to its use without a reservation."""

    node: str
    cpu_cores: float = 0.0
    link_bytes_per_s: float = 0.0
    """Payload that it sends."""


class Share(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A node's share of its host; None: no fixed share."""

    node: str
    cpu_cores: float | None = None
    link_bytes_per_s: float | None = None


class HostRoom(msgspec.Struct, frozen=True, kw_only=True):
    """The resources that the tasks of one host have together; None: no limit."""

    host: str
    cpu_cores: float | None = None
    link_bytes_per_s: float | None = None
    """Payload, each way."""


class TaskLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The measured needs of one task."""

    node: str
    host: str
    cpu_cores: float
    """Its share; of a task that was granted or left one, that."""
    link_bytes_per_s: float
    peak_cores: float = math.inf
    """Cores that it uses while it works."""
    peak_bytes_per_s: float = math.inf
    """Likewise."""
    cpu_s: float = 0.0
    """Processor seconds of an iteration: a worker's own; a server's for a global batch."""
    sent_bytes: float = 0.0
    """Likewise."""
    iter_s: float | None = None
    """Seconds of a worker's iteration without waiting; None: a server."""
    fixed: frozenset[Resource] = frozenset()
    """Resources whose share the policy granted it or left it, so that this share is exact."""


def limit_of(share: float, before: float, peak: float) -> float:
    """The limit on a task's use while it works that gives it this share instead of the previous one.

    Its iteration takes work / share instead of work / before; the difference equals work / limit - work / peak.
    Infinite if it need not be limited.
    """
    slowness = max(0.0, 1.0 / share - 1.0 / before)
    return 1.0 / (1.0 / peak + slowness) if slowness else math.inf


class JobLoad(msgspec.Struct, frozen=True, kw_only=True):
    """The measured needs of one job."""

    job: str
    tasks: tuple[TaskLoad, ...]
    groups: tuple[tuple[str, ...], ...] = ()
    """Workers whose gradients make an update together; a worker in no group waits for no other."""
    gain: float = 1.0
    """Recent improvement of its metric."""
    model: str = ""


class Asked(msgspec.Struct, frozen=True, kw_only=True):
    """A job asks for more, and everything that a policy may know."""

    job: str
    demands: tuple[Demand, ...]
    worth_s: float
    """Seconds that it saves in an iteration of the job (as much progress as of a global batch)."""
    jobs: tuple[JobLoad, ...]
    """All that run on these hosts, the asking one as it was before any reservation."""
    hosts: tuple[HostRoom, ...]


class Grant(msgspec.Struct, frozen=True, kw_only=True):
    """The answer: the new share of every task whose share changes, by (job, node); none if ``ok`` is False."""

    ok: bool
    reason: str = ""
    shares: dict[tuple[str, str], Share] = {}
    added_s: float = 0.0
    """Seconds that the iterations of the other jobs are expected to take longer, all together."""


@runtime_checkable
class Prevention(Protocol):
    """Decides what jobs on the same hosts grant each other; its answer depends on its settings and on the question."""

    takes: ClassVar[bool]
    """Whether it may refuse, or take anything from any task."""

    def answer(self, asked: Asked) -> Grant:
        """Grant or refuse; the shares of a host's tasks must not exceed what the host has."""
