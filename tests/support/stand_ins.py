"""Data sets that need no files, for tests of tasks."""

from __future__ import annotations

from dataclasses import dataclass
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from workloads.data import Split

NOTHING: dict[str, Any] = {"num_classes": 0, "vocabulary": 0, "num_dense": 0, "cardinalities": ()}


@dataclass(frozen=True)
class StandIn:
    """What ``workloads/datasets/`` offers, with random arrays. Inputs are stored doubled, a batch halves them."""

    name: str
    facts: Any
    num_samples: int | None = 30

    def arrays(self, count: int, seed: int) -> tuple[NDArray[Any], NDArray[Any]]:
        chance, facts = np.random.default_rng(seed), self.facts
        if facts.vocabulary:
            words = chance.integers(facts.vocabulary, size=(count, facts.input_shape[0] + 1))
            return words[:, :-1], words[:, 1:]
        if facts.cardinalities:
            numbers = chance.normal(size=(count, facts.num_dense))
            ids = chance.integers(facts.cardinalities, size=(count, len(facts.cardinalities)))
            rows = np.concatenate([numbers, ids], axis=1).astype(np.float32)
            return rows, (np.arange(count) % 3 == 0).astype(np.float32)
        return chance.normal(size=(count, *facts.input_shape)).astype(np.float32), np.arange(count) % facts.num_classes

    def prepare(self, data_dir: str) -> int:
        return 30

    def load(self, data_dir: str) -> Split:
        return Split(train=self.arrays(30, 0), test=self.arrays(20, 1))

    def batch_inputs(self, inputs: NDArray[Any], drawn: Any) -> NDArray[Any]:
        return inputs * 2 if self.facts.num_classes and not self.facts.vocabulary else inputs


PHOTOS = StandIn("photos", SimpleNamespace(**NOTHING | {"input_shape": (3, 16, 16), "num_classes": 4}))
TEXT = StandIn("text", SimpleNamespace(**NOTHING | {"input_shape": (5,), "num_classes": 40, "vocabulary": 40}))
ROWS = StandIn(
    "rows", SimpleNamespace(**NOTHING | {"input_shape": (6,), "num_dense": 2, "cardinalities": (50, 7, 30, 4)})
)
