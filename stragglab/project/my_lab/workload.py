"""A workload: a data set of our own (two noisy rings, drawn here) and a network of our own."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from torch import nn

from stragglab import ClassificationTask, Split, split_table


@dataclass(frozen=True, kw_only=True)
class Rings(ClassificationTask):
    """Is a point of the plane on the inner ring or on the outer one?"""

    num_points: int = 2500
    noise: float = 0.12
    hidden_units: int = 32

    def load(self) -> Split:
        """All inputs [N, 2] and their classes [N]; a fifth of them is held out."""
        random = np.random.default_rng(7)
        rings = random.integers(0, 2, self.num_points)
        angle, radius = random.uniform(0, 2 * np.pi, self.num_points), 0.5 + 0.5 * rings
        points = np.stack([radius * np.cos(angle), radius * np.sin(angle)], axis=1)
        return split_table(points + random.normal(0, self.noise, points.shape), rings, test_frac=0.2)

    def torch_module(self) -> nn.Module:
        """The network: a score for each class."""
        return nn.Sequential(nn.Linear(2, self.hidden_units), nn.Tanh(), nn.Linear(self.hidden_units, 2))
