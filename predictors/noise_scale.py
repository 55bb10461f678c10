"""The gradient noise scale, estimated from the norms of the gradients of one update (pure).

Per-sample units throughout: phi is the batch, in samples, at which the noise of the mean gradient is as large as the
gradient itself (McCandlish et al., 2018, "An empirical model of large-batch training").

An update of a single gradient gives no estimate. AdaptDL takes two consecutive ones there, by their inner product:
biased, and not computed here. In ASGD the last estimate stands, with its age.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import isfinite
from typing import NamedTuple, final

from reading.ranges import check_number

LEAST_SQR, LEAST_VAR = 1e-12, 1e-6
"""Estimates may be negative; AdaptDL's bounds below which they do not count."""


class NoiseTerms(NamedTuple):
    """``sqr`` estimates |E g|^2, ``var`` the trace of the covariance of g; g is the gradient of one sample."""

    sqr: float
    var: float

    @property
    def phi(self) -> float:
        """The gradient noise scale in samples."""
        return max(self.var, LEAST_VAR) / max(self.sqr, LEAST_SQR)


def noise_terms(samples: Sequence[int], sqr_norms: Sequence[float], mean_sqr_norm: float) -> NoiseTerms:
    """Unbiased estimates from one update of gradients that were computed on the same parameters.

    With g_i the mean gradient of worker i over n_i samples and B the sum of n_i::

        L = sum_i n_i / B |g_i|^2      T2 = |sum_i n_i / B g_i|^2
        sqr = (n T2 - L) / (n - 1)     var = (L - T2) B / (n - 1)

    E L = |E g|^2 + n var / B and E T2 = |E g|^2 + var / B for any n_i, so both are unbiased. AdaptDL (Qiao et al.,
    OSDI 2021), whose estimator this is, takes the plain mean of |g_i|^2, which is right for equal batches only.

    Args:
        samples: n_i of every gradient, 1 or more.
        sqr_norms: squared norm of every gradient **sum**, n_i^2 |g_i|^2.
        mean_sqr_norm: T2, the squared norm of the mean over all samples.

    Raises:
        ValueError: for fewer than two gradients.
    """
    count, batch = len(samples), sum(samples)
    if count < 2 or len(sqr_norms) != count:
        raise ValueError(f"noise scale: {count} gradients with {len(sqr_norms)} norms; needs two or more, and as many")
    local = sum(norm / (own * batch) for own, norm in zip(samples, sqr_norms, strict=True))
    return NoiseTerms(
        sqr=(count * mean_sqr_norm - local) / (count - 1), var=(local - mean_sqr_norm) * batch / (count - 1)
    )


@final
@dataclass(kw_only=True)
class OnlineNoise:
    """Moving averages of ``sqr`` and ``var`` over measured updates, whose ratio is phi.

    Both are averaged separately with theta = smoothing^(B_u / b0) for an update of B_u samples, corrected for starting
    at zero (AdaptDL).

    Attributes:
        smoothing: the weight that is left of an average after b0 more samples of measured updates, in (0, 1).
        batch_samples: b0, the nominal batch of one worker.
    """

    smoothing: float = 0.999
    batch_samples: float = 1.0

    def __post_init__(self) -> None:
        check_number("smoothing", self.smoothing, above=0.0, most=1.0)
        if self.smoothing == 1.0:
            raise ValueError("smoothing=1.0: must be less than 1, or no update would count")
        check_number("batch_samples", self.batch_samples, above=0.0)
        self.updates = 0
        """Number of estimates that were taken."""
        self.skipped = 0
        """Number of updates that gave none."""
        self._version = self._now = 0
        self._sqr = self._var = self._weight = 0.0

    def update(self, version: int, batch_samples: float, terms: NoiseTerms) -> None:
        """Add the estimate of an update of ``batch_samples`` samples that resulted in ``version``.

        One that is not finite is skipped.
        """
        if not (isfinite(terms.sqr) and isfinite(terms.var)):
            self.skip()
            return
        theta = self.smoothing ** (batch_samples / self.batch_samples)
        self._sqr = theta * self._sqr + (1.0 - theta) * terms.sqr
        self._var = theta * self._var + (1.0 - theta) * terms.var
        self._weight = theta * self._weight + (1.0 - theta)
        self.updates += 1
        self._version, self._now = version, max(version, self._now)

    def skip(self) -> None:
        """An update gave no estimate: gradients of several versions, or a single one."""
        self.skipped += 1

    def at(self, version: int) -> None:
        """So many updates have been applied now; after a rollback the estimates stay, as they describe the data."""
        self._now = version
        self._version = min(self._version, version)

    @property
    def terms(self) -> NoiseTerms | None:
        """The averages; None before the first estimate."""
        return NoiseTerms(self._sqr / self._weight, self._var / self._weight) if self._weight else None

    def phi_of(self, batch_samples: float) -> tuple[float, float] | None:
        """(phi in samples, its age in updates); None before the first estimate."""
        terms = self.terms
        return None if terms is None else (terms.phi, float(self._now - self._version))
