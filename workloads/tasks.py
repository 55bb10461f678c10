"""What all tasks on a data set have in common: the data, or a part of them, and metrics from figures of each sample."""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workloads.data import Split
from workloads.models.initial import Start, draw

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@dataclass(frozen=True, kw_only=True)
class DatasetTask(ABC):
    """A model on a data set.

    Attributes:
        dataset: one of ``workloads/datasets/``.
        data_dir: where the converted arrays lie.
        train_samples: how many of the training samples are used; they are spread evenly over the file, as that may be
            sorted. None: all.
        test_samples: the same of those that metrics are measured on.
    """

    dataset: Any
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
        """Whether model and data fit; raises ``ValueError`` naming a field."""

    @property
    @abstractmethod
    def num_parameters(self) -> int:
        """Known without data and framework."""

    @property
    @abstractmethod
    def independent_samples(self) -> bool:
        """Whether a sample's loss depends on no other sample of its micro-batch: no batch normalisation, no masks."""

    @abstractmethod
    def starts(self) -> list[Start]:
        """What the parameters start as, in the order of the flat vector."""

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        """Float32 [num_parameters], the same in every framework."""
        return draw(seed, self.starts())

    @abstractmethod
    def torch_module(self) -> torch.nn.Module:
        """The model."""

    @abstractmethod
    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss summed over samples."""

    @abstractmethod
    def torch_losses(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """That of each sample, [N]."""

    @abstractmethod
    def torch_per_sample_stats(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """What :meth:`metrics` wants to know of every sample: float [N, figures]."""

    @abstractmethod
    def metrics(self, figures: NDArray[Any]) -> dict[str, float]:
        """Metrics from the figures of all samples [N, figures], whatever framework they are from."""

    def torch_metrics(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        """Metrics of samples that fit into memory together."""
        return self.metrics(self.torch_per_sample_stats(module, inputs, targets).numpy())

    @property
    def num_samples(self) -> int | None:
        """Training samples; None when only the files know."""
        known: int | None = self.dataset.num_samples
        return known if known is None or self.train_samples is None else min(known, self.train_samples)

    def prepare(self) -> int:
        """Convert the data once; returns the number of training samples. Raises ``ValueError`` for missing data."""
        found: int = self.dataset.prepare(self.data_dir)
        return found if self.train_samples is None else min(found, self.train_samples)

    def preload(self) -> list[str]:
        """Nothing to import beyond the framework."""
        return []

    def load(self) -> Split:
        """Arrays as stored, cut to the samples that are used."""
        split: Split = self.dataset.load(self.data_dir)
        return Split(train=_spread(split.train, self.train_samples), test=_spread(split.test, self.test_samples))

    def batch_inputs(self, inputs: NDArray[Any], drawn: Any) -> NDArray[Any]:
        """A batch as the model sees it; ``drawn`` says which training samples, None: for evaluation."""
        seen: NDArray[Any] = self.dataset.batch_inputs(inputs, drawn)
        return seen


def _spread(part: tuple[NDArray[Any], NDArray[Any]], count: int | None) -> tuple[NDArray[Any], NDArray[Any]]:
    """Every n-th sample, as views."""
    total = len(part[1])
    if count is None or count >= total:
        return part
    step = total // count
    return part[0][: step * count : step], part[1][: step * count : step]
