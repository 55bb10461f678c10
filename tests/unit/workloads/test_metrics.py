"""Scores against scikit-learn and against numbers worked by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from sklearn.metrics import roc_auc_score

from workloads import metrics


@pytest.mark.parametrize("levels", [2, 5, 1000], ids=["mostly ties", "many ties", "few ties"])
@pytest.mark.parametrize("seed", range(2))
def test_auc_is_scikit_learns_ties_included(levels: int, seed: int) -> None:
    rng = np.random.default_rng(seed)
    scores = rng.integers(0, levels, 300) / levels
    labels = (rng.random(300) < 0.2 + 0.5 * scores).astype(np.float32)
    assert metrics.auc(scores, labels) == pytest.approx(roc_auc_score(labels, scores), abs=1e-12)


def test_auc_of_infinities_and_of_what_has_none() -> None:
    assert metrics.auc([-math.inf, math.inf], [0, 1]) == 1.0
    for scores, labels in (([1.0, 2.0], [1, 1]), ([1.0, 2.0], [0, 0]), ([math.nan, 1.0], [0, 1])):
        assert math.isnan(metrics.auc(scores, labels))


@pytest.mark.long(like="test_the_expected_auc_is_the_mean_over_labels")
def test_auc_of_many_samples_does_not_overflow() -> None:
    """The number of pairs of five million is above 2**42; ranks are summed in float64."""
    labels = np.arange(5_000_000) % 2
    assert metrics.auc(labels, labels) == 1.0


def test_perplexity() -> None:
    assert metrics.perplexity(300 * math.log(50), 300) == pytest.approx(50)
    assert metrics.perplexity(1e9, 10) == metrics.perplexity(math.inf, 1) == math.exp(80)
    assert np.isfinite(np.float32(metrics.perplexity(1e9, 10)))
    assert math.isnan(metrics.perplexity(math.nan, 1))
    with pytest.raises(ValueError, match="num_tokens=0"):
        metrics.perplexity(0.0, 0)


def test_the_expected_auc_is_the_mean_over_labels() -> None:
    """Of four thousand draws of labels; weighted by pairs, as it is a ratio of means."""
    rng = np.random.default_rng(3)
    chance = rng.choice([0.1, 0.3, 0.3, 0.6, 0.9], 40)
    right = pairs = 0.0
    for _ in range(4_000):
        labels = rng.random(40) < chance
        own = labels.sum() * (40 - labels.sum())
        if own:
            right, pairs = right + own * metrics.auc(chance, labels), pairs + own
    assert metrics.expected_auc(chance) == pytest.approx(right / pairs, abs=0.004)
    # by hand: two samples (0.8, 0.2) are right with 0.64, wrong with 0.04
    assert metrics.expected_auc([0.8, 0.2]) == pytest.approx(0.64 / 0.68)
    assert metrics.expected_auc([0.5, 0.5, 0.5]) == pytest.approx(0.5)
    assert math.isnan(metrics.expected_auc([1.0, 1.0]))
