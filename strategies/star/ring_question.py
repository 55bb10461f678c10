"""A decision about the modes of a ring: the cost of each, by equation 3 or by a model (section IV-C; pure).

The estimate that a model corrects is equation 3: all parents wait for as long as they may, and a child that has not
delivered by then counts for nothing. A real ring differs (:class:`strategies.parts.gates.ring.RingGate`): sums go round
and parameters step for some time, for which a child waits as members do; a wait ends when all children have delivered;
and one that delivers before the next ring starts counts there, an update late. Therefore the model's input has the
mode's cost by these rules, besides predicted times, deviations and the mode. As with servers, phi stands for the
paper's model, learning rate and step.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import final

import numpy as np
from numpy.typing import NDArray

from predictors.history import Floats
from strategies.star.features import Rows, about_job, job_feature_names
from strategies.star.ring_modes import RingMode, candidates
from strategies.star.samples import Costed, Model, sample_of_rows
from strategies.star.times import ModeTimes, ring_s

MODE_FEATURES = (
    "outside of the workers",
    "delivered of the workers",
    "one update late of the workers",
    "is ring of all",
    "log estimate / slowest",
    "log ring / slowest",
    "wait / ring",
    "overhead / slowest",
    "log as it happens / estimate",
    "log price of the late",
    "mean of the ring / its slowest",
    "log first that is late / start",
)


def ring_feature_names(max_workers: int) -> tuple[str, ...]:
    """The columns of the rows of a :class:`RingQuestion` for at most ``max_workers`` workers."""
    return (*MODE_FEATURES, *job_feature_names(max_workers))


@final
@dataclass(frozen=True, kw_only=True)
class RingQuestion:
    """The question, whose modes equation 3 and a model can cost.

    Attributes:
        times_s: predicted iteration times by worker, without a child's link.
        delivered_s: seconds until each of them has delivered to its parent if it is a child.
        tagged: the stragglers; the slowest of them may leave the ring.
        waits_s: seconds that parents may wait.
        batch_samples: samples of every worker.
        phi_samples: the noise scale.
        overhead_s: seconds of an update in which no member of the ring computes or waits for a child, as measured;
            equation 3 has none.
        present: the mode that is used; a worker of ``times_s`` is in its ring.
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
        return len(self.times_s)

    @property
    def workers(self) -> tuple[int, ...]:
        """The workers in the order of all their values."""
        return tuple(self.times_s)

    @property
    def times(self) -> tuple[float, ...]:
        """Their predicted iteration times in seconds."""
        return tuple(self.times_s.values())

    @property
    def deliveries_s(self) -> tuple[float, ...]:
        """Seconds until each of them has delivered as a child."""
        return tuple(self.delivered_s[worker] for worker in self.times_s)

    def by_rule(self) -> dict[RingMode, float]:
        """Seconds per unit of progress of all modes by equation 3, the best first."""
        return _sort_by_cost({mode: self.one_s(mode) for mode in self._modes()})

    def by_model(self, model: Model, max_workers: int) -> dict[RingMode, float]:
        """The same by a model that corrects equation 3, with room for so many workers."""
        modes = self._modes()
        rows = self.rows(modes, max_workers, self.overhead_s)
        seconds = np.exp(rows.log_s + model.predict(rows.features)).tolist()
        return _sort_by_cost(dict(zip(modes, seconds, strict=True)))

    def one_s(self, mode: RingMode) -> float:
        """Equation 3 of one mode; a child has delivered when it has used its link, too."""
        members_s = [time_s for worker, time_s in self.times_s.items() if worker not in mode.apart]
        children_s = [self.delivered_s[child] for child in mode.apart]
        wait_s = mode.wait_s if mode.apart else 0.0
        return ring_s(members_s, children_s, wait_s, self.batch_samples, self.phi_samples)

    def cost_sample(self, mode_s: Mapping[RingMode, float], max_workers: int, *, measured: bool) -> Costed:
        """Rows of modes and their costs, in their order; equation 3 is about rings without any overhead."""
        rows = self.rows(list(mode_s), max_workers, self.overhead_s if measured else 0.0)
        return sample_of_rows(rows, list(mode_s.values()), measured=measured)

    def _modes(self) -> list[RingMode]:
        """The candidates and the present mode; modes that move the fewest workers first."""
        found = candidates(self.times_s, self.tagged, self.waits_s)
        return found if self.present in found else [*found, self.present]

    def rows(self, modes: Sequence[RingMode], max_workers: int, overhead_s: float) -> Rows:
        """Rows for these modes, each of which keeps a worker in the ring; the estimates are equation 3.

        ``max_workers``: workers that the model has room for.
        """
        times, delivered, count = np.array(self.times, float), np.array(self.deliveries_s, float), len(self.times_s)
        apart = np.array([[worker in mode.apart for worker in self.times_s] for mode in modes])
        waits_s = np.array([mode.wait_s if mode.apart else 0.0 for mode in modes])
        in_ring = ~apart
        ring_s: Floats = np.where(in_ring, times, 0.0).max(axis=1)
        round_s = ring_s + waits_s
        members = in_ring.sum(axis=1)
        fresh = members + _count(apart & (delivered <= round_s[:, None]))
        log_s = np.log1p(self.phi_samples / (fresh * self.batch_samples)) + np.log(round_s)
        # as it happens: all have parameters after the overhead, a wait ends with the last child, and a child that is
        # one update late delivers with every other update
        last_s = np.where(apart, delivered, 0.0).max(axis=1)
        start_s = overhead_s + np.maximum(ring_s, np.minimum(last_s, round_s))
        delivered = overhead_s + delivered
        behind = apart & (delivered > start_s[:, None])
        late = _count(behind & (delivered <= 2 * start_s[:, None]))
        there = members + _count(apart & ~behind)
        grads = there + late / 2
        batches = grads / count
        lag = late / 2 / grads * batches / (1 + batches)
        log_price = np.log(self.costs.price(late / 2 / grads, lag))
        happens = np.log1p(self.phi_samples / (grads * self.batch_samples)) + log_price + np.log(start_s)
        first_s = np.where(behind, delivered, np.inf).min(axis=1)
        slowest_s = float(times.max())
        columns = (
            apart.sum(axis=1) / count,
            (there - members) / count,
            late / count,
            (members == count).astype(float),
            log_s - np.log(slowest_s),
            np.log(ring_s / slowest_s),
            waits_s / ring_s,
            np.full(len(modes), overhead_s / slowest_s),
            happens - log_s,
            log_price,
            np.where(in_ring, times, 0.0).sum(axis=1) / members / ring_s,
            np.log(np.where(np.isfinite(first_s), first_s / start_s, 1.0)),
        )
        job = about_job(times, self.batch_samples, self.phi_samples, max_workers, len(modes))
        return Rows(np.column_stack([*columns, job]), log_s)


def _count(which: NDArray[np.bool_]) -> Floats:
    """How many workers, by mode."""
    count: Floats = which.sum(axis=1, dtype=np.float64)
    return count


def _sort_by_cost(mode_s: Mapping[RingMode, float]) -> dict[RingMode, float]:
    """The best first; of equals the one that stands first."""
    return dict(sorted(mode_s.items(), key=lambda one: one[1]))
