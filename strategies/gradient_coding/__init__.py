"""Gradient coding: the exact full gradient, whichever s workers are late or dead (Tandon et al., Wang et al.).

Configurations: ``coding_naive``, ``coding_fractional``, ``coding_cyclic``, ``coding_heter_aware``,
``coding_group_based``. Card: ``docs/methods/gradient_coding.md``. Experiments: ``gc_*``. Paper tests:
``tests/paper/test_gradient_coding*.py``.

Files in reading order: ``strategy`` (the method), ``draws`` (random numbers), ``partitions`` (how many parts for whom),
``decoding`` (a), ``matrices`` (B of each scheme, workers whose plain sum is enough), ``schemes`` (how good a code is
over all straggler sets, the best of several draws), ``group`` (the workers that have the rows of a code), ``speeds``
(their throughputs), ``rounds`` (one update after another).
"""

from strategies.gradient_coding.decoding import Code as Code
from strategies.gradient_coding.decoding import Decoded as Decoded
from strategies.gradient_coding.schemes import SCHEMES as SCHEMES
from strategies.gradient_coding.schemes import Rated as Rated
from strategies.gradient_coding.schemes import build as build
from strategies.gradient_coding.schemes import rounding_error as rounding_error
from strategies.gradient_coding.schemes import straggler_sets as straggler_sets
from strategies.gradient_coding.strategy import GradientCoding as GradientCoding
