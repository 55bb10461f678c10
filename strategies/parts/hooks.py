"""The hooks of parts: a composition calls those that a part has, in the order of this file (pure).

A part is a dataclass whose fields are its settings. A composition checks them against the ranges in their annotations
(``reading.ranges``), ``__post_init__`` what depends on several. ``start`` resets its state for a job. It has as many
hooks as it needs.

A part may also have ``needs`` (commands besides Compute and Apply that the runtime must be able to carry out),
``watches_servers``, ``measures`` (updates), ``fitted`` (files that it predicts by), and ``looks_at`` (the kinds of
other parts that it queries). Before the job ``validate(num_workers)``, ``validate_batch(num_workers,
global_batch_samples)``, ``validate_length(epochs)`` and ``validate_period(decide_every_s)``, of those that it has,
raise ``ValueError`` naming the setting that does not fit.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import ClassVar, NamedTuple, Protocol, TypeVar, runtime_checkable

import msgspec

from strategies.parts.gates.base import Verdict
from strategies.protocol import AnyCommand, AnyEvent, Compute, Grad, NodeId, Score, Scored, Started

T = TypeVar("T")
Order = Callable[[int], Compute]
"""The next Compute of a worker."""
State = dict[str, float | int | str]


class Peers(Protocol):
    """The parts of the same strategy."""

    def one(self, kind: type[T]) -> T:
        """The first part of this ``kind``; one exists if the asking part lists the kind in ``looks_at``."""


class Tick(msgspec.Struct, kw_only=True):
    """One periodic decision at time ``t``, which goes from action to action.

    ``said`` collects what was decided, in words, for the record; ``restarted`` the nodes that an earlier action
    restarts. A node requested now would be pending for ``pending_s`` seconds.
    """

    t: float
    pending_s: float
    said: list[str]
    restarted: list[NodeId]


# ---- before the job -------------------------------------------------------------------------------------------------


@runtime_checkable
class Meeting(Protocol):
    """A part that queries other parts."""

    looks_at: ClassVar[tuple[type, ...]]

    def meet(self, peers: Peers) -> None:
        """Keep references to the parts that this one queries; called when the strategy is built."""


# ---- events ---------------------------------------------------------------------------------------------------------


@runtime_checkable
class Starting(Protocol):
    """A part with state of a job."""

    def start(self, started: Started) -> None:
        """Reset all state: a job begins."""


@runtime_checkable
class Observing(Protocol):
    """A part that observes all events: first detectors, then gate, load policy, schedule and actions."""

    def observe_event(self, event: AnyEvent) -> None:
        """Update the state with ``event``, on which no part has acted yet."""


@runtime_checkable
class Counting(Protocol):
    """A part that counts applied gradients."""

    def applied(self, grads: tuple[Grad, ...]) -> None:
        """Count these gradients, each of one sample or more: they form the next update."""


@runtime_checkable
class Following(Protocol):
    """A part that acts after the gate's answer: on the gate itself, or by commands of its own."""

    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """Verdicts and commands that follow the gate's answer to ``event``, in order."""


@runtime_checkable
class Settling(Protocol):
    """A part that may change the commands that answer an event."""

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """The commands to give instead of ``commands``; ``order`` builds Computes that were withheld before."""


# ---- screens --------------------------------------------------------------------------------------------------------


class Judged(NamedTuple):
    """The verdict on a scored gradient: applied with its weight times ``factor``, or dropped."""

    verdict: Verdict
    factor: float = 1.0
    requeue: bool = True


@runtime_checkable
class Screen(Protocol):
    """Judges every gradient by itself, so it needs a gate that applies every gradient by itself."""

    validation_samples: int
    """Samples that are held out of the training data for the reference gradient."""

    rescale: bool
    """Whether accepted gradients are multiplied by a factor."""

    def asks(self, grad: Grad, version: int) -> Score | None:
        """The ``Score`` for a gradient that arrived at ``version``; None: it is not screened."""

    def judged(self, scored: Scored) -> Judged: ...


# ---- periodic decisions ---------------------------------------------------------------------------------------------


@runtime_checkable
class Learning(Protocol):
    """A detector that updates its estimates periodically."""

    def learn(self) -> None:
        """Update the estimates before a periodic decision."""


@runtime_checkable
class Deciding(Protocol):
    """A part that decides periodically; actions before load policies, so that no node is resized and then killed."""

    def decide(self, tick: Tick) -> Sequence[AnyCommand]:
        """Commands of this periodic decision."""


# ---- the record -----------------------------------------------------------------------------------------------------


@runtime_checkable
class Logging(Protocol):
    """A part whose state is recorded."""

    def log_state(self) -> State: ...
