"""Gates whose workers train parameters of their own, and make them common from time to time."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Any, ClassVar

from reading.ranges import Bool, PositiveFloat, check_number
from strategies.parts.gates.base import NOTHING, Roster, Verdict, by_worker
from strategies.protocol import Command, Grad, StepAlone


MOST_MOMENTUM = 0.9999
"""With 1 the outer optimizer would never slow down."""


@dataclass(kw_only=True)
class AloneGate(ABC):
    """A worker steps alone until :meth:`waits`; when all wait, the outer optimizer makes an update of their moves.

    ``steps`` counts each worker's steps since the last update, ``version`` the updates. A worker that finds no more
    data waits, too. While :meth:`common` is true, a round is one gradient of each worker, applied as in BSP; this
    never follows a step alone.

    Attributes:
        outer_lr: rate of the outer optimizer, SGD; 1 without momentum gives the average of all workers' parameters.
        outer_momentum: its momentum.
        outer_nesterov: whether that is Nesterov's.
    """

    rounds: ClassVar[bool] = True
    drops: ClassVar[bool] = False
    needs: ClassVar[frozenset[type[Command]]] = frozenset({StepAlone})

    outer_lr: PositiveFloat = 1.0
    outer_momentum: float = 0.0
    outer_nesterov: Bool = False

    def __post_init__(self) -> None:
        check_number("outer_momentum", self.outer_momentum, least=0.0, most=MOST_MOMENTUM)
        if self.outer_nesterov and not self.outer_momentum:
            raise ValueError("outer_nesterov=true: needs outer_momentum above 0")

    @property
    def outer(self) -> Mapping[str, Any]:
        momentum = {"momentum": self.outer_momentum, "nesterov": self.outer_nesterov} if self.outer_momentum else {}
        return {"name": "sgd", "lr": self.outer_lr, **momentum}

    @abstractmethod
    def waits(self, worker: int) -> bool:
        """Whether a worker that has made ``steps[worker]`` steps waits for the next update."""

    def common(self) -> bool:
        """Whether the next update is one of gradients, as in BSP; asked when the first of them has arrived."""
        return False

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        self.roster, self.version = Roster(workers), version
        self._open()
        return self.roster.all()

    def _open(self) -> None:
        self.missing = set(self.roster.members)
        self.grads: list[Grad] = []
        self.steps: Counter[int] = Counter()
        self._common: bool | None = None

    def arrived(self, grad: Grad) -> Verdict:
        worker, step = grad.worker, tuple[Grad, ...]()
        if self._common is None:
            self._common = self.common()
        if grad.samples:
            self.grads.append(grad)
            self.steps[worker] += 1
            step = () if self._common else (grad,)
            if step and not self.waits(worker):
                return Verdict(step=step, go=(worker,))
        self.missing.discard(worker)
        return Verdict(step=step) if self.missing else self._complete(step)

    def lost(self, worker: int, restarting: bool) -> Verdict:
        if not self.roster.lose(worker, restarting, self.missing):
            return NOTHING
        self.missing.discard(worker)
        return self._complete() if not self.missing and (self.grads or self.roster.deserted) else NOTHING

    def joined(self, worker: int) -> Verdict:
        opens = not self.roster.members
        if not self.roster.admits(worker):
            return NOTHING
        self.missing.add(worker)
        return Verdict(go=(worker,), opens=opens)

    def waiting_groups(self) -> list[list[int]]:
        return [sorted(self.roster.members)]

    def _complete(self, step: tuple[Grad, ...] = ()) -> Verdict:
        update, outer = by_worker(self.grads), not self._common
        self.version += bool(update)
        self.roster.enter()
        self._open()
        return Verdict(apply=update, go=self.roster.all(), opens=not update, step=step, outer=outer)

    def log_state(self) -> dict[str, float | int | str]:
        return {"steps_alone": 0 if self._common else len(self.grads)}
