"""The time of an iteration from the resources that it receives: T = a + c1 samples / cpu + c2 bytes / bandwidth."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from predictors.history import Floats

LEAST_FRAC, MOST_FRAC = 0.2, 5.0
"""A prediction is kept within these multiples of the median of recent times, since a fit may extrapolate wildly."""


class Coefficients(NamedTuple):
    """``base_s`` seconds; ``per_sample_s`` of a whole processor; ``per_byte`` transfers of each byte, or their unit."""

    base_s: float
    per_sample_s: float
    per_byte: float


def inputs_of(samples: Floats, cpu_frac: Floats, num_bytes: Floats, bytes_per_s: Floats) -> Floats:
    """The two inputs of every iteration, float [rows, 2]: samples / cpu and bytes / bandwidth."""
    return np.column_stack([samples / cpu_frac, num_bytes / bytes_per_s])


def fit_times(inputs: Floats, seconds: Floats) -> Coefficients:
    """Least squares of relative errors, since stragglers are defined by ratios; no coefficient is negative.

    Less processor or bandwidth than ever seen must not predict less time, so the fit is scipy's non-negative one. An
    input that never changed cannot be separated from the constant, and its part of the time may go to either.
    """
    from scipy.optimize import nnls  # takes 0.5 s to import, and most jobs fit nothing

    design = np.column_stack([np.ones(len(inputs)), inputs]) / seconds[:, None]
    scale = np.linalg.norm(design, axis=0)
    scale[scale == 0.0] = 1.0
    solution, _ = nnls(design / scale, np.ones(len(inputs)))
    return Coefficients(*(float(value) for value in solution / scale))


def predict_times(coefficients: Coefficients, inputs: Floats) -> Floats:
    """Predicted times of iterations with these inputs, in seconds, float [rows]."""
    seconds: Floats = coefficients.base_s + inputs @ np.array(coefficients[1:])
    return seconds


def plausible(seconds: Floats, median_s: Floats) -> Floats:
    """``seconds`` within ``LEAST_FRAC`` and ``MOST_FRAC`` of the medians; NaN and infinity become the median."""
    return np.clip(np.where(np.isfinite(seconds), seconds, median_s), LEAST_FRAC * median_s, MOST_FRAC * median_s)
