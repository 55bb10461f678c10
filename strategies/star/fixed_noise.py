"""The gradient noise scale as a number that somebody has measured before (pure)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final

from strategies.parts.checks import NonNegativeFloat, check_settings
from strategies.protocol import AnyEvent


@final
@dataclass(kw_only=True)
class FixedNoise:
    """One noise scale for the whole job and all sizes of updates.

    Attributes:
        phi: the noise scale in samples: with updates of so many samples half of each is signal.
    """

    phi: NonNegativeFloat = 300.0

    def __post_init__(self) -> None:
        check_settings(self)

    def observe_event(self, event: AnyEvent) -> None:
        """Learn nothing: the number is given."""
        return None

    def phi_of(self, batch_samples: float) -> tuple[float, float]:
        """The number, never old."""
        return self.phi, 0.0
