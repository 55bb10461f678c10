"""The data of a fitted model for rings: drawn decisions by equation 3, and times of modes in recorded runs."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import NamedTuple

import msgspec
import numpy as np

from analysis.records.load import Run
from predictors.stragglers import deviations, exceeding
from strategies.star.measuring import RingTook, read_took
from strategies.star.ring_modes import WAITS_S, WHOLE
from strategies.star.ring_question import RingQuestion
from strategies.star.samples import Costed
from strategies.star.times import ModeTimes

STRAGGLER_FRAC = 0.2
FASTEST_S, SPREAD, LINKS = (0.03, 1.0), (0.05, 0.7), 0.3
"""Ranges for drawn decisions: the fastest worker's seconds, the width of lognormal times, and a child's link in fastest
times at most."""
PHI, BATCH = (30.0, 10_000.0), (8.0, 256.0)


class Lesson(NamedTuple):
    """The time of a mode, with the batch of every worker in samples."""

    took: RingTook
    batch_samples: float


def drawn_rings(seed: int, count: int, costs: ModeTimes, max_workers: int) -> Iterator[RingQuestion]:
    """So many decisions of 4 workers or more with one straggler or more, with a noise scale and a batch."""
    chance = np.random.default_rng(seed)
    while count:
        workers, spread = int(chance.integers(4, max_workers + 1)), chance.uniform(*SPREAD)
        times = np.exp(spread * chance.standard_normal(workers))
        times *= log_uniform(chance, FASTEST_S) / times.min()
        phi, batch = log_uniform(chance, PHI), log_uniform(chance, BATCH)
        link_s = float(chance.uniform(0.0, LINKS) * times.min())
        times_s = dict(enumerate(times.tolist()))
        if tagged := exceeding(deviations(times_s), STRAGGLER_FRAC):
            yield RingQuestion(
                times_s=times_s,
                delivered_s={worker: time_s + link_s for worker, time_s in times_s.items()},
                tagged=tuple(sorted(tagged)),
                waits_s=WAITS_S,
                batch_samples=batch,
                phi_samples=phi,
                overhead_s=0.0,
                present=WHOLE,
                costs=costs,
            )
            count -= 1


def recorded_rings(run: Run) -> Iterator[Lesson]:
    """Return the times of modes in a run."""
    batch = int(run.job["global_batch_samples"]) / int(run.job["num_workers"])
    said = ""
    for line in run.notable_lines:
        if b'"took"' not in line.state:
            continue
        text = str(msgspec.json.decode(line.state)["took"])
        if text != said and (took := read_took(text)) is not None:
            yield Lesson(took, batch)
        said = text


def asked_at(lesson: Lesson, phi_samples: float, batch_samples: float, costs: ModeTimes) -> RingQuestion:
    """The decision before a mode was used, with another noise scale, batch and price of staleness."""
    took = lesson.took
    times_s = dict(zip(took.workers, took.times_s, strict=True))
    return RingQuestion(
        times_s=times_s,
        delivered_s=dict(zip(took.workers, took.delivered_s, strict=True)),
        tagged=tuple(sorted(exceeding(deviations(times_s), STRAGGLER_FRAC))),
        waits_s=WAITS_S,
        batch_samples=batch_samples,
        phi_samples=phi_samples,
        overhead_s=took.overhead_s,
        present=took.mode,
        costs=costs,
    )


def measured_rows(lesson: Lesson, asked: RingQuestion, max_workers: int) -> Costed:
    """Return a mode's times as rows: the same updates, of batches and with prices of the decision's."""
    pace = lesson.took.pace
    pace = pace._replace(samples=pace.samples * asked.batch_samples / lesson.batch_samples)
    unit_s = pace.unit_s(asked.phi_samples, asked.costs)
    return asked.cost_sample({lesson.took.mode: unit_s}, max_workers, measured=True)


def errors_of(measured: Sequence[Costed], corrections: Sequence[np.ndarray]) -> list[float]:
    """Return the relative error of each corrected estimate against the measured time."""
    pairs = zip(measured, corrections, strict=True)
    return [float(np.expm1(np.abs(one.targets - correction)).item()) for one, correction in pairs]


def varied_rings(
    seed: int, lessons: Sequence[Lesson], kappas: tuple[float, float, float], mode_cost: str, variants: int
) -> Iterator[tuple[Lesson, RingQuestion]]:
    """Every lesson with several noise scales, batches and prices: half of these are the first of ``kappas``."""
    usual, *span = kappas
    chance = np.random.default_rng((seed, 2))
    for lesson in lessons:
        for _ in range(variants):
            kappa = usual if chance.uniform() < 0.5 else log_uniform(chance, (span[0], span[1]))
            phi, batch = log_uniform(chance, PHI), log_uniform(chance, BATCH)
            yield lesson, asked_at(lesson, phi, batch, ModeTimes(mode_cost=mode_cost, kappa=kappa))


def log_uniform(chance: np.random.Generator, span: tuple[float, float]) -> float:
    """A number of the span, whose logarithm is uniform."""
    return float(np.exp(chance.uniform(*np.log(span))))
