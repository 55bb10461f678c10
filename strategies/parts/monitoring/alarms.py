"""Any straggler predictor as a detector of slow workers (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from math import nan
from typing import Any, Literal, final

from predictors.registry import OF_RESOURCES, straggler_predictor
from predictors.stragglers import PredictsByFile
from reading.ranges import NonNegativeInt, check_settings
from strategies.parts.monitoring.base import Warmup
from strategies.parts.monitoring.observed import observe
from strategies.protocol import AnyEvent, Arrived, Lost, Restored, Started


@final
@dataclass(kw_only=True)
class Alarms:
    """Passes every whole iteration to a straggler predictor; its stragglers are those that it tags now.

    Attributes:
        detector: a name of ``predictors.registry.STRAGGLER_PREDICTORS`` but ``oracle``.
        settings: of the detector, where they differ from its defaults.
        warmup_iters: first iterations of a process that are ignored.
    """

    detector: str = "nvrx"
    settings: Mapping[str, Any] = field(default_factory=dict)
    warmup_iters: NonNegativeInt = 3

    def __post_init__(self) -> None:
        check_settings(self)
        if not isinstance(self.settings, Mapping):
            raise ValueError(f"settings={self.settings}: must be settings by name, such as {{threshold: 0.8}}")
        if self.detector == "oracle":
            raise ValueError("detector=oracle: reads the plan, which no strategy can; choose another")
        self._forget()

    def _forget(self) -> None:
        try:
            self._of = straggler_predictor(self.detector, self.settings)
        except ValueError as error:
            raise ValueError(f"detector={error}") from None
        self._warmup, self._known, self._t, self._model_bytes = Warmup(self.warmup_iters), set[int](), 0.0, nan

    @property
    def reads_received(self) -> bool:
        """Whether the detector needs what iterations received."""
        return self.detector in OF_RESOURCES

    @property
    def fitted(self) -> tuple[str, ...]:
        return self._of.fitted if isinstance(self._of, PredictsByFile) else ()

    def start(self, started: Started) -> None:
        self._forget()
        self._model_bytes = nan if started.model_bytes is None else float(started.model_bytes)

    def observe_event(self, event: AnyEvent) -> None:
        self._t = event.t
        match event:
            case Arrived(grad=grad) if self._warmup.tells(event):
                self._of.update(observe(event, self._model_bytes, event.timings.own_s))
                self._known.add(grad.worker)
            case Lost(worker=worker):
                self._drop(worker)
            case Restored(workers=workers):
                for worker in self._known.difference(workers):
                    self._drop(worker)

    def _drop(self, worker: int) -> None:
        self._of.forget(worker)
        self._known.discard(worker)

    def stragglers(self, span: Literal["short", "long"]) -> list[int]:
        """The workers that are tagged now, whatever the ``span``; a detector has its own windows."""
        del span
        return sorted(self._of.tags(self._t) & self._known)

    def slow_servers(self, min_update_s: float = 0.0) -> list[int]:
        """None: straggler predictors know workers only."""
        del min_update_s
        return []

    def log_state(self) -> dict[str, float | int | str]:
        return {"tagged": len(self.stragglers("long"))}
