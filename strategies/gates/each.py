"""Gate ``each``: every gradient is an update of its own (ASP)."""

from __future__ import annotations

from collections.abc import Iterable
from typing import final

from strategies.gates.base import NOTHING, Verdict
from strategies.protocol import Grad


@final
class EachGate:
    """Nobody waits."""

    def __init__(self, workers: Iterable[int]) -> None:
        self.workers = tuple(sorted(workers))

    def begin(self) -> tuple[int, ...]:
        """All workers."""
        return self.workers

    def arrived(self, grad: Grad) -> Verdict:
        """Apply it and go on."""
        return Verdict(apply=(grad,), go=(grad.worker,))

    def lost(self, worker: int, restarting: bool) -> Verdict:
        """Nobody waited for it."""
        return NOTHING

    def joined(self, worker: int) -> Verdict:
        """Computes at once."""
        return Verdict(go=(worker,))

    def log_state(self) -> dict[str, float | int | str]:
        """Stateless."""
        return {}
