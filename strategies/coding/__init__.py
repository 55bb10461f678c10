"""Gradient coding: which worker computes which parts, what it sends, and how the full gradient is decoded.

m workers, k equal parts of the round's data, up to s stragglers. Worker i computes the parts in the support of row i of
B (m x k) and sends ``sum_j B[i, j] g_j``; a row vector a with ``a B = 1`` that is zero at the stragglers gives
the full gradient ``sum_i a_i (row i)``. Files in reading order: ``terms`` (shapes), ``draws`` (random numbers),
``partitions`` (how many parts for whom), ``matrices`` (B of each scheme), ``groups`` (workers whose plain sum is
enough), ``decoding`` (a), ``stragglers`` (how good a code is over all straggler sets), ``schemes`` (the best of several
draws, and what is refused). What a job does with a code:
``group`` (the workers that have its rows), ``speeds`` (their throughputs), ``rounds`` (one update after another).

Sources: Tandon et al., "Gradient coding: avoiding stragglers in distributed learning", ICML 2017 (``naive``,
``fractional_repetition``, ``cyclic``); Wang et al., "Heterogeneity-aware gradient coding for straggler tolerance",
ICDCS 2019 (``heter_aware``, ``group_based``).
"""

from strategies.coding.decoding import Code, Decoded
from strategies.coding.schemes import SCHEMES, build
from strategies.coding.stragglers import Rated, rounding_error, straggler_sets

__all__ = ["SCHEMES", "Code", "Decoded", "Rated", "build", "rounding_error", "straggler_sets"]
