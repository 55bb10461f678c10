"""A ledger whose code misbehaves at the n-th gradient of a process; a strategy that is interrupted while it decides."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from strategies.basic.bsp import BSP
from strategies.protocol import AnyCommand, AnyEvent, Apply, Strategy
from workloads.ledger import SampleLedger


@dataclass(kw_only=True)
class Faulty:
    """``fault``: ``raise`` an error, ``spike`` (not a number) once, or ``spikes`` from then on.

    ``dawdle``: evaluations take forever.
    """

    fault: str
    at: int = 5
    num_samples: int = 2000
    calls: int = field(default=0, init=False)

    def __post_init__(self) -> None:
        self.ledger = SampleLedger(num_samples=self.num_samples)
        self.num_parameters = self.ledger.num_parameters
        self.initial_parameters = self.ledger.initial_parameters

    def prepare(self) -> int:
        return self.ledger.prepare()

    def preload(self) -> list[str]:
        return self.ledger.preload()

    def numpy_gradient(
        self, params: NDArray[np.float32], indices: NDArray[np.int64], grad: NDArray[np.float32]
    ) -> float:
        self.calls += 1
        loss = self.ledger.numpy_gradient(params, indices, grad)
        if self.fault == "raise" and self.calls == self.at:
            raise ZeroDivisionError("the sample has no pixels")
        if (self.fault == "spikes" and self.calls >= self.at) or (self.fault == "spike" and self.calls == self.at):
            grad[indices[0]] = np.nan
        return loss

    def numpy_metrics(self, *given: NDArray[np.float32]) -> dict[str, float]:
        while self.fault == "dawdle":
            time.sleep(1.0)
        return self.ledger.numpy_metrics(*given)


@dataclass(kw_only=True)
class Interrupting(Strategy):
    """BSP; a Ctrl-C reaches ``run.py`` in the middle of a decision to update, the first after ``at`` others."""

    at: int
    data: str = "dynamic"

    def __post_init__(self) -> None:
        self._inner, self._decisions = BSP(), 0

    def handle(self, event: AnyEvent) -> Sequence[AnyCommand]:
        self._decisions += 1
        commands = self._inner.handle(event)
        if self._decisions >= self.at and any(isinstance(command, Apply) for command in commands):
            self._decisions = -1_000_000
            os.kill(os.getpid(), signal.SIGINT)
        return commands
