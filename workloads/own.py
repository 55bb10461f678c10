"""The start of a classification of one's own: a table and a network are missing, everything else is there."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from workloads.classification import Classification
from workloads.data import Split

if TYPE_CHECKING:
    import torch

SPLIT_SEED = 0
"""Fixed, so that the held-out samples are the same in every run, whatever its seed."""


class ClassificationTask(Classification, ABC):
    """Abstract: a frozen dataclass with :meth:`load` and :meth:`torch_module`, whose fields are its settings.

    Loss: cross-entropy; metrics: ``accuracy`` and ``loss``. ``independent_samples``: no sample's loss depends on the
    others of its batch. False where a layer normalises over the batch.
    """

    independent_samples: ClassVar[bool] = True

    @abstractmethod
    def load(self) -> Split:
        """The data, in every worker: inputs [N, ...] as the network takes them, targets int64 [N] from 0.

        The same in every call. Large arrays are best memory-mapped (``numpy.load(path, mmap_mode="r")``).
        """

    @abstractmethod
    def torch_module(self) -> torch.nn.Module:
        """The network, with a score for every class; its initial values follow from the job's seed."""

    def prepare(self) -> int:
        """Called once, before any process starts; returns the number of training samples."""
        return len(self.load().train[1])

    def preload(self) -> list[str]:
        """Import nothing beyond the framework."""
        return []


def split_table(inputs: ArrayLike, targets: ArrayLike, test_frac: float = 0.2) -> Split:
    """Hold out a share of the rows, drawn the same in every run: inputs float32 [N, ...], targets int64 [N].

    Raises ``ValueError`` for lengths that differ, targets that are no whole numbers, or a share that leaves no row.
    """
    features, classes = np.asarray(inputs, dtype=np.float32), _whole(targets)
    total, num_test = len(classes), round(test_frac * len(classes))
    if len(features) != total:
        raise ValueError(f"inputs: there are {len(features)} rows, and {total} targets")
    if not 0 < num_test < total:
        raise ValueError(f"test_frac={test_frac}: leaves {total - num_test} of {total} rows to train on")
    order = np.random.default_rng(SPLIT_SEED).permutation(total)
    test, train = order[:num_test], order[num_test:]
    return Split(train=(features[train], classes[train]), test=(features[test], classes[test]))


def _whole(targets: ArrayLike) -> NDArray[Any]:
    given = np.asarray(targets)
    classes = given.astype(np.int64)
    if not np.array_equal(classes, given):
        raise ValueError("targets: must be whole numbers, the classes")
    return classes
