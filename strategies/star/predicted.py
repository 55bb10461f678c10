"""STAR's prediction of iteration times and stragglers, by any predictor of the registry (section IV-A; pure)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from math import ceil, isfinite, nan
from statistics import fmean, median
from typing import Any, NamedTuple, final

from predictors.iteration_time import LEAST_FRAC, MOST_FRAC
from predictors.recent import Recent
from predictors.registry import settings_of, straggler_predictor
from predictors.stragglers import (
    STRAGGLER_FRAC,
    PredictsAhead,
    PredictsTimes,
    StragglerPredictor,
    deviations,
    exceeding,
)
from reading.ranges import NonNegativeFloat, NonNegativeInt, PositiveInt, check_settings
from strategies.parts.monitoring.base import Warmup
from strategies.parts.monitoring.observed import Predicting, observe
from strategies.protocol import AnyEvent, Arrived, Lost, Ready, Restored


class Outlook(NamedTuple):
    """Predicted seconds of the workers' own iterations, in their order, and who is predicted to straggle."""

    times_s: tuple[float, ...]
    tagged: frozenset[int]


@dataclass(kw_only=True)
class PredictionSettings:
    """How times are predicted, and which workers are tagged.

    Attributes:
        predictor: a name of ``predictors.registry.STRAGGLER_PREDICTORS``; ``fixed_duration`` is the ablation /SP.
        straggler_frac: part of the fastest worker's time by which a straggler's exceeds it.
        history_iters: iterations of a worker whose median bounds its predictions (to 0.2 and 5 times).
        horizon_iters: iterations ahead that are predicted.
        warmup_iters: first iterations of a process that are ignored.
    """

    predictor: str = "last_value"
    straggler_frac: NonNegativeFloat = STRAGGLER_FRAC
    history_iters: PositiveInt = 100
    horizon_iters: PositiveInt = 30
    warmup_iters: NonNegativeInt = 3


@final
@dataclass(kw_only=True)
class PredictedTimes(PredictionSettings, Predicting):
    """Predicts the workers' iteration times over a horizon; tags those that exceed the fastest by ``straggler_frac``.

    A predictor that predicts tags and no times (``fixed_duration``) keeps its tags, and the last time stands for the
    next. Most predictors know the next iteration only and take it to last for the horizon. A worker whose process
    restarts keeps its last predicted time until the new one is measured; without any time it is taken to be as fast as
    the median of the others.

    Attributes:
        settings: of the predictor, where they differ from its defaults.
        with_links: whether times include the worker's link; without servers only children have one.
        with_sending: whether they include the way of the gradient; if not, an iteration ends when that is ready. Of
            gradients that are summed on their way it is not known.
    """

    settings: Mapping[str, Any] = field(default_factory=dict)
    with_links: bool = True
    with_sending: bool = True

    def __post_init__(self) -> None:
        check_settings(self)
        if self.horizon_iters > self.history_iters:
            raise ValueError(
                f"horizon_iters={self.horizon_iters}: must be at most history_iters={self.history_iters}; nothing is "
                "predicted further ahead than is known"
            )
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"predictor_settings={self.settings}: must be settings by name, such as {{alpha: 0.5}}")
        self._refuse_oracle()
        if not self.with_sending and self.reads_received:
            raise ValueError(
                f"predictor={self.predictor}: needs to know what sending takes, and of gradients that are summed on "
                "their way it is not known; choose another, or leave out the tree"
            )
        self._forget()

    def _forget(self) -> None:
        self._warmup, self._recent = Warmup(self.warmup_iters), Recent(self.history_iters)
        self._last_s: dict[int, float] = {}
        self._kept_s: dict[int, float] = {}
        self._predicted_s: dict[int, float] = {}
        self._model_bytes = nan
        self._of = self._predictor()
        # to ask each time what it can do takes as long as to predict
        self._ahead = self._of if isinstance(self._of, PredictsAhead) else None
        self._next = self._of if isinstance(self._of, PredictsTimes) else None

    def _predictor(self) -> StragglerPredictor:
        settings = dict(self.settings)
        try:
            own = {
                "tolerance_frac": self.straggler_frac,
                "history_iters": self.history_iters,
                "horizon_iters": self.horizon_iters,
            }
            known = settings_of(self.predictor)
            settings = {name: value for name, value in own.items() if name in known} | settings
            return straggler_predictor(self.predictor, settings)
        except ValueError as error:
            raise ValueError(f"predictor={error}") from None

    def observe_event(self, event: AnyEvent) -> None:
        """Pass whole iterations to the predictor, and forget workers whose process is lost."""
        match event:
            case Arrived(grad=grad) | Ready(grad=grad) if isinstance(
                event, Arrived
            ) is self.with_sending and self._warmup.tells(event):
                seconds = event.timings.own_s if self.with_links else event.timings.bpt_s
                observation = observe(event, self._model_bytes, seconds)
                self._of.update(observation)
                self._recent.add(observation)
                self._last_s[grad.worker] = observation.iter_s
                self._kept_s.pop(grad.worker, None)
            case Lost(worker=worker):
                self._drop(worker)
                if event.restarting and worker in self._predicted_s:
                    self._kept_s[worker] = self._predicted_s[worker]
                elif not event.restarting:
                    self._kept_s.pop(worker, None)
            case Restored(workers=workers):
                for worker in [worker for worker in self._last_s if worker not in workers]:
                    self._drop(worker)
                self._kept_s = {worker: time_s for worker, time_s in self._kept_s.items() if worker in workers}

    def _drop(self, worker: int) -> None:
        self._of.forget(worker)
        self._recent.forget(worker)
        self._last_s.pop(worker, None)

    def outlook(self, workers: Sequence[int], t: float, lead_s: float = 0.0) -> Outlook | None:
        """The prediction at time ``t`` for what ``workers`` do ``lead_s`` later: mean times over the horizon.

        Workers that straggle in any of its iterations are tagged. None for fewer than two workers with a known time,
        and where a predictor says nothing usable.
        """
        known = [worker for worker in workers if worker in self._last_s]
        later_s = self._later_s(lead_s) if known else {}
        if not all(isfinite(time_s) and time_s > 0 for worker in known for time_s in later_s[worker]):
            return None
        length = max((len(later_s[worker]) for worker in known), default=1)
        ahead_s = {worker: [time_s] * length for worker, time_s in self._kept_s.items() if worker in workers}
        ahead_s |= {worker: self._clip(worker, later_s[worker]) for worker in known}
        if len(ahead_s) < 2:
            return None
        slow = {
            worker
            for index in range(length)
            for worker in exceeding(deviations({one: own[index] for one, own in ahead_s.items()}), self.straggler_frac)
        }
        if self._ahead is None and self._next is None:
            slow = (slow - set(known)) | (self._of.tags(t) & set(known))
        times_s = {worker: fmean(seconds) for worker, seconds in ahead_s.items()}
        self._predicted_s = times_s
        usual_s = median(times_s.values())
        return Outlook(tuple(times_s.get(worker, usual_s) for worker in workers), frozenset(slow))

    def _later_s(self, lead_s: float) -> Mapping[int, Sequence[float]]:
        """Seconds of the iterations of the horizon, which begins ``lead_s`` later; one where all are the same."""
        if self._ahead is not None:
            first = 1 + ceil(lead_s / median(self._last_s.values()))
            return self._ahead.seconds_ahead(first, first + self.horizon_iters - 1)
        next_s = self._last_s if self._next is None else self._next.seconds()
        return {worker: (time_s,) for worker, time_s in next_s.items()}

    def _clip(self, worker: int, seconds: Sequence[float]) -> list[float]:
        usual_s = self._recent.median_s[worker]
        return [min(max(time_s, LEAST_FRAC * usual_s), MOST_FRAC * usual_s) for time_s in seconds]
