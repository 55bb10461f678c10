"""A strategy's gate: an update waits for most workers, and now and then for all."""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar

from stragglab.reading.ranges import check_whole
from stragglab.strategies.parts.gates import QuorumGate


@dataclass(kw_only=True)
class MostGate(QuorumGate):
    """An update needs the gradients of all workers but ``spare``; every ``every``-th one needs all."""

    drops: ClassVar[bool] = False  # a gradient that comes too late is part of the next update; True: it is dropped

    spare: int = 1
    every: int = 3

    def __post_init__(self) -> None:
        check_whole("spare", self.spare)
        check_whole("every", self.every, 1)

    def validate(self, num_workers: int) -> None:
        """Refuse settings that do not fit the cluster, before anything starts."""
        if self.spare >= num_workers:
            raise ValueError(f"spare={self.spare}: must be less than the number of workers ({num_workers})")

    def enough(self) -> bool:
        """Whether what has arrived makes an update, although the gradients of ``self.missing`` have not."""
        return (self.version + 1) % self.every > 0 and len(self.missing) <= self.spare
