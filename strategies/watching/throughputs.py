"""How many samples a second every worker computes, from what it did lately (pure)."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import final

from strategies.protocol import Arrived
from strategies.watching.warmup import Warmup


@final
class Throughputs:
    """Samples over seconds of the last ``num_iters`` whole iterations of each worker, transfers and waiting left out.

    A whole iteration is one of all samples that were assigned (:class:`strategies.watching.warmup.Warmup`).
    """

    def __init__(self, num_iters: int, warmup_iters: int) -> None:
        self.num_iters, self.warmup = num_iters, Warmup(warmup_iters)
        self._records: dict[int, deque[tuple[int, float]]] = {}

    def tell(self, event: Arrived) -> None:
        """A gradient has arrived."""
        if self.warmup.tells(event):
            records = self._records.setdefault(event.grad.worker, deque(maxlen=self.num_iters))
            records.append((event.grad.samples, event.timings.bpt_s))

    def known(self) -> dict[int, float]:
        """Samples per second of the workers that have done ``num_iters`` iterations."""
        return {
            worker: sum(samples for samples, _ in own) / sum(bpt_s for _, bpt_s in own)
            for worker, own in sorted(self._records.items())
            if len(own) == self.num_iters
        }

    def forget(self) -> None:
        """What was measured has been used; what counts now is measured anew."""
        self._records = {}


def largest_change(before: Sequence[float], now: Sequence[float]) -> float:
    """Largest relative change of a share of the sum, as a part of what it was."""
    then, total = sum(before), sum(now)
    return max(abs((new / total) / (old / then) - 1) for old, new in zip(before, now, strict=True))
