"""Clicks with a known truth: its AUC is known, a factorisation machine comes near, a linear model cannot."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from sklearn.metrics import log_loss

from workloads.data import Split, load_array
from workloads.datasets.planted import Planted
from workloads.metrics import auc

SMALL = Planted(samples=20_000, num_dense=4, num_fields=6, buckets=20, rank=2, data_seed=1)


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("planted"))
    assert SMALL.prepare(folder) == SMALL.num_samples == 20_000
    return folder


def fitted(split: Split, rank: int, steps: int = 120) -> NDArray[np.float32]:
    """Held-out scores of a factorisation machine (rank 0: of a linear model), by Adam on batches of 512."""
    torch.manual_seed(0)
    offsets = torch.arange(SMALL.num_fields) * SMALL.buckets
    single = torch.zeros(SMALL.num_fields * SMALL.buckets, requires_grad=True)
    rest = torch.zeros(SMALL.num_dense + 1, requires_grad=True)
    factors = (0.2 * torch.randn(len(single), max(rank, 1))).requires_grad_()

    def log_odds(inputs: torch.Tensor) -> torch.Tensor:
        ids = inputs[:, SMALL.num_dense :].long() + offsets
        vectors = factors[ids] * (1.0 if rank else 0.0)
        crossed = (vectors.sum(1) ** 2 - (vectors**2).sum(1)).sum(1) / 2
        return rest[0] + inputs[:, : SMALL.num_dense] @ rest[1:] + single[ids].sum(1) + crossed

    inputs, targets = (torch.from_numpy(np.array(part)) for part in split.train)
    optimizer = torch.optim.Adam([single, rest, factors], lr=0.03, weight_decay=1e-5)
    for step in range(steps):
        rows = torch.randperm(len(inputs), generator=torch.Generator().manual_seed(step))[:512]
        optimizer.zero_grad()
        torch.nn.functional.binary_cross_entropy_with_logits(log_odds(inputs[rows]), targets[rows]).backward()
        optimizer.step()
    with torch.no_grad():
        scores: NDArray[np.float32] = log_odds(torch.from_numpy(np.array(split.test[0]))).numpy()
    return scores


def test_a_factorisation_machine_comes_near_the_best_and_a_linear_model_does_not(data_dir: str) -> None:
    split = SMALL.load(data_dir)
    best = SMALL.best_auc(data_dir)
    crossed, linear = (auc(fitted(split, rank), split.test[1]) for rank in (SMALL.rank, 0))
    assert 0.8 < best < 0.95
    assert best - 0.03 < crossed < best + 0.02
    assert linear < best - 0.07


def test_the_truth_itself_scores_what_is_expected(data_dir: str) -> None:
    """2,000 held-out samples: the standard error of an AUC is about 0.01."""
    labels = SMALL.load(data_dir).test[1]
    chance = load_array(SMALL.directory(data_dir), "test_probabilities")
    assert auc(chance, labels) == pytest.approx(SMALL.best_auc(data_dir), abs=0.03)
    assert log_loss(labels, chance) == pytest.approx(
        log_loss(np.random.default_rng(0).random(len(chance)) < chance, chance), abs=0.05
    )
    assert auc(np.random.default_rng(1).permutation(chance), labels) < 0.55
    assert np.log(chance / (1 - chance)).std() == pytest.approx(SMALL.spread, rel=0.2)
    assert 0.15 < SMALL.load(data_dir).train[1].mean() < 0.4, "clicks are rare"


def test_log_odds_are_those_of_the_sum_over_pairs() -> None:
    """The short form (square of sums minus sum of squares) against the definition."""
    inputs = SMALL._inputs()[:20]
    truth = SMALL.truth(inputs)
    for row, odds in zip(inputs, truth.log_odds(inputs), strict=True):
        ids = row[4:].astype(int)
        expected = truth.bias + row[:4] @ truth.dense + sum(truth.single[field, at] for field, at in enumerate(ids))
        expected += sum(
            truth.factors[one, ids[one]] @ truth.factors[two, ids[two]] for two in range(6) for one in range(two)
        )
        assert odds == pytest.approx(expected)


def test_every_setting_has_arrays_of_its_own_and_the_same_are_the_same(tmp_path: Path) -> None:
    settings: dict[str, Any] = {"samples": 200, "num_dense": 2, "num_fields": 3, "buckets": 5, "rank": 2}
    others = [{}, {"data_seed": 2}, {"samples": 300}, {"rank": 3}, {"spread": 1.0}]
    assert len({Planted(**{**settings, **other}).directory(str(tmp_path)) for other in others}) == 5
    own = Planted(**settings)
    for place in ("a", "b"):
        assert own.prepare(str(tmp_path / place)) == 200
    for one, two in zip(own.load(str(tmp_path / "a")).train, own.load(str(tmp_path / "b")).train, strict=True):
        np.testing.assert_array_equal(one, two)
