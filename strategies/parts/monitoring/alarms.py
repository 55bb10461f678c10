"""Any straggler predictor as a detector of slow workers (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any, Literal, final

from predictors.registry import straggler_predictor
from reading.ranges import NonNegativeInt, check_settings
from strategies.parts.monitoring.base import Warmup
from strategies.parts.monitoring.observed import Predicting, observe
from strategies.protocol import AnyEvent, Arrived, Lost, Restored


@final
@dataclass(kw_only=True)
class Alarms(Predicting):
    """Passes every whole iteration to a straggler predictor; its stragglers are those that it tags now.

    Attributes:
        predictor: a name of ``predictors.registry.STRAGGLER_PREDICTORS`` but ``oracle``.
        settings: of the predictor, where they differ from its defaults.
        warmup_iters: first iterations of a process that are ignored.
    """

    predictor: str = "nvrx"
    settings: Mapping[str, Any] = field(default_factory=dict)
    warmup_iters: NonNegativeInt = 3

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"settings={self.settings}: must be settings by name, such as {{threshold: 0.8}}")
        self._refuse_oracle()
        self._forget()

    def _forget(self) -> None:
        try:
            self._of = straggler_predictor(self.predictor, self.settings)
        except ValueError as error:
            raise ValueError(f"predictor={error}") from None
        self._warmup, self._t, self._model_bytes = Warmup(self.warmup_iters), 0.0, nan
        self._last_s: dict[int, float] = {}

    def observe_event(self, event: AnyEvent) -> None:
        self._t = event.t
        match event:
            case Arrived(grad=grad) if self._warmup.tells(event):
                observation = observe(event, self._model_bytes, event.timings.own_s)
                self._of.update(observation)
                self._last_s[grad.worker] = observation.iter_s
            case Lost(worker=worker):
                self._drop(worker)
            case Restored(workers=workers):
                for worker in self._last_s.keys() - set(workers):
                    self._drop(worker)

    def _drop(self, worker: int) -> None:
        self._of.forget(worker)
        self._last_s.pop(worker, None)

    def stragglers(self, span: Literal["short", "long"]) -> list[int]:
        """The workers that are tagged now, by their last times, whatever the ``span``; a predictor has its windows."""
        del span
        tagged = self._of.tags(self._t) & self._last_s.keys()
        return sorted(tagged, key=lambda worker: (-self._last_s[worker], worker))

    def slow_servers(self, min_update_s: float = 0.0) -> list[int]:
        """None: straggler predictors know workers only."""
        del min_update_s
        return []

    def log_state(self) -> dict[str, float | int | str]:
        return {"tagged": len(self.stragglers("long"))}
