"""A decision about the modes of a ring: what each costs, by equation 3 or by a model (section IV-C; pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import inf
from typing import final

import numpy as np

from strategies.star.features import Rows
from strategies.star.learned import Model
from strategies.star.ring_features import ring_rows_of
from strategies.star.ring_modes import RingMode, candidates
from strategies.star.samples import Costed, costed_rows
from strategies.star.times import ModeTimes, ring_s


@final
@dataclass(frozen=True, kw_only=True)
class RingQuestion:
    """See :class:`strategies.star.learned.Asked`.

    Attributes:
        times_s: predicted iteration times by worker, without a child's link.
        delivered_s: seconds until each of them has delivered to its parent if it is a child.
        tagged: the stragglers, of whom the slowest may leave the ring.
        waits_s: seconds that parents may wait.
        batch_samples: samples of every worker.
        phi_samples: the noise scale.
        overhead_s: seconds of an update in which no member of the ring computes or waits for a child, as measured;
            equation 3 has none.
        present: the mode that is used; somebody of ``times_s`` is in its ring.
        costs: the price of staleness in what modes took; equation 3 has none.
    """

    times_s: Mapping[int, float]
    delivered_s: Mapping[int, float]
    tagged: tuple[int, ...]
    waits_s: tuple[float, ...]
    batch_samples: float
    phi_samples: float
    overhead_s: float
    present: RingMode
    costs: ModeTimes

    @property
    def num_workers(self) -> int:
        """How many workers there are."""
        return len(self.times_s)

    @property
    def workers(self) -> tuple[int, ...]:
        """The workers in the order of all that is said of them."""
        return tuple(self.times_s)

    @property
    def times(self) -> tuple[float, ...]:
        """Their predicted iteration times in seconds."""
        return tuple(self.times_s.values())

    @property
    def delivered(self) -> tuple[float, ...]:
        """Seconds until each of them has delivered as a child."""
        return tuple(self.delivered_s[worker] for worker in self.times_s)

    def by_rule(self) -> dict[RingMode, float]:
        """Seconds per unit of progress of all modes by equation 3, the best first."""
        return _sorted({mode: self.one_s(mode) for mode in self._modes()})

    def by_model(self, model: Model, max_workers: int) -> dict[RingMode, float]:
        """The same by a model that corrects equation 3, with room for so many workers."""
        modes = self._modes()
        rows = self._rows(modes, max_workers, self.overhead_s)
        seconds = np.exp(rows.log_s + model.predict(rows.features)).tolist()
        return _sorted(dict(zip(modes, seconds, strict=True)))

    def one_s(self, mode: RingMode) -> float:
        """Equation 3 of one mode; a child has delivered when it has used its link, too."""
        late = [self.delivered_s[child] for child in mode.apart]
        ring = [time_s for worker, time_s in self.times_s.items() if worker not in mode.apart]
        all_s = [*ring, *[inf] * len(late)]
        wait_s = mode.wait_s if mode.apart else 0.0
        return ring_s(all_s, len(late), wait_s, self.batch_samples, self.phi_samples, removed_s=sorted(late))

    def costed(self, mode_s: Mapping[RingMode, float], max_workers: int, *, measured: bool) -> Costed:
        """Rows of modes and what they cost, in their order; what equation 3 says is of rings without any overhead."""
        rows = self._rows(list(mode_s), max_workers, self.overhead_s if measured else 0.0)
        return costed_rows(rows, list(mode_s.values()), measured=measured)

    def _modes(self) -> list[RingMode]:
        """The candidates and the present mode, those that move fewest first."""
        found = candidates(self.times_s, self.tagged, self.waits_s)
        return found if self.present in found else [*found, self.present]

    def _rows(self, modes: list[RingMode], max_workers: int, overhead_s: float) -> Rows:
        return ring_rows_of(
            self.workers,
            self.times,
            self.delivered,
            self.batch_samples,
            self.phi_samples,
            overhead_s,
            self.costs,
            max_workers,
            modes,
        )


def _sorted(mode_s: Mapping[RingMode, float]) -> dict[RingMode, float]:
    """The best first; of equals the one that stands first."""
    return dict(sorted(mode_s.items(), key=lambda one: one[1]))
