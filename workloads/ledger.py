"""The ledger: a model whose parameters count how often every sample was used.

There is one parameter per sample, and the "gradient" of a sample is one at its own index. With the optimizer ``tally``
the final parameters *are* the use counts of all samples, so the data service's guarantee is proved where it matters.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import ClassVar, final

import numpy as np
from numpy.typing import NDArray


@final
@dataclass(frozen=True, kw_only=True)
class SampleLedger:
    """``num_samples`` samples and as many parameters."""

    num_samples: int = 2000

    def __post_init__(self) -> None:
        if not isinstance(self.num_samples, int) or self.num_samples < 1:
            raise ValueError(f"num_samples={self.num_samples}: must be at least 1")

    independent_samples: ClassVar[bool] = True

    @property
    def num_parameters(self) -> int:
        """Number of parameters, one per sample."""
        return self.num_samples

    def prepare(self) -> int:
        """Do nothing: there are no data to convert."""
        return self.num_samples

    def preload(self) -> list[str]:
        """Do nothing: there is nothing to import."""
        return []

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Zeros: no sample has been used yet."""
        return np.zeros(self.num_samples, dtype=np.float32)

    def numpy_gradient(
        self, params: NDArray[np.float32], indices: NDArray[np.int64], grad: NDArray[np.float32]
    ) -> float:
        """Count these samples; the loss is how often they had been used before."""
        np.add.at(grad, indices, np.float32(1))
        return float(params[indices].sum())

    def numpy_weighted_gradient(
        self,
        params: NDArray[np.float32],
        indices: NDArray[np.int64],
        weights: NDArray[np.float32],
        grad: NDArray[np.float32],
    ) -> float:
        """Count every sample with its weight; the loss is the same."""
        np.add.at(grad, indices, weights)
        return float(params[indices].sum())

    def numpy_metrics(self, params: NDArray[np.float32]) -> dict[str, float]:
        """Mean, smallest and largest use count of a sample."""
        return {"mean_uses": float(params.mean()), "least_uses": float(params.min()), "most_uses": float(params.max())}
