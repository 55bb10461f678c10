"""Performance scores as in NVIDIA's Resiliency Extension (NVRx)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

from predictors.recent import Recent
from predictors.stragglers import Observation
from reading.ranges import PositiveFrac, PositiveInt, check_settings

SCORES = ("relative", "individual", "both")


@final
@dataclass(kw_only=True)
class Nvrx:
    """Tags workers whose score, reference time / own median time (1 is best), is below ``threshold``.

    Source: github.com/NVIDIA/nvidia-resiliency-ext, straggler/reporting.py (the scores of a timed section) and the
    usage guide of its straggler detection. The *relative* score uses the smallest median of all ranks as its reference,
    the *individual* one the smallest median that the rank itself has had so far. The threshold is 0.7 in the example of
    its Lightning callback and in Megatron Bridge; ``identify_stragglers`` itself has 0.75.

    Departures: the timed section is a whole iteration, without waiting. NVRx reports every few minutes on what it timed
    since the last report; here medians cover the last ``window_iters`` iterations and scores are updated after each.
    NVRx lists ranks separately by either score; ``both`` tags those in either list. There are no kernels, so there is
    no GPU score.

    Attributes:
        threshold: between 0 and 1; 0.7 is 43 % slower than the reference.
        window_iters: a worker's time is the median of this many iterations.
        scores: ``relative``, ``individual`` or ``both``.
    """

    reads_time: ClassVar[bool] = False
    threshold: PositiveFrac = 0.7
    window_iters: PositiveInt = 10
    scores: str = "both"

    def __post_init__(self) -> None:
        check_settings(self)
        if self.scores not in SCORES:
            raise ValueError(f"scores={self.scores}: must be one of {', '.join(SCORES)}")
        self._recent = Recent(self.window_iters)
        self._best_s: dict[int, float] = {}

    def update(self, observation: Observation) -> None:
        """Add the iteration to its worker's window; only a full window is a reference, to ignore a lucky iteration."""
        full = self._recent.add(observation) == self.window_iters
        median_s = self._recent.median_s[observation.worker]
        if full and median_s < self._best_s.get(observation.worker, float("inf")):
            self._best_s[observation.worker] = median_s

    def forget(self, worker: int) -> None:
        self._recent.forget(worker)
        self._best_s.pop(worker, None)

    def relative(self) -> dict[int, float]:
        """Smallest median of all workers / own median, by worker."""
        seconds = self._recent.median_s
        least_s = min(seconds.values(), default=0.0)
        return {worker: least_s / own_s for worker, own_s in seconds.items()} if len(seconds) > 1 else {}

    def individual(self) -> dict[int, float]:
        """Own smallest median so far / own current median, by worker whose window has been full."""
        return {worker: best_s / self._recent.median_s[worker] for worker, best_s in self._best_s.items()}

    def tags(self, t: float) -> frozenset[int]:
        """Workers whose score is below the threshold now; none while there is only one worker."""
        if len(self._recent.median_s) < 2:
            return frozenset()
        relative = self.relative() if self.scores != "individual" else {}
        individual = self.individual() if self.scores != "relative" else {}
        return frozenset(
            worker for scores in (relative, individual) for worker, score in scores.items() if score < self.threshold
        )
