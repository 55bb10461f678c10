"""No jobs from anywhere: the run is one job."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from injectors.arrivals.base import Arrivals, Submission


@final
@dataclass(frozen=True, kw_only=True)
class NoArrivals(Arrivals):
    """The run's own job is the only one."""

    def submissions(self, seed: int) -> list[Submission]:
        return []
