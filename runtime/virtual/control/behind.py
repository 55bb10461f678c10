"""What a session knows of jumps: by how much its tasks are behind it, and who wants to know of what happens."""

from __future__ import annotations

from typing import Protocol

import msgspec

from runtime.core.inputs import GradientArrived
from runtime.core.job import ApplyOrder


class Behind(msgspec.Struct):
    """Time of the tasks plus ``s`` is time of the job: the seconds of all jumps so far."""

    s: float = 0.0


class Jumping(Protocol):
    """Who measures a job, to let it jump."""

    def changed(self) -> None:
        """Something has changed by which the job may be faster or slower."""
        ...

    def arrived(self, given: GradientArrived) -> None:
        """A gradient is about to be passed to the coordinator."""
        ...

    def applied(self, order: ApplyOrder) -> None:
        """An update is ordered; the data service books its samples afterwards."""
        ...
