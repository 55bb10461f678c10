"""Common parts of all tasks on a data set: the data, or a subset, and metrics from per-sample statistics."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workloads.data import Split
from workloads.datasets.base import Dataset
from workloads.models.initial import Initializer, draw, draw_part

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DatasetTask(ABC):
    """A model on a data set.

    Attributes:
        dataset: one of ``workloads/datasets/``.
        data_dir: directory of the converted arrays.
        train_samples: number of training samples to use, spread evenly over the file, which may be sorted. None: all.
        test_samples: the same for held-out samples.
    """

    dataset: Dataset
    data_dir: str = "data"
    train_samples: int | None = None
    test_samples: int | None = None

    def __post_init__(self) -> None:
        for name in ("train_samples", "test_samples"):
            value = getattr(self, name)
            if value is not None and value < 1:
                raise ValueError(f"{name}={value}: must be at least 1, or null for all")
        self.check()

    @abstractmethod
    def check(self) -> None:
        """Check that model and data fit; raises ``ValueError`` naming a field."""

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """Number of parameters, known without data and framework."""

    @property
    @abstractmethod
    def independent_samples(self) -> bool:
        """Whether a sample's loss depends on no other sample of its micro-batch: no batch normalisation, no dropout."""

    @abstractmethod
    def initializers(self) -> list[Initializer]:
        """Initial values in the order of the flat vector."""

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Initial parameters, float32 [num_parameters], the same in every framework."""
        return draw(seed, self.initializers())

    def initial_part(self, seed: int, lo: int, out: NDArray[np.float32]) -> None:
        """Fill ``out`` with :meth:`initial_parameters` from ``lo`` on, for who needs no more of them."""
        draw_part(seed, self.initializers(), lo, out)

    @abstractmethod
    def torch_module(self) -> torch.nn.Module:
        """Build the model in PyTorch."""

    @abstractmethod
    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss summed over samples."""

    @abstractmethod
    def torch_losses(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample, [N]."""

    @abstractmethod
    def torch_per_sample_stats(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The statistics of every sample that :meth:`metrics` needs: float [N, statistics]."""

    @abstractmethod
    def metrics(self, stats: NDArray[Any]) -> dict[str, float]:
        """Metrics from the statistics of all samples [N, statistics], computed by any framework."""

    def torch_metrics(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Metrics of samples that fit into memory together."""
        return self.metrics(self.torch_per_sample_stats(module, inputs, targets).numpy())

    @property
    def num_samples(self) -> int | None:
        """Number of training samples; None if it depends on the files."""
        known = self.dataset.num_samples
        return known if known is None or self.train_samples is None else min(known, self.train_samples)

    def prepare(self) -> int:
        """Convert the data once; returns the number of training samples. Raises ``ValueError`` for missing data."""
        found = self.dataset.prepare(self.data_dir)
        return found if self.train_samples is None else min(found, self.train_samples)

    def preload(self) -> list[str]:
        """Import nothing beyond the framework."""
        return []

    def load(self) -> Split:
        """Arrays as stored, reduced to the samples that are used."""
        split = self.dataset.load(self.data_dir)
        return Split(train=_spread(split.train, self.train_samples), test=_spread(split.test, self.test_samples))

    def batch_inputs(self, inputs: NDArray[Any], key: Any) -> NDArray[Any]:
        """Pre-process a batch for the model; ``key`` identifies training samples, None: for evaluation."""
        return self.dataset.batch_inputs(inputs, key)


def _spread(part: tuple[NDArray[Any], NDArray[Any]], count: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Every n-th sample, as views."""
    total = len(part[1])
    if count is None or count >= total:
        return part
    step = total // count
    return part[0][: step * count : step], part[1][: step * count : step]
