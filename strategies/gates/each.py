"""Gate ``each``: every gradient is an update of its own (ASP)."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from typing import ClassVar, final

from strategies.gates.base import NOTHING, Verdict
from strategies.protocol import Grad


@final
@dataclass(kw_only=True)
class EachGate:
    """Nobody waits."""

    rounds: ClassVar[bool] = False
    drops: ClassVar[bool] = False
    bound: ClassVar[None] = None

    def begin(self, workers: Collection[int], version: int) -> tuple[int, ...]:
        return tuple(sorted(workers))

    def arrived(self, grad: Grad) -> Verdict:
        """Apply it and go on."""
        return Verdict(apply=(grad,), go=(grad.worker,))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Nobody waited for it."""
        return NOTHING

    def joined(self, worker: int) -> Verdict:
        return Verdict(go=(worker,))

    def log_state(self) -> dict[str, float | int | str]:
        return {}
