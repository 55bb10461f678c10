"""Metrics of predictions on held-out data, in numpy (pure)."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

MAX_LOG_PERPLEXITY = 80.0
"""Largest mean loss: a model above it is useless anyway, and exp would overflow in float32 (88.7)."""


def perplexity(loss_sum: float, num_tokens: int) -> float:
    """Perplexity: exp of the mean loss (in nats) per token, at most exp(80), so that it can be averaged."""
    if num_tokens < 1:
        raise ValueError(f"num_tokens={num_tokens}: must be at least 1")
    mean = loss_sum / num_tokens
    return math.exp(min(mean, MAX_LOG_PERPLEXITY)) if not math.isnan(mean) else math.nan


def auc(scores: ArrayLike, labels: ArrayLike) -> float:
    """Probability that a positive [N] has a higher score than a negative; equal scores count half.

    By ranks (Mann and Whitney 1947), exact with ties. NaN if all labels are the same or a score is NaN.
    """
    values, positive = np.asarray(scores, dtype=np.float64), np.asarray(labels) > 0.5
    num_positive = int(positive.sum())
    num_negative = len(positive) - num_positive
    if not num_positive or not num_negative or np.isnan(values).any():
        return math.nan
    _, inverse, counts = np.unique(values, return_inverse=True, return_counts=True)
    ranks = np.cumsum(counts) - (counts - 1) / 2  # mean rank (from one) of equal scores
    excess = ranks[inverse][positive].sum() - num_positive * (num_positive + 1) / 2
    return float(excess / num_positive / num_negative)


def expected_auc(probabilities: ArrayLike) -> float:
    """Expected AUC of the true probabilities: no model can do better on these samples.

    A positive i meets a negative j with probability p_i (1 - p_j); the pair is ranked right if p_i > p_j, half right if
    they are equal. Samples are not paired with themselves.
    """
    values, counts = np.unique(np.asarray(probabilities, dtype=np.float64), return_counts=True)
    positives, negatives = counts * values, counts * (1 - values)
    below = np.concatenate([[0.0], np.cumsum(negatives)[:-1]])
    own = positives * negatives - counts * values * (1 - values)  # pairs of equal probability, without self-pairs
    right = (positives * below).sum() + own.sum() / 2
    pairs = positives.sum() * negatives.sum() - (counts * values * (1 - values)).sum()
    return float(right / pairs) if pairs > 0 else math.nan
