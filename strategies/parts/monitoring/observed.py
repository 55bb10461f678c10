"""Straggler predictors as parts of a strategy: their observations of iterations, and what a part says of its own."""

from __future__ import annotations

from abc import ABC, abstractmethod
from math import nan

from predictors.registry import OF_RESOURCES
from predictors.stragglers import Observation, PredictsByFile, StragglerPredictor
from strategies.protocol import Arrived, Ready, Started


def observe(event: Arrived | Ready, model_bytes: float, iter_s: float) -> Observation:
    """An iteration of ``iter_s`` with what it received.

    That is processor seconds per second, and bytes per second of sending; NaN where unknown, as ``model_bytes`` may be.
    """
    grad, timings = event.grad, event.timings
    return Observation(
        t=event.t,
        worker=grad.worker,
        iteration=grad.iteration,
        iter_s=iter_s,
        cpu_frac=timings.cpu_s / timings.iter_s if timings.cpu_s and timings.iter_s > 0 else nan,
        bytes_per_s=model_bytes / timings.send_s if timings.send_s > 0 else nan,
        samples=float(grad.samples),
        data_s=timings.data_s,
        send_s=timings.send_s,
    )


class Predicting(ABC):
    """The common part of detectors that pass iterations to a predictor by name."""

    predictor: str
    _of: StragglerPredictor
    _model_bytes: float

    @abstractmethod
    def _forget(self) -> None:
        """Begin with a new predictor."""

    def _refuse_oracle(self) -> None:
        if self.predictor == "oracle":
            raise ValueError("predictor=oracle: reads the plan, which no strategy can; choose another")

    @property
    def reads_received(self) -> bool:
        """Whether the predictor needs what iterations received."""
        return self.predictor in OF_RESOURCES

    @property
    def fitted(self) -> tuple[str, ...]:
        """The files that it was fitted to."""
        return self._of.fitted if isinstance(self._of, PredictsByFile) else ()

    def start(self, started: Started) -> None:
        self._forget()
        self._model_bytes = nan if started.model_bytes is None else float(started.model_bytes)
