"""STAR's straggler predictor: first the resources of the next iterations, then the time that these take."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from math import isfinite
from typing import ClassVar, final

import numpy as np

from predictors.history import Floats
from predictors.iteration_time import inputs_of, plausible
from predictors.lstm import load_lstm
from predictors.received import RESOURCES, Received, forecast
from predictors.regressors import regressor
from predictors.stragglers import STRAGGLER_FRAC, Observation, deviations, exceeding
from reading.ranges import NonNegativeFloat, PositiveInt, check_settings

ROWS = 1000
"""Iterations of all workers that the regressor learns from: the last so many."""


@final
@dataclass(kw_only=True)
class FromResources:
    """Tags workers whose predicted time exceeds the fastest worker's by more than ``tolerance_frac``.

    Source: STAR, section IV-A. An LSTM continues the processor share and the bandwidth that each worker received in its
    last ``history_iters`` iterations; a regressor, fitted on all workers' iterations of the job so far, makes a time of
    them. A prediction is kept within a fifth and five times of the worker's median. With fewer than ``min_records``
    iterations, and for one whose processor share is unknown, the last time is the prediction.

    Departures: bandwidths, and the processors of a worker that uses several cores, are fractions of its largest
    (:func:`predictors.lstm.whole`); times are fitted on one job, so the model's name is no input. In the seconds of a
    GPU and of a sleep the processor counts as idle.

    Attributes:
        resources: how they are continued: ``lstm``, ``ema`` (weight 0.2 of the newest) or ``last``.
        regressor: ``linear``, ``mlp`` or ``lightgbm`` (needs the package).
        weights: a file of scripts/fitting/train_predictor.py; empty: the one that comes along.
        history_iters: 100 in the paper.
        horizon_iters: how many iterations ahead :meth:`seconds` and :meth:`tags` look; at most ``history_iters``.
        min_records: iterations of a worker before its resources are continued.
        refit_every: iterations of all workers between two fits of the regressor.
        tolerance_frac: STAR's 0.2.
    """

    reads_time: ClassVar[bool] = False
    resources: str = "lstm"
    regressor: str = "linear"
    weights: str = ""
    history_iters: PositiveInt = 100
    horizon_iters: PositiveInt = 1
    min_records: PositiveInt = 10
    refit_every: PositiveInt = 100
    tolerance_frac: NonNegativeFloat = STRAGGLER_FRAC

    def __post_init__(self) -> None:
        if self.resources not in RESOURCES:
            raise ValueError(f"resources={self.resources}: must be one of {', '.join(RESOURCES)}")
        check_settings(self)
        if self.horizon_iters > self.history_iters:
            raise ValueError(
                f"horizon_iters={self.horizon_iters}: must be at most history_iters ({self.history_iters}), or it "
                "predicts further than it looks back"
            )
        if self.resources == "lstm":
            load_lstm(self.weights, "resources")
        self._model = regressor(self.regressor)
        self._received: dict[int, Received] = {}
        self._last_s: dict[int, float] = {}
        self._predicted_s: dict[int, float] = {}
        self._rows: deque[tuple[float, float, float, float]] = deque(maxlen=ROWS)
        self._unlearnt = 0
        self._is_fitted = False

    @property
    def fitted(self) -> tuple[str, ...]:
        """The file that it predicts by, as records name it; none where resources stay as they are."""
        return (load_lstm(self.weights, "resources").known_as,) if self.resources == "lstm" else ()

    def update(self, observation: Observation) -> None:
        """Add one iteration of its worker."""
        worker = observation.worker
        self._last_s[worker] = observation.iter_s
        self._predicted_s.pop(worker, None)
        if not isfinite(observation.cpu_frac) or observation.cpu_frac <= 0:
            return
        own = self._received.setdefault(worker, Received(self.history_iters))
        own.add(observation)
        self._rows.append((own.samples, *own.rows[-1], observation.iter_s))
        self._unlearnt += 1

    def forget(self, worker: int) -> None:
        for known in (self._received, self._last_s, self._predicted_s):
            known.pop(worker, None)

    def seconds(self) -> dict[int, float]:
        """Predicted time of each worker's ``horizon_iters``-th next iteration, in seconds."""
        wanted = [worker for worker in self._last_s if worker not in self._predicted_s]
        horizon = self.horizon_iters
        self._predicted_s |= {worker: own[0] for worker, own in self._ahead(wanted, horizon, horizon).items()}
        return self._predicted_s

    def seconds_ahead(self, first: int, last: int) -> dict[int, tuple[float, ...]]:
        """Predicted seconds of the iterations from ``first`` to ``last`` ahead (1: the next one), by worker.

        Iterations further ahead than ``history_iters`` equal the last predicted one: predictions reach no further than
        the history.
        """
        known = min(last, self.history_iters)
        begin = min(first, known)
        found = self._ahead(list(self._last_s), begin, known)
        return {worker: own + own[-1:] * (last - first - known + begin) for worker, own in found.items()}

    def tags(self, t: float) -> frozenset[int]:
        """Workers whose predicted time exceeds the tolerance."""
        return exceeding(deviations(self.seconds()), self.tolerance_frac)

    def _fit(self) -> None:
        samples, cpu_frac, bytes_per_s, seconds = np.array(self._rows).T
        self._model.fit(inputs_of(samples, cpu_frac, np.ones(len(samples)), bytes_per_s), seconds)
        self._unlearnt, self._is_fitted = 0, True

    def _ahead(self, workers: list[int], first: int, last: int) -> dict[int, tuple[float, ...]]:
        """Seconds of the iterations from ``first`` to ``last`` ahead; after too few records, the last time."""
        found = {worker: (self._last_s[worker],) * (last - first + 1) for worker in workers}
        ready = [w for w in workers if w in self._received and len(self._received[w].rows) >= self.min_records]
        if ready:
            if self._unlearnt >= self.refit_every or not self._is_fitted:
                self._fit()
            for worker, seconds in zip(ready, self._times(ready, first, last).tolist(), strict=True):
                found[worker] = tuple(seconds)
        return found

    def _times(self, workers: list[int], first: int, last: int) -> Floats:
        """Float [workers, iterations]: every batch is as large as the worker's last."""
        histories = [self._received[worker] for worker in workers]
        ahead = forecast(self.resources, self.weights, histories, first, last)
        shape = ahead.shape[:2]
        samples = np.repeat([each.samples for each in histories], shape[1])
        rows = inputs_of(samples, ahead[:, :, 0].ravel(), np.ones(len(samples)), ahead[:, :, 1].ravel())
        seconds = self._model.predict(rows).reshape(shape)
        return plausible(seconds, np.array([[each.median_s] for each in histories]))
