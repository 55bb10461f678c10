"""What the mode of the last decision takes as long as it is used, for who learns from it (section IV-C2; pure)."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, final

from strategies.protocol import Grad
from strategies.star.held import Held
from strategies.star.learned import Asked, ModeLearner
from strategies.star.times import ModeTimes


@final
class Measuring:
    """Measures a mode from when it is taken until the next decision, if a decision chose it and all workers stay.

    ``costs`` has the prices of staleness; ``learning`` None: nobody learns, and nothing is measured.
    """

    def __init__(self, learning: ModeLearner | None, costs: ModeTimes) -> None:
        self._learning, self._costs = learning, costs
        self._version = 0
        self._asked: Asked[Any] | None = None
        self._held: Held | None = None

    @property
    def asked(self) -> Asked[Any] | None:
        """The last decision, as long as its mode is used and all workers stay."""
        return self._asked

    def forget(self, version: int | None = None) -> None:
        """Workers came or went, or a checkpoint of ``version`` was restored: what is measured is no mode's own."""
        self._held = self._asked = None
        if version is not None:
            self._version = version

    def applied(self, t: float, place: int, grads: Sequence[Grad]) -> None:
        """An update was made, by the group at ``place``."""
        self._version += 1
        if self._held is not None:
            self._held.applied(t, place, grads)

    def decided(self, asked: Asked[Any] | None) -> None:
        """The mode that is taken next was chosen at this decision; None: without one."""
        self._asked = asked

    def begin(self, t: float, global_samples: float) -> None:
        """The mode that was chosen is used from now on, with so many samples in a global batch."""
        if self._learning is None or self._asked is None:
            self._held = None
        else:
            self._held = Held(t, self._version, global_samples)

    def learn(self, mode: Any) -> Held | None:
        """``mode`` has been used until now: what it took, if that is learnt."""
        held, asked, self._held = self._held, self._asked, None
        if self._learning is None or held is None or asked is None or held.updates < self._learning.hold_updates:
            return None
        self._learning.measured(asked, mode, held.unit_s(asked.phi_samples, self._costs))
        return held
