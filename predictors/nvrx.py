"""Performance scores as NVIDIA's Resiliency Extension (NVRx) gives its ranks."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from predictors.checks import check_number, check_whole
from predictors.recent import Recent
from predictors.stragglers import Seen

SCORES = ("relative", "individual", "both")


@final
@dataclass(kw_only=True)
class Nvrx:
    """Tags whose score, reference time / own median time (1 is best), is below ``threshold``.

    Source: github.com/NVIDIA/nvidia-resiliency-ext, straggler/reporting.py (the scores of a timed section) and the
    usage guide of its straggler detection. The *relative* score refers to the smallest median of all ranks, the
    *individual* one to the smallest median that the rank itself has had so far. The threshold is 0.7 in its Lightning
    callback's example and in Megatron Bridge; ``identify_stragglers`` itself has 0.75.

    Departures: the section is a whole iteration, without waiting. NVRx reports every few minutes on what it timed
    since; here medians are of the last ``window_iters`` iterations and scores are renewed after each. NVRx lists ranks
    by either score apart; ``both`` tags who is in either list. There are no kernels, so there is no GPU score.

    Attributes:
        threshold: between 0 and 1; 0.7 is 43 % slower than the reference.
        window_iters: iterations of a worker whose median is its time.
        scores: ``relative``, ``individual`` or ``both``.
    """

    threshold: float = 0.7
    window_iters: int = 10
    scores: str = "both"

    def __post_init__(self) -> None:
        """Check the fields."""
        check_number("threshold", self.threshold, above=0.0, most=1.0)
        check_whole("window_iters", self.window_iters, 1)
        if self.scores not in SCORES:
            raise ValueError(f"scores={self.scores}: must be one of {', '.join(SCORES)}")
        self._recent = Recent(self.window_iters)
        self._best_s: dict[int, float] = {}

    def update(self, seen: Seen) -> None:
        """Into its worker's window; only a full window is a reference, for one lucky iteration is none."""
        full = self._recent.add(seen) == self.window_iters
        median_s = self._recent.median_s[seen.worker]
        if full and median_s < self._best_s.get(seen.worker, float("inf")):
            self._best_s[seen.worker] = median_s

    def gone(self, worker: int) -> None:
        """Forget it."""
        self._recent.gone(worker)
        self._best_s.pop(worker, None)

    def relative(self) -> dict[int, float]:
        """Smallest median of all workers / own, by worker."""
        seconds = self._recent.median_s
        return {worker: min(seconds.values()) / own_s for worker, own_s in seconds.items()} if len(seconds) > 1 else {}

    def individual(self) -> dict[int, float]:
        """Own smallest median so far / own now, by worker whose window has been full."""
        return {worker: best_s / self._recent.median_s[worker] for worker, best_s in self._best_s.items()}

    def tags(self, t: float) -> frozenset[int]:
        """Whose score is too low now; nobody's while there is only one worker."""
        if len(self._recent.median_s) < 2:
            return frozenset()
        relative = self.relative() if self.scores != "individual" else {}
        individual = self.individual() if self.scores != "relative" else {}
        return frozenset(
            worker for scores in (relative, individual) for worker, score in scores.items() if score < self.threshold
        )
