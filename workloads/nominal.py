"""A task of which only the sizes are known, for jobs without gradients at the scale of a paper."""

from __future__ import annotations

from dataclasses import dataclass
from typing import final


@final
@dataclass(frozen=True, kw_only=True)
class Nominal:
    """``num_samples`` samples and a model of ``num_parameters`` (4 bytes each in every message); there are no data.

    ``independent_samples``: the model has neither batch normalisation nor dropout, so that a worker of a coded round
    computes all its parts in one pass.
    """

    num_samples: int
    num_parameters: int = 0
    independent_samples: bool = True

    def __post_init__(self) -> None:
        if not isinstance(self.num_samples, int) or self.num_samples < 1:
            raise ValueError(f"num_samples={self.num_samples}: must be at least 1")
        if not isinstance(self.num_parameters, int) or self.num_parameters < 0:
            raise ValueError(f"num_parameters={self.num_parameters}: must be 0 or more")
        if not isinstance(self.independent_samples, bool):
            raise ValueError(f"independent_samples={self.independent_samples}: must be true or false")

    def prepare(self) -> int:
        """Nothing to load; returns the number of training samples."""
        return self.num_samples

    def preload(self) -> list[str]:
        return []
