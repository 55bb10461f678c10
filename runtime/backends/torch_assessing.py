"""How parameters are assessed in PyTorch: batch by batch, and as a function of nothing but the parameters.

Parameters travel, the running statistics of batch normalisation do not: they belong to a process, and the process that
evaluates has never trained. So they are measured anew whenever parameters are assessed, at those very parameters, on
training samples that are the same in every process and at every time.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import batch_inputs_of
from runtime.backends.calibration import calibration_samples, whole_batches

if TYPE_CHECKING:
    import torch
    from torch import Tensor

Arrays = tuple[NDArray[Any], NDArray[Any]]
Metrics = dict[str, float]


@final
class Assessor:
    """Assesses ``module``, which shares its parameters with whoever trains it, and leaves it in training mode.

    Args:
        task: with ``torch_figures`` and ``metrics`` (figures of each sample, and what they come to) it is assessed in
            batches; with ``torch_metrics`` only, at once.
        module: the task's module.
        batch_samples: samples of a forward pass.
        recalibrate_samples: training samples that statistics of batch normalisation are measured on.
    """

    def __init__(self, task: Any, module: torch.nn.Module, batch_samples: int, recalibrate_samples: int) -> None:
        self.task, self.module = task, module
        self.batch_inputs = batch_inputs_of(task)
        self.batch_samples, self.recalibrate_samples = batch_samples, recalibrate_samples
        self.norms = [one for one in module.modules() if getattr(one, "running_mean", None) is not None]
        self._chosen: NDArray[np.int64] | None = None

    def assess(self, train: Arrays, test: Arrays) -> Metrics:
        """Metrics on the test samples."""
        import torch

        self.module.eval()
        with torch.no_grad():
            self._recalibrate(train)
            metrics = self._assess(test)
        self.module.train()
        return metrics

    def _assess(self, test: Arrays) -> Metrics:
        figures_of = getattr(self.task, "torch_figures", None)
        if figures_of is None:
            alone: Metrics = self.task.torch_metrics(self.module, *self._tensors(*test))
            return alone
        batches = _slices(len(test[1]), self.batch_samples)
        figures = [figures_of(self.module, *self._tensors(test[0][rows], test[1][rows])) for rows in batches]
        metrics: Metrics = self.task.metrics(np.concatenate([batch.numpy() for batch in figures]))
        return metrics

    def _recalibrate(self, train: Arrays) -> None:
        """Running statistics become the mean of those of batches of one size, everything else as in evaluation."""
        if not self.norms:
            return
        if self._chosen is None:
            self._chosen = calibration_samples(len(train[1]), self.recalibrate_samples)
        for norm in self.norms:
            norm.reset_running_stats()  # type: ignore[operator]
            norm.momentum = None  # type: ignore[assignment]
            norm.train()
        for batch in whole_batches(self._chosen, self.batch_samples):
            self.module(self._tensors(*(part[batch] for part in train))[0])
        for norm in self.norms:
            norm.eval()

    def _tensors(self, inputs: NDArray[Any], targets: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """As the model sees them outside training."""
        import torch

        return torch.from_numpy(self.batch_inputs(inputs, None)), torch.from_numpy(targets)


def _slices(num_samples: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, num_samples)) for start in range(0, num_samples, size))
