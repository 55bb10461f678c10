"""SGD whose gradients are late by drawn delays: MLfabric's slide 6 on their variance, simulated in numpy.

Rows of experiments with ``table: delayed_sgd``. Logistic regression, convex and smooth; update t uses a mini-batch's
gradient at the parameters of tau_t updates ago, and the rate is C / sqrt(t + tau_t) (AdaDelay). Delays come from a
generator, so that nothing but their distribution differs; C is the best of ``RATES`` for every cell and seed, since the
bounds hold for rates that know the distribution.
"""

from __future__ import annotations

import math
from functools import cache

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy.optimize import minimize

from analysis.experiments.spec import Cell, Spec, cells
from stragglab.tables.coding import row_of_cell

FEATURES, SAMPLES, BATCH = 20, 2000, 8
UPDATES, EVERY = 2000, 50
RATES = (1.0, 2.0, 4.0, 8.0, 16.0, 32.0)
NARROW = 8
"""A narrow distribution is from tau - tau / 8 to tau + tau / 8."""
Floats = NDArray[np.float64]


def delayed_sgd(spec: Spec) -> pd.DataFrame:
    """Rows for the axes ``tau`` (the mean delay) and ``delays``: ``uniform`` from 0 to 2 tau, ``narrow``, ``none``.

    ``excess``, the loss of the mean of all iterates above the least possible after 2,000 updates, in thousandths;
    ``exponent``, the slope of its logarithm over log t in the last nine tenths; ``rate``, the chosen C.
    """
    return pd.DataFrame([row_of_cell(cell, row(cell)) for cell in cells(spec)])


def row(cell: Cell) -> dict[str, object]:
    """The measures of one cell."""
    tau = int(cell.levels["tau"])
    ends = {"uniform": (0, 2 * tau), "narrow": (tau - tau // NARROW, tau + tau // NARROW), "none": (0, 0)}
    curves = curves_of(cell.seed, *ends[cell.levels["delays"]])
    chosen = int(curves[-1].argmin())
    found, t = curves[:, chosen], np.arange(1, UPDATES // EVERY + 1) * EVERY
    late = t >= UPDATES // 10
    slope = np.polyfit(np.log(t[late]), np.log(np.maximum(found[late], 1e-12)), 1)[0]
    return {"excess": 1000 * float(found[-1]), "exponent": float(slope), "rate": RATES[chosen]}


def curves_of(seed: int, least: int, most: int) -> Floats:
    """Excess loss of the mean iterate after every ``EVERY`` updates, [evaluations, RATES]; the draws are the same.

    Delays are drawn from ``least`` to ``most``.
    """
    rows, best = problem(seed)
    chance, rates = np.random.default_rng([6, seed]), np.array(RATES)[:, None]
    path, total, found = np.zeros((UPDATES + 1, len(RATES), FEATURES)), np.zeros((len(RATES), FEATURES)), []
    for t in range(1, UPDATES + 1):
        tau = min(t - 1, int(chance.integers(least, most + 1)))
        some = rows[chance.integers(SAMPLES, size=BATCH)]
        step = -(1 / (1 + np.exp(path[t - 1 - tau] @ some.T))) @ some / BATCH
        path[t] = path[t - 1] - rates / math.sqrt(t + tau) * step
        total += path[t]
        if t % EVERY == 0:
            found.append([loss(each, rows) - best for each in total / t])
    return np.array(found)


@cache
def problem(seed: int) -> tuple[Floats, float]:
    """Samples times their labels, [SAMPLES, FEATURES], on scales from 1 to 0.1; and the least loss."""
    chance = np.random.default_rng([66, seed])
    inputs = chance.standard_normal((SAMPLES, FEATURES)) * np.logspace(0, -1, FEATURES)
    odds = inputs @ (2 * chance.standard_normal(FEATURES))
    signs = np.where(chance.random(SAMPLES) < 1 / (1 + np.exp(-odds)), 1.0, -1.0)
    rows: Floats = inputs * signs[:, None]
    least = minimize(loss, np.zeros(FEATURES), args=(rows,), jac=slope_of, options={"gtol": 1e-9})
    return rows, float(least.fun)


def loss(w: Floats, rows: Floats) -> float:
    """Mean logistic loss of rows that are samples times their labels."""
    return float(np.logaddexp(0, -(rows @ w)).mean())


def slope_of(w: Floats, rows: Floats) -> Floats:
    """Gradient of the loss, [FEATURES]."""
    slope: Floats = -(rows / (1 + np.exp(rows @ w))[:, None]).mean(axis=0)
    return slope
