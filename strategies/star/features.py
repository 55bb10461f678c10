"""A mode's features for a model of STAR-ML, and the estimate that the model corrects (section IV-C2; pure).

STAR lists the workers' predicted times and deviations, the model, the rate, the step and the mode. Here phi stands for
model, rate and step, as in equations 1 and 2, and a mode also by what regular iterations would make of it.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from predictors.history import Floats
from strategies.star.estimates import first_updates, gradients_per_update, in_step, out_of_step
from strategies.star.orders import MOST_TICKS, TICKS, order_lags, single_interval
from strategies.star.times import ModeTimes

AROUND = np.array([0.7, 0.85, 0.95, 1.05, 1.2, 1.5])
"""Multiples of the interval in step at which the gradients of an update are counted."""
TINY = 1e-6
"""Least interval, as a part of another: several updates may be made at once."""
SPANS = ((0, 11), (5, 11), (3, 7), (7, 11))
"""Spans of the first updates, from the end of one to the end of another."""
MODE_FEATURES = (
    "x of the workers",
    "is dynamic",
    "groups of the workers",
    "is static",
    "log estimate / slowest",
    "log interval in step",
    "log interval out of step",
    "log staleness in step",
    "log staleness out of step",
    "log price in step",
    "log price out of step",
    "log interval / x single intervals",
    "log updates / updates of all",
    *(f"gradients at {part:g} of the interval" for part in AROUND),
    *(f"log interval of updates {first} to {last} / out of step" for first, last in SPANS),
    "log staleness of the first updates",
    *(f"log {name} smallest time / interval" for name in ("(x-1)-th", "x-th", "(x+1)-th")),
)


class Rows(NamedTuple):
    """One row for each mode: the model's input, float [modes, features], and log seconds, float [modes].

    ``log_s`` is the estimate of a unit of progress's seconds that the model corrects.
    """

    features: Floats
    log_s: Floats


def feature_names(max_workers: int) -> tuple[str, ...]:
    """The columns of :attr:`Rows.features` for at most ``max_workers`` workers."""
    return (*MODE_FEATURES, *job_feature_names(max_workers))


def job_feature_names(max_workers: int) -> tuple[str, ...]:
    """The columns that are about the job, the same for each of its modes."""
    return ("log phi / batch", "log workers", *(f"log time {place} / fastest" for place in range(max_workers)))


def about_job(times: Floats, batch_samples: float, phi_samples: float, max_workers: int, num_modes: int) -> Floats:
    """These columns, float [modes, features], of workers with these predicted times."""
    row = np.zeros(len(job_feature_names(max_workers)))
    row[:2] = np.log(max(phi_samples, 1.0) / batch_samples), np.log(len(times))
    row[2 : 2 + len(times)] = np.log(np.sort(times) / times.min())
    return np.broadcast_to(row, (num_modes, len(row)))


def rows_of(
    times_s: Sequence[float],
    batch_samples: float,
    phi_samples: float,
    costs: ModeTimes,
    max_workers: int,
    sizes: Sequence[int] = (),
    groupings: Sequence[Sequence[Sequence[int]]] = (),
) -> Rows:
    """Rows for updates of each x of ``sizes``, then for each grouping of workers, given by their indices.

    SSGD, ASGD and dynamic x-order have closed forms, which are their estimates; estimates of other x lie between the
    two readings of :mod:`strategies.star.estimates`.
    """
    times = np.sort(np.asarray(times_s, dtype=float))
    slowest_s = float(times[-1])
    parts = []
    if len(sizes):
        parts.append(_of_sizes(times, np.asarray(sizes), batch_samples, phi_samples, costs))
    if len(groupings):
        parts.append(_of_groupings(times_s, slowest_s, groupings, batch_samples, phi_samples, costs))
    modes = np.concatenate([part.features for part in parts])
    features = np.column_stack([modes, about_job(times, batch_samples, phi_samples, max_workers, len(modes))])
    return Rows(features, np.concatenate([part.log_s for part in parts]) + np.log(slowest_s))


def _of_sizes(times_s: Floats, sizes: np.ndarray, batch_samples: float, phi_samples: float, costs: ModeTimes) -> Rows:
    """Rows of static x-order; ``times_s`` ascend. Estimates are parts of the slowest worker's time.

    STAR-H simulates times in ticks, so regular iterations are in ticks, too.
    """
    count = len(times_s)
    ticks = np.minimum(np.rint(TICKS * times_s / times_s[0]), MOST_TICKS).astype(np.int64)
    times = ticks / ticks[-1]
    step, free = in_step(times, sizes), out_of_step(times, sizes)
    step_price, free_price = (costs.price(one.sqr_staleness, one.lag) for one in (step, free))
    updates = np.log1p(phi_samples / (batch_samples * sizes))
    interval = 0.5 * (np.log(step.interval) + np.log(free.interval))
    priced = 0.5 * (np.log(step_price) + np.log(free_price))
    if sizes[0] == 1:
        parts = (times_s / times_s[-1]).tolist()
        single, squares = single_interval(parts)
        interval[0] = np.log(single)
        priced[0] = np.log(costs.price(squares, order_lags(parts, (1,))[0]))
    if sizes[-1] == count:
        interval[-1] = priced[-1] = 0.0
    log_s = updates + interval + priced
    counted = gradients_per_update(times, step.interval[:, None] * AROUND) / sizes[:, None]
    near = np.log(times[np.clip(sizes[:, None] + (-2, -1, 0), 0, count - 1)] / step.interval[:, None])
    single_s = 1.0 / (1.0 / times).sum()
    first = first_updates(ticks, sizes)
    begins, stops = (np.array(column) for column in zip(*SPANS, strict=True))
    spans = (first.ends[stops] - first.ends[begins]) / (ticks[-1] * (stops - begins)[:, None] * free.interval)
    nothing = np.zeros(len(sizes))
    columns = (
        sizes / count,
        nothing,
        nothing,
        ((sizes > 1) & (sizes < count)).astype(float),
        log_s,
        np.log(step.interval),
        np.log(free.interval),
        np.log1p(step.sqr_staleness),
        np.log1p(free.sqr_staleness),
        np.log(step_price),
        np.log(free_price),
        np.log(step.interval / (sizes * single_s)),
        updates - np.log1p(phi_samples / (batch_samples * count)),
    )
    moved = np.log(np.maximum(spans.T, TINY))
    return Rows(np.column_stack([*columns, counted, moved, np.log1p(first.sqr_staleness), near]), log_s)


def _of_groupings(
    times_s: Sequence[float],
    slowest_s: float,
    groupings: Sequence[Sequence[Sequence[int]]],
    batch_samples: float,
    phi_samples: float,
    costs: ModeTimes,
) -> Rows:
    """Rows of dynamic x-order: the closed form; features without a meaning for groups are 0."""
    seconds = [costs.dynamic_s(times_s, groups, batch_samples, phi_samples) for groups in groupings]
    log_s = np.log(np.array(seconds) / slowest_s)
    features = np.zeros((len(groupings), len(MODE_FEATURES)))
    features[:, 1] = 1.0
    features[:, 2] = [len(groups) / len(times_s) for groups in groupings]
    features[:, 4] = log_s
    return Rows(features, log_s)
