"""Sync-Switch's straggler detection: workers that have been slow for some seconds (STAR, section V-A; pure)."""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Annotated, final

from predictors.fixed_duration import SlowFor
from strategies.parts.checks import NonNegativeFloat, NonNegativeInt, OneOf, check_settings
from strategies.parts.monitoring.warmup import Warmup
from strategies.protocol import AnyEvent, Arrived, Lost, NodeId, Restored, Started
from strategies.sync_switch.slow_lately import SlowLately


@dataclass(kw_only=True)
class FlagSettings:
    """Who is a straggler.

    Attributes:
        duration_s: seconds for which a worker must have been slow.
        tolerance_frac: part of the fastest worker's time (``median``: of the median worker's) by which a slow worker
            takes longer.
        judge: ``published`` (:class:`predictors.fixed_duration.SlowFor`), or ``median``
            (:class:`strategies.sync_switch.slow_lately.SlowLately`), which noise alone does not trigger.
        warmup_iters: first iterations of a process that are ignored.
    """

    duration_s: NonNegativeFloat = 5.0
    tolerance_frac: NonNegativeFloat = 0.2
    judge: Annotated[str, OneOf("published", "median")] = "published"
    warmup_iters: NonNegativeInt = 3


@final
@dataclass(kw_only=True)
class FlagDetector(FlagSettings):
    """Flags workers whose own times, link included, have been too long for ``duration_s``.

    The loss of a process clears its worker's flag, unless it was restarted on purpose.
    """

    def __post_init__(self) -> None:
        check_settings(self)
        self.restarted: AbstractSet[NodeId] = frozenset()
        self._forget()

    def start(self, started: Started) -> None:
        self._forget()

    def _forget(self) -> None:
        rule = SlowFor if self.judge == "published" else SlowLately
        self._warmup, self._slow = Warmup(self.warmup_iters), rule(self.tolerance_frac, self.duration_s)
        self.flagged: AbstractSet[int] = self._slow.flagged
        self._left_out: set[int] = self._slow.flagged if isinstance(self._slow, SlowFor) else set()
        self.left_out: AbstractSet[int] = self._left_out

    def observe_event(self, event: AnyEvent) -> None:
        """Collect times, and forget workers whose process is lost."""
        match event:
            case Arrived(grad=grad) if self._warmup.tells(event):
                self._slow.observe_duration(event.t, grad.worker, event.timings.own_s)
            case Lost(worker=worker) if event.restarting or NodeId.worker(worker) not in self.restarted:
                self._slow.forget(worker)
            case Restored():
                self._slow.keep_only(event.workers)
            case _:
                return
        if isinstance(self._slow, SlowLately):
            self._left_out.clear()
            self._left_out.update(self._slow.not_worth_waiting_for())

    def log_state(self) -> dict[str, float | int | str]:
        """The number of slow workers."""
        return {"flagged": len(self.flagged)}
