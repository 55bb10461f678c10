"""Classification by PyTorch: cross-entropy, and accuracy on held-out samples."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

if TYPE_CHECKING:
    import torch
    from torch import Tensor


class CrossEntropy:
    """The loss of scores [N, classes] against targets int64 [N]."""

    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Summed over the samples, not averaged: updates weigh gradients by their samples."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(module(inputs), targets, reduction="sum")

    def torch_losses(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """The loss of each sample, [N]."""
        from torch.nn.functional import cross_entropy

        return cross_entropy(module(inputs), targets, reduction="none")


class Classification(CrossEntropy):
    """Evaluated in batches. Metrics: ``accuracy`` and ``loss``."""

    def torch_per_sample_stats(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """For each sample, whether the best class is right (0 or 1), and the loss: [batch, 2]."""
        import torch
        from torch.nn.functional import cross_entropy

        scores = module(inputs)
        hits = (scores.argmax(dim=1) == targets).float()
        return torch.stack([hits, cross_entropy(scores, targets, reduction="none")], dim=1)

    def metrics(self, stats: NDArray[Any]) -> dict[str, float]:
        """Accuracy and mean loss."""
        accuracy, loss = stats.mean(axis=0, dtype=np.float64)
        return {"accuracy": float(accuracy), "loss": float(loss)}
