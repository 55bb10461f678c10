"""A classification of one's own: a table, a network, and nothing else to write."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pytest
import torch
from sklearn.metrics import accuracy_score, log_loss
from torch import nn

from runtime.backends.torch_evaluation import TorchEvaluation
from workloads.data import Split
from workloads.own import ClassificationTask, split_table

ROWS = 50


@dataclass(frozen=True, kw_only=True)
class Halves(ClassificationTask):
    def load(self) -> Split:
        points = np.random.default_rng(3).normal(size=(ROWS, 2))
        return split_table(points, points[:, 0] > 0, test_frac=0.3)

    def torch_module(self) -> nn.Module:
        return nn.Linear(2, 2)


def test_metrics_are_those_of_scikit_learn_whatever_the_batches() -> None:
    task = Halves()
    assert (task.prepare(), task.preload()) == (35, [])
    split, module = task.load(), task.torch_module()
    with torch.no_grad():
        likely = module(torch.from_numpy(split.test[0])).double().softmax(dim=1).numpy()
    inputs, targets = map(torch.from_numpy, split.train)
    whole, each = task.torch_loss(module, inputs, targets), task.torch_losses(module, inputs, targets)
    assert each.shape == (35,)
    assert whole.item() == pytest.approx(each.sum().item(), rel=1e-6), "the loss is a sum over samples"
    for batch_samples in (4, 100):
        found = TorchEvaluation(task, module, batch_samples, 0).evaluate(split.train, split.test)
        assert found["accuracy"] == pytest.approx(accuracy_score(split.test[1], likely.argmax(axis=1)))
        assert found["loss"] == pytest.approx(log_loss(split.test[1], likely), rel=1e-5)


def test_a_table_is_split_the_same_every_time_and_keeps_its_rows() -> None:
    table = np.arange(20.0).reshape(10, 2)
    one, again = split_table(table, range(10)), split_table(table, range(10))
    assert (len(one.train[1]), len(one.test[1])) == (8, 2)
    assert one.train[0].dtype == np.float32
    assert one.train[1].dtype == np.int64
    for part, same in ((one.train, again.train), (one.test, again.test)):
        np.testing.assert_array_equal(part[0], same[0])
        np.testing.assert_array_equal(part[0], table[part[1]])
    assert sorted([*one.train[1], *one.test[1]]) == list(range(10))


@pytest.mark.parametrize(
    ("targets", "test_frac", "why"),
    [
        ([0, 1, 0], 0.5, "inputs: there are 4 rows, and 3 targets"),
        ([0, 1, 0.5, 1], 0.5, "targets: must be whole numbers"),
        ([0, 1, 0, 1], 0.0, "test_frac=0.0: leaves 4 of 4 rows"),
        ([0, 1, 0, 1], 1.0, "test_frac=1.0: leaves 0 of 4 rows"),
    ],
)
def test_a_table_that_cannot_be_split_is_refused(targets: list[float], test_frac: float, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        split_table(np.zeros((4, 2)), targets, test_frac)
