"""Tags by chance: what every predictor must beat."""

from __future__ import annotations

from dataclasses import dataclass
from hashlib import blake2b
from typing import Annotated, ClassVar, final

from predictors.stragglers import Observation
from reading.ranges import NonNegativeInt, Number, check_settings


@final
@dataclass(kw_only=True)
class ByChance:
    """Tags each worker after each of its iterations with probability ``probability``.

    Its recall is ``probability``, its precision the part of all iterations that straggle.

    Attributes:
        probability: of a tag.
        seed: of the draws.
    """

    reads_time: ClassVar[bool] = False
    probability: Annotated[float, Number(0.0, most=1.0)] = 0.1
    seed: NonNegativeInt = 0

    def __post_init__(self) -> None:
        check_settings(self)
        self._known: set[int] = set()
        self._tagged: set[int] = set()

    def update(self, observation: Observation) -> None:
        """Draw for the worker's next iteration."""
        self._known.add(observation.worker)
        text = f"{self.seed} {observation.worker} {observation.iteration}"
        draw = int.from_bytes(blake2b(text.encode(), digest_size=8).digest()) / 2**64
        (self._tagged.add if draw < self.probability else self._tagged.discard)(observation.worker)

    def forget(self, worker: int) -> None:
        self._known.discard(worker)
        self._tagged.discard(worker)

    def tags(self, t: float) -> frozenset[int]:
        """Workers that are tagged now."""
        return frozenset(self._tagged) if len(self._known) > 1 else frozenset()
