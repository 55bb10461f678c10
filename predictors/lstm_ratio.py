"""The baseline of STAR's figure 17: an LSTM on how much slower than the fastest a worker has been."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np

from predictors.lstm import load_lstm
from predictors.stragglers import STRAGGLER_FRAC, Observation, deviations, exceeding
from reading.ranges import NonNegativeFloat, PositiveInt, check_settings


@final
class Deviations:
    """How much slower than the fastest each iteration was, by the latest times of all workers."""

    def __init__(self) -> None:
        self.latest_s: dict[int, float] = {}

    def add(self, observation: Observation) -> float:
        """The deviation of this iteration, as a fraction of the fastest time; 0 for the only worker."""
        self.latest_s[observation.worker] = observation.iter_s
        return deviations(self.latest_s).get(observation.worker, 0.0)

    def forget(self, worker: int) -> None:
        """Its process was lost."""
        self.latest_s.pop(worker, None)


@final
@dataclass(kw_only=True)
class LstmRatio:
    """Tags workers whose next deviation, predicted from their last ones by an LSTM, exceeds ``tolerance_frac``.

    Source: STAR, section V-B, which compares with it and says no more than this.

    Attributes:
        weights: a file of scripts/fitting/train_predictor.py --series deviation; empty: the one that comes along.
        history_iters: deviations to predict from.
        min_records: iterations of a worker before it is predicted; until then the last deviation counts.
        tolerance_frac: STAR's 0.2.
    """

    reads_time: ClassVar[bool] = False
    weights: str = ""
    history_iters: PositiveInt = 100
    min_records: PositiveInt = 10
    tolerance_frac: NonNegativeFloat = STRAGGLER_FRAC

    def __post_init__(self) -> None:
        check_settings(self)
        load_lstm(self.weights, "deviation")
        self._deviations = Deviations()
        self._history: dict[int, deque[float]] = {}
        self._next: dict[int, float] = {}

    @property
    def fitted(self) -> tuple[str, ...]:
        """The file that it predicts by, as records name it."""
        return (load_lstm(self.weights, "deviation").known_as,)

    def update(self, observation: Observation) -> None:
        """Add one iteration of its worker."""
        worker = observation.worker
        own = self._history.setdefault(worker, deque(maxlen=self.history_iters))
        own.append(self._deviations.add(observation))
        self._next.pop(worker, None)

    def forget(self, worker: int) -> None:
        self._deviations.forget(worker)
        self._history.pop(worker, None)
        self._next.pop(worker, None)

    def tags(self, t: float) -> frozenset[int]:
        """Workers whose predicted deviation exceeds the tolerance; none while there is only one."""
        wanted = [worker for worker in self._history if worker not in self._next]
        for worker in wanted:
            self._next[worker] = self._history[worker][-1]
        if ready := [worker for worker in wanted if len(self._history[worker]) >= self.min_records]:
            tables = np.array([self._table(worker) for worker in ready])[:, :, None]
            ahead = load_lstm(self.weights, "deviation").roll_out(tables, 1)[:, 0, 0]
            self._next.update(zip(ready, map(float, ahead), strict=True))
        if len(self._history) < 2:
            return frozenset()
        return exceeding(self._next, self.tolerance_frac)

    def _table(self, worker: int) -> list[float]:
        own = self._history[worker]
        return [own[0]] * (self.history_iters - len(own)) + list(own)
