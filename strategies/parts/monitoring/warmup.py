"""Which iterations are usable to measure a worker's speed (pure)."""

from __future__ import annotations

from typing import final

from strategies.protocol import Arrived, Ready


@final
class Warmup:
    """Accepts whole batches, except the first ``warmup_iters`` of a process (imports, allocation, caches).

    The short batches at the end of an epoch are misleading: fewer samples share their fixed costs.
    """

    def __init__(self, warmup_iters: int) -> None:
        self.warmup_iters = warmup_iters
        self._seen: dict[int, tuple[int, int]] = {}

    def tells(self, event: Arrived | Ready) -> bool:
        """Whether this iteration's time may be used; call it once per iteration."""
        grad = event.grad
        if not 0 < grad.samples == grad.assigned_samples or event.timings.bpt_s <= 0:
            return False
        incarnation, count = self._seen.get(grad.worker, (grad.incarnation, 0))
        count = count + 1 if incarnation == grad.incarnation else 1
        self._seen[grad.worker] = (grad.incarnation, count)
        return count > self.warmup_iters
