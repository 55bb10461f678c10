"""Emulated hosts whose links pass nothing: their buckets hold less than one packet."""

from __future__ import annotations

from dataclasses import dataclass

from injectors.schedule import Schedule
from runtime.api import Outcome, RunSpec
from runtime.live import LiveRuntime
from runtime.live.hosts import rules


@dataclass(kw_only=True)
class BrokenLinks(LiveRuntime):  # type: ignore[misc]
    """``runtime=live`` with links that break."""

    def run(self, spec: RunSpec, schedule: Schedule) -> Outcome:
        rules.burst_bytes = lambda rate: 600
        return super().run(spec, schedule)
