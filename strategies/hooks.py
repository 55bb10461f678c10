"""The hooks of parts: a composition calls of each part those that it has, in the order of this file (pure).

A part is a dataclass whose fields are its settings, checked when it is made; ``start`` sets what it knows of a job. It
has as many hooks as it needs: what it does stands in its own file.

A part may also have ``needs`` (commands besides Compute and Apply that the runtime must be able to carry out),
``watches_servers``, and ``looks_at`` (the kinds of parts that there must be besides).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, Protocol, TypeVar, runtime_checkable

import msgspec

from strategies.gates.base import Verdict
from strategies.protocol import AnyCommand, AnyEvent, Compute, Grad, Started

T = TypeVar("T")
Order = Callable[[int], Compute]
"""The next Compute of a worker."""
State = dict[str, float | int | str]


class Peers(Protocol):
    """The parts of the same strategy."""

    def one(self, kind: type[T]) -> T:
        """The first of this ``kind``; there is one if the part that asks says so in ``looks_at``."""
        ...


class Tick(msgspec.Struct, kw_only=True):
    """One periodic decision at time ``t``, which goes from action to action.

    ``said`` collects in words what was decided, ``restarted`` the nodes that an earlier action restarts; a node that
    is asked for now would be pending for ``pending_s`` seconds.
    """

    t: float
    pending_s: float
    said: list[str]
    restarted: list[str]


# ---- before the job -------------------------------------------------------------------------------------------------


@runtime_checkable
class Meeting(Protocol):
    """Looks at other parts."""

    looks_at: ClassVar[tuple[type, ...]]

    def meet(self, peers: Peers) -> None:
        """The strategy is being made: remember the parts that this one looks at."""
        ...


@runtime_checkable
class ChecksWorkers(Protocol):
    """Has settings that depend on the number of workers."""

    def validate(self, num_workers: int) -> None:
        """Raise ``ValueError`` naming the setting that does not fit ``num_workers`` workers."""
        ...


@runtime_checkable
class ChecksBatch(Protocol):
    """Has settings that depend on the global batch."""

    def validate_batch(self, num_workers: int, global_batch_samples: int) -> None:
        """Raise ``ValueError`` naming the setting that leaves no way to split the global batch."""
        ...


@runtime_checkable
class ChecksLength(Protocol):
    """Has settings that depend on the length of the job."""

    def validate_length(self, epochs: int | None) -> None:
        """Raise ``ValueError`` naming the setting that needs a job of so many epochs (None: it ends by time)."""
        ...


@runtime_checkable
class ChecksPeriod(Protocol):
    """Has settings that depend on how often is decided."""

    def validate_period(self, decide_every_s: float) -> None:
        """Raise ``ValueError`` naming the setting that decisions every ``decide_every_s`` seconds do not fit."""
        ...


# ---- events ---------------------------------------------------------------------------------------------------------


@runtime_checkable
class Starting(Protocol):
    """Knows something of a job."""

    def start(self, started: Started) -> None:
        """A job begins: forget everything."""
        ...


@runtime_checkable
class Observing(Protocol):
    """Listens to all events: first detectors, then the gate, the load policy, the schedule and the actions."""

    def observe_event(self, event: AnyEvent) -> None:
        """``event`` has happened, and nobody has acted on it yet."""
        ...


@runtime_checkable
class Counting(Protocol):
    """Keeps count of what is applied."""

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """These, each of one sample or more, are the next update."""
        ...


@runtime_checkable
class Following(Protocol):
    """Acts once the gate has answered: on the gate itself, or by commands of its own."""

    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """What comes after the gate's answer to ``event``, in order."""
        ...


@runtime_checkable
class Settling(Protocol):
    """Has the last word on the commands that answer an event."""

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """``commands`` as they are to be given; ``order`` makes Computes that were withheld before."""
        ...


# ---- periodic decisions ---------------------------------------------------------------------------------------------


@runtime_checkable
class Learning(Protocol):
    """Takes stock from time to time."""

    def learn(self) -> None:
        """A periodic decision is about to be made."""
        ...


@runtime_checkable
class Deciding(Protocol):
    """Decides periodically; actions before load policies, because a node that goes should not first be resized."""

    def decide(self, tick: Tick) -> Sequence[AnyCommand]:
        """What to do about nodes now."""
        ...


# ---- the record -----------------------------------------------------------------------------------------------------


@runtime_checkable
class Logging(Protocol):
    """Has a state that is worth recording."""

    def log_state(self) -> State: ...
