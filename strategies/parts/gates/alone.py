"""Gates whose workers train parameters of their own, and make them common from time to time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reading.ranges import Bool, PositiveFloat, check_number, check_settings
from strategies.parts.gates.base import Roster, Verdict, by_worker
from strategies.parts.gates.round import RoundGate
from strategies.protocol import Command, Grad, StepAlone

MOST_MOMENTUM = 0.9999
"""With 1 the outer optimizer would never slow down."""


@dataclass(kw_only=True)
class OuterSettings(ABC):
    """Abstract: settings of an outer optimizer, SGD.

    Attributes:
        outer_lr: its rate; 1 without momentum gives the average of all workers' parameters.
        outer_momentum: its momentum.
        outer_nesterov: whether that is Nesterov's.
    """

    outer_lr: PositiveFloat = 1.0
    outer_momentum: float = 0.0
    outer_nesterov: Bool = False

    def check_outer(self) -> None:
        """Raise ``ValueError`` naming a setting that is out of range, of any of the gate."""
        check_settings(self)
        check_number("outer_momentum", self.outer_momentum, least=0.0, most=MOST_MOMENTUM)
        if self.outer_nesterov and not self.outer_momentum:
            raise ValueError("outer_nesterov=true: needs outer_momentum above 0")

    @property
    @abstractmethod
    def outer(self) -> Mapping[str, Any]:
        """The outer optimizer of the strategy, see ``Strategy.outer``."""

    @property
    def outer_optimizer(self) -> dict[str, Any]:
        """The optimizer of these settings."""
        momentum = {"momentum": self.outer_momentum, "nesterov": self.outer_nesterov} if self.outer_momentum else {}
        return {"lr": self.outer_lr, **momentum}


@dataclass(kw_only=True)
class AloneGate(OuterSettings, RoundGate):
    """Abstract: a gate is a dataclass with :meth:`waits`. It may have ``start`` and ``observe_event``, too.

    A worker steps alone until it waits; when all wait, the outer optimizer makes an update of their moves. ``steps``
    counts each worker's steps since the last update, ``version`` the updates. A worker that finds no more data waits,
    too. While ``alone`` is false, a round is one gradient of each worker, applied as in BSP; no such round may follow
    an update of moves.
    """

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    needs: ClassVar[frozenset[type[Command]]] = frozenset({StepAlone})
    alone = True

    def __post_init__(self) -> None:
        self.check_outer()

    @property
    def outer(self) -> Mapping[str, Any]:
        return self.outer_optimizer

    @abstractmethod
    def waits(self, worker: int) -> bool:
        """Whether a worker that has made ``steps[worker]`` steps waits for the next update."""

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster, self.version = Roster(workers), version
        self._open()
        return self.roster.all()

    def _open(self) -> None:
        self.missing = set(self.roster.members)
        self.buffer: list[Grad] = []
        self.steps: Counter[int] = Counter()

    def arrived(self, grad: Grad) -> Verdict:
        worker, step = grad.worker, tuple[Grad, ...]()
        if grad.samples:
            self.buffer.append(grad)
            self.steps[worker] += 1
            step = (grad,) if self.alone else ()
            if step and not self.waits(worker):
                return Verdict(step=step, go=(worker,))
        self.missing.discard(worker)
        return Verdict(step=step) if self.missing else self._complete(step)

    def _complete(self, step: tuple[Grad, ...] = ()) -> Verdict:
        update = by_worker(self.buffer)
        self.version += bool(update)
        self.roster.enter()
        self._open()
        return Verdict(apply=update, go=self.roster.all(), opens=not update, step=step, outer=self.alone)

    def log_state(self) -> dict[str, float | int | str]:
        return {"steps_alone": len(self.buffer) if self.alone else 0}
