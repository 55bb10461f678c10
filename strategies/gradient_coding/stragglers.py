"""How good a code is over all sets of s stragglers, and the best of several draws.

A worker's rounding error grows with its weight: decoding multiplies the error of part j by up to
``sum_i |a_i B[i, j]|``. The largest of these over parts and straggler sets is the ``amplification``: 1 for plain sums,
the minimum, and thousands for an unlucky draw. Unlike max |a| or max |B| it does not depend on how a row is
scaled.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import combinations
from math import comb, inf
from typing import NamedTuple

import numpy as np

from strategies.gradient_coding.decoding import RESIDUAL, Code
from strategies.gradient_coding.shapes import Chance, Indices

MAX_SETS = 1000
"""Straggler sets up to which all are tried (all for up to 12 workers); more are sampled."""
PLAIN = 1 + 1e-9
"""The smallest possible amplification."""


class Rated(NamedTuple):
    """A code, its worst ``amplification`` and its worst ``residual`` over the straggler sets that were tried."""

    code: Code
    amplification: float
    residual: float


def straggler_sets(m: int, s: int, chance: Chance, at_most: int = MAX_SETS) -> Indices:
    """Every set of ``s`` of ``m`` workers, or about ``at_most`` different ones drawn uniformly if there are more."""
    if comb(m, s) <= at_most:
        return np.array(list(combinations(range(m), s)), dtype=np.intp).reshape(comb(m, s), s)
    drawn = np.argsort(chance.random((at_most, m)), axis=1)[:, :s]
    return np.unique(np.sort(drawn, axis=1), axis=0)


def rate(code: Code, dead: Indices) -> Rated:
    """Amplification and residual over the ``dead`` sets; infinite amplification if one of them cannot be decoded."""
    weights = code.weights(dead)
    residual = float(np.abs(weights @ code.matrix - 1).max())
    amplification = float((np.abs(weights) @ np.abs(code.matrix)).max())
    return Rated(code, amplification if residual <= RESIDUAL else inf, residual)


def best_of(codes: Iterable[Code], dead: Indices) -> Rated:
    """The code with the least amplification (ties: the first); plain sums end the search.

    Raises:
        ValueError: ``codes`` is empty.
    """
    best: Rated | None = None
    for code in codes:
        rated = rate(code, dead)
        if best is None or rated.amplification < best.amplification:
            best = rated
        if best.amplification <= PLAIN:
            break
    if best is None:
        raise ValueError("draws=0: there is no code to choose from")
    return best


def rounding_error(amplification: float, precision: str = "float32") -> float:
    """Relative error of the decoded gradient to expect when the coded ones are computed in ``precision``."""
    return float(amplification * np.finfo(precision).eps / 2)
