"""Evaluation of parameters in PyTorch: batch by batch, and as a function of the parameters alone.

Parameters are sent over the network, the running statistics of batch normalisation are not: they are local to a
process, and the evaluator never trains. So every evaluation measures them again, at the parameters being evaluated, on
training samples that are the same in every process at all times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
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
class TorchEvaluation:
    """Evaluates ``module``, which may share its parameters with a trainer, and leaves it in training mode.

    Args:
        task: evaluated in batches if it has ``torch_per_sample_stats`` and ``metrics`` (per-sample statistics and their
            aggregation); on all samples at once if it has ``torch_metrics`` only.
        module: the task's module.
        batch_samples: samples per forward pass.
        recalibrate_samples: number of training samples for measuring the statistics of batch normalisation.
        place: brings tensors to where the module computes.
    """

    def __init__(
        self,
        task: Any,
        module: torch.nn.Module,
        batch_samples: int,
        recalibrate_samples: int,
        place: Callable[[Tensor], Tensor] = lambda values: values,
    ) -> None:
        self.task, self.module, self.place = task, module, place
        self.batch_inputs = batch_inputs_of(task)
        self.batch_samples, self.recalibrate_samples = batch_samples, recalibrate_samples
        self.norms = [one for one in module.modules() if getattr(one, "running_mean", None) is not None]
        self._chosen: NDArray[np.int64] | None = None

    def evaluate(self, train: Arrays, test: Arrays) -> Metrics:
        """Metrics on the test samples."""
        import torch

        self.module.eval()
        with torch.no_grad():
            self._recalibrate(train)
            metrics = self._evaluate_batches(test)
        self.module.train()
        return metrics

    def _evaluate_batches(self, test: Arrays) -> Metrics:
        figures_of = getattr(self.task, "torch_per_sample_stats", None)
        if figures_of is None:
            alone: Metrics = self.task.torch_metrics(self.module, *self._tensors(*test))
            return alone
        batches = _slices(len(test[1]), self.batch_samples)
        figures = [figures_of(self.module, *self._tensors(test[0][rows], test[1][rows])) for rows in batches]
        metrics: Metrics = self.task.metrics(np.concatenate([batch.cpu().numpy() for batch in figures]))
        return metrics

    def _recalibrate(self, train: Arrays) -> None:
        """Set the running statistics to the mean over equal batches, with everything else in evaluation mode."""
        if not self.norms:
            return
        if self._chosen is None:
            self._chosen = calibration_samples(len(train[1]), self.recalibrate_samples)
        momenta = [norm.momentum for norm in self.norms]
        for norm in self.norms:
            norm.reset_running_stats()  # type: ignore[operator]
            norm.momentum = None  # type: ignore[assignment]
            norm.train()
        for batch in whole_batches(self._chosen, self.batch_samples):
            self.module(self._tensors(*(part[batch] for part in train))[0])
        for norm, momentum in zip(self.norms, momenta, strict=True):
            norm.momentum = momentum  # without one, each batch of a training that follows would wait for the device
            norm.eval()

    def _tensors(self, inputs: NDArray[Any], targets: NDArray[Any]) -> tuple[Tensor, Tensor]:
        """Inputs and targets with the pre-processing of held-out samples."""
        import torch

        seen = torch.from_numpy(self.batch_inputs(inputs, None))
        return self.place(seen), self.place(torch.from_numpy(targets))


def _slices(num_samples: int, size: int) -> Iterator[slice]:
    return (slice(start, min(start + size, num_samples)) for start in range(0, num_samples, size))
