"""Common parts of choosers of modes, with servers or a ring: when to decide, and who waits meanwhile (pure)."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import final

from reading.ranges import Bool, NonNegativeFloat, PositiveFrac, PositiveInt, check_settings
from strategies.parts.gates.base import Verdict
from strategies.parts.hooks import Order, Peers, State
from strategies.parts.monitoring.base import MeasuresNoise
from strategies.parts.nodes import Pause
from strategies.protocol import AnyCommand, AnyEvent, Joined, Lost, Restored, Started, Woke
from strategies.star.learned import ModeLearner
from strategies.star.measuring import Measuring
from strategies.star.predicted import PredictedTimes
from strategies.star.times import ModeTimes


@dataclass(kw_only=True)
class DecisionSettings:
    """When decisions are made, and their duration.

    Attributes:
        predict_every_iters: iterations of every worker on average from one prediction to the next.
        redecide_iters: iterations of every worker on average after which a new decision is made while a worker is
        tagged, although nothing changed.
        decision_s: seconds that a decision takes.
        pause: whether workers wait for a decision.
        max_pause_frac: decisions that change nothing pause ever less often, until they take this part of the time.
        learning: prices the modes once it has learnt enough, in seconds of its own (STAR-ML,
            :class:`strategies.star.learned.ModeLearner`); None: STAR-H always decides.
    """

    predict_every_iters: PositiveInt = 1
    redecide_iters: PositiveInt = 10
    decision_s: NonNegativeFloat = 0.97
    pause: Bool = True
    max_pause_frac: PositiveFrac = 1.0
    learning: ModeLearner | None = None


@dataclass(kw_only=True)
class Deciding(DecisionSettings, ABC):
    """Abstract: a schedule that chooses modes, by a model or without, and holds Computes while it decides.

    ``_pause`` belongs to the decision in progress. With ``_begins`` the mode is measured from the next update on after
    which no worker pauses.
    """

    def _query(self, peers: Peers) -> None:
        """Keep the detectors by which modes are costed."""
        self._predicts = peers.one(PredictedTimes)
        self._noise: MeasuresNoise = peers.one(MeasuresNoise)  # type: ignore[type-abstract]

    def _begin_job(self, started: Started, costs: ModeTimes) -> None:
        """Nothing was predicted, decided or measured in this job."""
        self._batch_samples = sum(started.batch_samples) / len(started.batch_samples)
        self._pause, self._spacing = Pause(), Spacing(self.max_pause_frac)
        self._now, self._updated = started.t, False
        self._arrived = self._iters = self._decisions = self._switches = 0
        self._said = ""
        self._measuring, self._begins = Measuring(self.learning, costs), False
        if self.learning is not None:
            self.learning.reset()

    def _note(self, event: AnyEvent) -> None:
        """Keep the time; forget what was measured with other workers, or of updates that are rolled back."""
        self._now, self._updated = event.t, False
        match event:
            case Joined() | Lost():
                self._measuring.forget()
                self._spacing.reset()
                if isinstance(event, Lost):
                    self._pause.forget(event.worker)
            case Restored():
                self._measuring.forget(event.version)
                self._pause = Pause()

    def _is_time_to_look(self, arrived: int, num_workers: int, *, deciding: bool) -> bool:
        """Whether ``arrived`` gradients more are enough for the next prediction; otherwise a model learns meanwhile."""
        self._arrived += arrived
        if deciding or self._arrived < self.predict_every_iters * num_workers:
            if self.learning is not None:
                self.learning.advance()
            return False
        self._arrived = 0
        self._iters += self.predict_every_iters
        return True

    @abstractmethod
    def then(self, event: AnyEvent) -> Sequence[Verdict | AnyCommand]:
        """Predict and decide if it is time for that."""

    def _check(self, topology: str, costs: ModeTimes) -> None:
        """Raise ``ValueError`` for settings out of their ranges, and for a model that was made for others."""
        check_settings(self)
        if not isinstance(self.learning, ModeLearner | None):
            raise ValueError(f"learning={self.learning}: must be a strategies.star.learned.ModeLearner, or null")
        if self.learning is not None:
            self.learning.check(topology, costs)

    @property
    def fitted(self) -> tuple[str, ...]:
        return () if self.learning is None else self.learning.fitted

    @property
    def _pauses(self) -> bool:
        takes_s = max(self.decision_s, 0.0 if self.learning is None else self.learning.decision_s)
        return self.pause and takes_s > 0

    def validate(self, num_workers: int) -> None:
        if self.learning is not None:
            try:
                self.learning.validate(num_workers)
            except ValueError as error:
                raise ValueError(f"learning.{error}") from None

    def settle(self, event: AnyEvent, commands: list[AnyCommand], order: Order) -> list[AnyCommand]:
        """Hold Computes during a decision, and release them when it is made."""
        commands = self._pause.hold(commands)
        if not isinstance(event, Woke):
            return commands
        return [*commands, *(order(worker) for worker in self._pause.ends(event.t))]

    def _takes_s(self, workers: Collection[int]) -> float:
        """Seconds that the next decision takes."""
        learning = self.learning
        return learning.decision_s if learning is not None and learning.can_decide(len(workers)) else self.decision_s

    def _learning_state(self) -> State:
        """Whether the model or STAR-H decides, and how good the model is."""
        if self.learning is None:
            return {}
        regret = self.learning.regret_frac
        by = "model" if self.learning.decides else "STAR-H"
        return {"decided_by": by, "regret_frac": -1.0 if regret is None else regret}


@final
class Spacing:
    """Decisions that change nothing come ever further apart, until they take ``max_frac`` of the time.

    With real processes predicted times differ all the time, by noise. Decided at every difference, STAR-H spent half of
    a live job on decisions that kept its mode. The wait doubles with each of them, and is over with the first change.
    """

    def __init__(self, max_frac: float) -> None:
        self.max_frac = max_frac
        self.reset()

    def reset(self) -> None:
        """Something has changed: decide when it is asked for."""
        self._unchanged, self._again_s = 0, 0.0

    def waits(self, t: float) -> bool:
        """Whether it is too early at time ``t``."""
        return t < self._again_s

    def note_decision(self, t: float, takes_s: float, *, changed: bool) -> None:
        """A decision of ``takes_s`` began at time ``t``; one that takes no time need not be spaced."""
        if changed:
            self.reset()
        if changed or takes_s == 0:
            return
        self._unchanged += 1
        # a float's power of two, as the number of decisions has no bound
        self._again_s = t + takes_s * min(2.0 ** min(self._unchanged, 60), 1 / self.max_frac)
