"""The benchmark's models as a workload of ours: the same modules and random batches that the peers compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from workloads.data import Split

if TYPE_CHECKING:
    import torch
    from torch import Tensor


ROUNDS = 10
"""Iterations of an epoch: an epoch's own cost (its shuffle, its notes) is part of training, but not of every step."""


@dataclass(frozen=True, kw_only=True)
class BenchTask:
    """One batch of ``models.BATCH`` samples for each of ``num_workers``, ``ROUNDS`` times over in every epoch."""

    model: str
    num_workers: int

    def preload(self) -> list[str]:
        """The module that defines the networks."""
        import bench.models  # noqa: F401

        return []

    def load(self) -> Split:
        """Inputs and labels of all ranks, one after another."""
        from bench import models

        batches = [models.batch(self.model, rank) for rank in range(self.num_workers)]
        inputs, labels = (np.concatenate([batch[part].numpy() for batch in batches] * ROUNDS) for part in (0, 1))
        return Split(train=(inputs, labels), test=(inputs, labels))

    def torch_module(self) -> torch.nn.Module:
        """The network."""
        from bench import models

        return models.build(self.model)

    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Summed cross-entropy."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(module(inputs), targets, reduction="sum")

    def torch_metrics(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Nothing is evaluated."""
        return {}
