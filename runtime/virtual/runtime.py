"""``cluster=virtual``: time from an event heap and a cost model, gradients from a real backend or from none."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, ClassVar, Literal, final

from injectors.sleep import SleepActuator
from runtime.coordinator import CAPABILITIES
from runtime.device import parse_device
from runtime.executor import cut_for
from runtime.instantiate import instantiate
from runtime.spec import Experiment, Outcome
from runtime.virtual.costs import load_costs
from runtime.virtual.learner import Learner, NoLearner, RealLearner
from runtime.virtual.regular import RegularRun, rhythm_of
from runtime.virtual.rounds import Rounds
from runtime.virtual.session import Session
from runtime.virtual.waves import Waves
from strategies.protocol import Command


@final
@dataclass(kw_only=True)
class VirtualRuntime:
    """Runs a job on a virtual clock; every field is described in ``conf/cluster/virtual.yaml``."""

    capabilities: ClassVar[frozenset[type[Command]]] = CAPABILITIES
    name: ClassVar[str] = "virtual"
    needs_gradients: ClassVar[bool] = False

    num_workers: int
    device: dict[str, float] | None = None
    costs: str = "ideal"
    decisions: Literal["fixed", "measured"] = "fixed"

    def __post_init__(self) -> None:
        """Check the fields."""
        self._profile = parse_device(self.device)
        if self.decisions not in ("fixed", "measured"):
            raise ValueError(f"decisions={self.decisions}: must be fixed or measured")
        self._model = load_costs(self.costs)
        if self._profile is None and not self._model.values.compute_s(1):
            raise ValueError(
                f"device=null: the cost model {self.costs} does not say how long computing takes; give a device "
                "profile, or a model that was calibrated on runs without one"
            )
        if not self.base_iter_s(1):
            raise ValueError(f"device={self.device}: an iteration must take some time, or the clock would stand still")

    def base_iter_s(self, batch_samples: int) -> float | None:
        """Nominal time of an undisturbed iteration."""
        if self._profile is not None:
            return self._profile.seconds(batch_samples)
        return self._model.values.compute_s(batch_samples)

    def machine(self) -> dict[str, Any]:
        """Virtual time does not depend on the machine."""
        return {}

    def calibration(self, batch_samples: int) -> str:
        """The cost model, as records and captions name it."""
        model = self._model
        beyond = ", extrapolated" if model.extrapolates(batch_samples, self.num_workers) else ""
        return f"{model.name} {model.sha256[:8]}{beyond}"

    def run(self, experiment: Experiment, actuator: SleepActuator) -> Outcome:
        """Run the job to its end; the record is written by ``experiment.record``."""
        learner = make_learner(experiment)
        measures = self.decisions == "measured"
        values = self._model.values
        with _interruptible(experiment):
            if (regular := None if measures else self._regular(experiment, actuator, learner)) is not None:
                return regular.run()
            return Session(experiment, actuator, learner, values, self._profile, measures_decisions=measures).run()

    def _regular(self, experiment: Experiment, actuator: SleepActuator, learner: Learner) -> RegularRun | None:
        """The short way, where there is one."""
        costs, rows = self._model.values, experiment.columns
        if rows is None or not isinstance(learner, NoLearner):
            return None
        rhythm = rhythm_of(experiment.job, experiment.strategy, costs, scored=learner.progress is not None)
        if rhythm is None:
            return None
        loops = Rounds if rhythm.bound == 0 else Waves
        return loops(experiment, rows, actuator, learner, costs, self._profile, rhythm)


def make_learner(experiment: Experiment) -> Learner:
    """What the experiment's backend makes of its task."""
    job = experiment.job
    backend, task = instantiate(experiment.backend, "backend"), instantiate(experiment.task, "workload.task")
    if not backend.computes:
        return NoLearner(backend.parameters_of(task), backend.load_progress())
    cut = cut_for(job, experiment.strategy.data)
    return RealLearner(backend.prepare(task, job.seed), experiment.optimizer, cut, job.seed)


@contextmanager
def _interruptible(experiment: Experiment) -> Iterator[None]:
    """Ctrl-C, SIGTERM and SIGHUP end the run in good order; a second one ends it at once."""

    def interrupt(number: int, _: object) -> None:
        if experiment.interrupted_by:
            os._exit(128 + number)
        experiment.interrupted_by = number

    numbers = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
    before = [signal.signal(number, interrupt) for number in numbers]
    try:
        yield
    finally:
        for number, handler in zip(numbers, before, strict=True):
            signal.signal(number, handler)
