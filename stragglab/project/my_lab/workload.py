"""A workload: a data set of our own (two noisy rings, drawn here) and a network of our own."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

import numpy as np

from stragglab import Split

if TYPE_CHECKING:
    import torch
    from torch import Tensor

NUM_TEST = 500


@dataclass(frozen=True, kw_only=True)
class Rings:
    """Is a point of the plane on the inner ring or on the outer one?"""

    num_samples: int = 2000
    noise: float = 0.12
    hidden_units: int = 32

    independent_samples: ClassVar[bool] = True  # no sample's loss depends on the others of its batch

    def prepare(self) -> int:
        """Called once, before any process starts: download or convert here. Returns the number of samples."""
        return self.num_samples

    def preload(self) -> list[str]:
        """Nothing to import beyond the framework."""
        return []

    def load(self) -> Split:
        """The data, in every worker: inputs float32 [N, 2], targets int64 [N]. Large arrays: numpy.load(mmap_mode)."""
        random = np.random.default_rng(7)
        total = self.num_samples + NUM_TEST
        targets = random.integers(0, 2, total)
        angle, radius = random.uniform(0, 2 * np.pi, total), 0.5 + 0.5 * targets
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        inputs = (points + random.normal(0, self.noise, points.shape)).astype(np.float32)
        test = slice(self.num_samples, None)
        train = slice(self.num_samples)
        return Split(train=(inputs[train], targets[train]), test=(inputs[test], targets[test]))

    def torch_module(self) -> torch.nn.Module:
        """The network; its initial values follow from the job's seed."""
        from torch import nn

        return nn.Sequential(nn.Linear(2, self.hidden_units), nn.Tanh(), nn.Linear(self.hidden_units, 2))

    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Summed over the samples, not averaged: updates weigh gradients by their samples."""
        return self.torch_losses(module, inputs, targets).sum()

    def torch_losses(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(module(inputs), targets, reduction="none")

    def torch_metrics(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Metrics of the held-out samples."""
        hits = (module(inputs).argmax(dim=1) == targets).float().mean()
        return {"accuracy": float(hits), "loss": float(self.torch_losses(module, inputs, targets).mean())}
