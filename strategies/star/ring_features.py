"""What a model of STAR-ML is given about a ring's mode, and the estimate that it corrects (section IV-C2; pure).

The estimate is equation 3: all parents wait for as long as they may, and a child that has not delivered by then counts
for nothing. What happens is another (:class:`strategies.parts.gates.ring.RingGate`): sums go round and parameters step
for some time, for which a child waits as members do; a wait ends when all children have delivered; and one that
delivers before the next ring starts counts there, an update late. Besides predicted times, deviations and the mode the
model is therefore given what a mode would be worth by that. As with servers, phi stands for the paper's model, learning
rate and step.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from predictors.history import Floats
from strategies.star.features import Rows
from strategies.star.ring_modes import RingMode
from strategies.star.times import ModeTimes

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
JOB_FEATURES = ("log phi / batch", "log workers")


def ring_feature_names(max_workers: int) -> tuple[str, ...]:
    """The columns of the rows of :func:`ring_rows_of` for at most ``max_workers`` workers."""
    return (*MODE_FEATURES, *JOB_FEATURES, *(f"log time {place} / fastest" for place in range(max_workers)))


def ring_rows_of(
    workers: Sequence[int],
    times_s: Sequence[float],
    delivered_s: Sequence[float],
    batch_samples: float,
    phi_samples: float,
    overhead_s: float,
    costs: ModeTimes,
    max_workers: int,
    modes: Sequence[RingMode],
) -> Rows:
    """Rows for these modes, and equation 3 as the estimate that is corrected.

    Args:
        workers: all of them.
        times_s: their predicted iteration times, above zero.
        delivered_s: seconds until each has delivered to its parent if it is a child, from when that sends parameters.
        batch_samples: samples of every worker.
        phi_samples: the noise scale.
        overhead_s: seconds of an update in which no member of the ring computes or waits for a child.
        costs: the price of staleness.
        max_workers: workers that the model has room for.
        modes: somebody stays in the ring of each.
    """
    times, delivered, count = np.asarray(times_s, dtype=float), np.asarray(delivered_s, dtype=float), len(workers)
    apart = np.array([[worker in mode.apart for worker in workers] for mode in modes])
    waits_s = np.array([mode.wait_s if mode.apart else 0.0 for mode in modes])
    in_ring = ~apart
    ring_s: Floats = np.where(in_ring, times, 0.0).max(axis=1)
    round_s = ring_s + waits_s
    members = in_ring.sum(axis=1)
    fresh = members + _counted(apart & (delivered <= round_s[:, None]))
    log_s = np.log1p(phi_samples / (fresh * batch_samples)) + np.log(round_s)
    # as it happens: all have parameters after the overhead, a wait ends with the last child, and who is one update late
    # delivers with every other update
    last_s = np.where(apart, delivered, 0.0).max(axis=1)
    start_s = overhead_s + np.maximum(ring_s, np.minimum(last_s, round_s))
    delivered = overhead_s + delivered
    behind = apart & (delivered > start_s[:, None])
    late = _counted(behind & (delivered <= 2 * start_s[:, None]))
    there = members + _counted(apart & ~behind)
    grads = there + late / 2
    batches = grads / count
    lag = late / 2 / grads * batches / (1 + batches)
    log_price = np.log(costs.price(late / 2 / grads, lag))
    happens = np.log1p(phi_samples / (grads * batch_samples)) + log_price + np.log(start_s)
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
    about_job = np.zeros(len(JOB_FEATURES) + max_workers)
    about_job[:2] = np.log(max(phi_samples, 1.0) / batch_samples), np.log(count)
    about_job[2 : 2 + count] = np.log(np.sort(times) / times.min())
    rows = np.column_stack([*columns, np.broadcast_to(about_job, (len(modes), len(about_job)))])
    return Rows(rows, log_s)


def _counted(which: NDArray[np.bool_]) -> Floats:
    """How many workers, by mode."""
    count: Floats = which.sum(axis=1, dtype=np.float64)
    return count
