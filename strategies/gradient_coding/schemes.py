"""Builds a scheme by name: the code with the least amplification of several draws, or the reason for refusing.

A worker's rounding error grows with its weight: decoding multiplies the error of part j by up to
``sum_i |a_i B[i, j]|``. The largest of these over parts and straggler sets is the ``amplification``: 1 for plain sums,
the minimum, and thousands for an unlucky draw. Unlike max |a| or max |B| it does not depend on how a row is
scaled.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from itertools import combinations
from math import comb, inf
from typing import NamedTuple

import numpy as np

from reading.ranges import check_choice, check_number, check_whole
from strategies.gradient_coding import matrices, partitions
from strategies.gradient_coding.decoding import (
    RESIDUAL,
    Code,
    Indices,
    Mask,
    check_throughputs,
    check_tolerance,
)
from strategies.gradient_coding.draws import Chance
from strategies.gradient_coding.matrices import find_groups, group_based, pack_groups, prune_groups

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


MAX_DRAWS = 10_000
"""Most matrices to choose from; a job waits for them all before it starts."""
MAX_WORKERS = 1000
"""Most workers that a code is built for."""
MAX_WORK = 4e9
"""Most m x m x max(m, k) of all draws together: some seconds of a processor."""
ONE_PART_EACH = ("naive", "fractional_repetition", "cyclic")
"""Schemes that ignore throughputs: k = m."""
SCHEMES = (*ONE_PART_EACH, "heter_aware", "group_based")


def build(
    scheme: str,
    throughputs: Sequence[float],
    s: int,
    chance: Chance,
    *,
    k: int | None = None,
    draws: int = 50,
    max_amplification: float = 1e3,
    prune: str = "packing",
    held: Sequence[int] | None = None,
) -> Rated:
    """The code of ``scheme`` for workers of these ``throughputs`` (any unit) and up to ``s`` stragglers.

    Args:
        scheme: one of ``SCHEMES``.
        throughputs: of each worker; their number is m.
        s: stragglers that are tolerated.
        chance: a ``numpy.random.Generator``; the same state gives the same code.
        k: number of parts; None: m, or the smallest that makes the shares of ``heter_aware`` and ``group_based`` whole.
        draws: random matrices to choose from.
        max_amplification: more is refused (1e3 is an error of about 6e-5 in float32).
        prune: which groups ``group_based`` keeps: ``packing`` or ``paper``.
        held: parts of each worker, ``k (s + 1)`` in all and at most ``k`` each; None: in proportion to ``throughputs``.

    Raises:
        ValueError: a value is out of its range, the scheme cannot have this ``s`` or ``k``, or rounding errors would
            grow too much.
    """
    check_choice("scheme", scheme, *SCHEMES)
    check_throughputs(throughputs)
    check_tolerance(s, len(throughputs))
    check_whole("draws", draws, least=1, most=MAX_DRAWS)
    check_number("max_amplification", max_amplification, least=1)
    check_choice("prune", prune, "packing", "paper")
    check_size(len(throughputs), s)
    dead = straggler_sets(len(throughputs), s, chance)
    if scheme in ONE_PART_EACH:
        draw = _one_part_each(scheme, len(throughputs), s, k, chance)
    else:
        parts = partitions.default_parts(throughputs, s) if k is None else k
        support = partitions.support(partitions.counts(throughputs, parts, s) if held is None else held, parts)
        draw = _by_throughput(scheme, support, chance, prune)
    rated = best_of(_draw_codes(draw, draws), dead)
    if rated.amplification > max_amplification:
        raise ValueError(
            f"max_amplification={max_amplification:g}: the best of {draws} draws of {scheme} with s={s} multiplies "
            f"rounding errors by {rated.amplification:.3g}, in float32 to about "
            f"{rounding_error(rated.amplification):.0e}; take a smaller s, more draws or fractional_repetition"
        )
    return rated


def check_size(m: int, s: int) -> None:
    """Raise ``ValueError`` for more workers than a code is built for; with s = 0 there is nothing to build."""
    if s and m > MAX_WORKERS:
        raise ValueError(
            f"s={s}: a code for {m} workers would take too long to build; take at most {MAX_WORKERS} workers, or s=0"
        )


def _draw_codes(draw: Callable[[], Code], draws: int) -> Iterator[Code]:
    """The codes to choose from; the first one is often the last, and is made before their number is refused."""
    yield (first := draw())
    m, k = first.matrix.shape
    most = max(1, int(MAX_WORK / (m * m * max(m, k))))
    if draws > most:
        raise ValueError(
            f"draws={draws}: a choice among so many matrices ({m} workers, {k} parts) would take minutes; take at "
            f"most {most}, or fewer workers"
        )
    yield from (draw() for _ in range(1, draws))


def _one_part_each(scheme: str, m: int, s: int, k: int | None, chance: Chance) -> Callable[[], Code]:
    if k not in (None, m):
        raise ValueError(f"k={k}: {scheme} has one part per worker, {m}; leave k out or take heter_aware")
    if scheme == "cyclic":
        return lambda: Code(matrices.cyclic(m, s, chance))
    if scheme == "fractional_repetition":
        return lambda: Code(matrices.fractional_repetition(m, s))
    if s:
        raise ValueError(f"s={s}: naive tolerates no straggler; take s=0 or another scheme")
    return lambda: Code(matrices.naive(m))


def _by_throughput(scheme: str, support: Mask, chance: Chance, prune: str) -> Callable[[], Code]:
    if scheme == "heter_aware":
        return lambda: Code(matrices.heter_aware(support, chance))
    groups = pack_groups(support) if prune == "packing" else prune_groups(find_groups(support))
    return lambda: Code(group_based(support, groups, chance), tuple(groups))
