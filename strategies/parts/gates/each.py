"""Gate ``each``: every gradient is an update of its own (ASP)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.parts.gates.base import NOTHING, Verdict
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class EachGate:
    """Every worker computes all the time; it never waits for another."""

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        """Apply the gradient; its worker continues at once."""
        return Verdict(apply=(grad,), go=(grad.worker,))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Nothing to do: no worker waits for it."""
        return NOTHING

    def joined(self, worker: int) -> Verdict:
        return Verdict(go=(worker,))

    def log_state(self) -> dict[str, float | int | str]:
        return {}
