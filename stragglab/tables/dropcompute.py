"""DropCompute's search for a threshold in the delay environment of its published code: drawn, and by its closed form.

``python run.py experiment`` takes the rows of an experiment with ``table: dropcompute`` from here. The environment is
from ``deepspeed-bert/run_pretraining.py`` (github.com/paper-submissions/dropcompute, ``--delay_factor=1.0``): after
each micro-batch a worker sleeps for half of the micro-batch's time, times a number of mean 1 that is drawn from
lengths of sentences, LogNormal(4, 1) on the whole numbers below 1,000.
"""

from __future__ import annotations

from statistics import NormalDist

import numpy as np
import pandas as pd
from numpy.typing import NDArray

from analysis.experiments.spec import Cell, Spec, cells
from stragglab.tables.coding import row_of_cell
from strategies.dropcompute.threshold import Round, best_threshold

MICRO_BATCHES, ROUNDS = 12, 44
"""As in its log (``deepspeed-bert/log.txt``)."""
MICRO_BATCH_S, REST_S = 0.329, 1.97
"""Undisturbed: fitted to the log's mean iteration of 16 workers. Communication: what the log's iteration has left when
its threshold and the part that it saves are subtracted."""
ADDED_FRAC = 0.5
EULER = 0.5772156649
Floats = NDArray[np.float64]


def dropcompute(spec: Spec) -> pd.DataFrame:
    """Rows for the axes ``workers`` and ``by``, with the columns of :func:`row`."""
    return pd.DataFrame([row_of_cell(cell, row(cell)) for cell in cells(spec)])


def row(cell: Cell) -> dict[str, object]:
    """The best threshold of one cell: ``drawn``, by the search over drawn latencies, or by the ``closed`` form.

    ``threshold_s``; ``factor``, its effective speed-up, and ``speedup``, that minus 1; ``dropped``, the part of the
    micro-batches; ``saved``, the part of an iteration; ``iteration_s`` without a threshold.
    """
    find = threshold_by_drawing if cell.levels["by"] == "drawn" else threshold_by_closed_form
    threshold_s, factor, dropped, saved, iteration_s = find(int(cell.levels["workers"]), cell.seed)
    return {
        **{"threshold_s": threshold_s, "factor": factor, "speedup": factor - 1},
        **{"dropped": dropped, "saved": saved, "iteration_s": iteration_s},
    }


def multipliers() -> tuple[Floats, Floats]:
    """The factors of a delay, of mean 1, and the probability of each."""
    lengths = np.arange(1.0, 1000.0)
    weights = np.exp(-((np.log(lengths) - 4.0) ** 2) / 2) / lengths
    chances = weights / weights.sum()
    return lengths / (lengths @ chances), chances


def threshold_by_drawing(workers: int, seed: int) -> tuple[float, ...]:
    """(threshold_s, factor, dropped, saved, iteration_s) of drawn latencies, by Algorithm 2 to the letter."""
    values, chances = multipliers()
    drawn = np.random.default_rng([2023, seed]).choice(values, size=(ROUNDS, workers, MICRO_BATCHES), p=chances)
    ends_s = (MICRO_BATCH_S * (1 + ADDED_FRAC * drawn)).cumsum(axis=2)
    found = best_threshold([Round(own, REST_S) for own in ends_s.tolist()], finishes=False)
    slowest_s = ends_s[:, :, -1].max(axis=1)
    saved = (slowest_s - np.minimum(slowest_s, found.seconds)) / (slowest_s + REST_S)
    return found.seconds, found.speedup, found.dropped_frac, float(saved.mean()), float(slowest_s.mean()) + REST_S


def threshold_by_closed_form(workers: int, seed: int) -> tuple[float, ...]:
    """The same of normal sums with the latencies' mean and variance; ``seed`` plays no part.

    The slowest of N workers takes M mu + sigma sqrt(M) times about (1 - g) Phi^-1(1 - 1/N) + g Phi^-1(1 - 1/(e N)),
    with Euler's g; a threshold tau leaves the mean over m of Phi((tau - m mu) / (sigma sqrt(m))).
    """
    del seed
    values, chances = multipliers()
    mu = MICRO_BATCH_S * (1 + ADDED_FRAC)
    sigma = MICRO_BATCH_S * ADDED_FRAC * float(((values - 1) ** 2 @ chances) ** 0.5)
    normal = NormalDist()
    largest = (1 - EULER) * normal.inv_cdf(1 - 1 / workers) + EULER * normal.inv_cdf(1 - 1 / (np.e * workers))
    slowest_s = MICRO_BATCHES * mu + sigma * MICRO_BATCHES**0.5 * largest
    tried_s = np.linspace(MICRO_BATCHES * mu / 2, slowest_s, 400)
    counts = range(1, MICRO_BATCHES + 1)
    left = np.array([np.mean([normal.cdf((tau - m * mu) / (sigma * m**0.5)) for m in counts]) for tau in tried_s])
    factors = left * (slowest_s + REST_S) / (tried_s + REST_S)
    best = int(factors.argmax())
    saved = (slowest_s - tried_s[best]) / (slowest_s + REST_S)
    return float(tried_s[best]), float(factors[best]), float(1 - left[best]), float(saved), float(slowest_s) + REST_S
