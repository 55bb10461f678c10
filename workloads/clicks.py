"""Prediction of clicks and other binary events from numbers and categories."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from workloads.metrics import auc
from workloads.models.clicks import Fields, WideDeepSize, XDeepFMSize, click_initializers
from workloads.models.initial import Initializer
from workloads.tasks import DatasetTask

if TYPE_CHECKING:
    import torch
    from torch import Tensor


@final
@dataclass(frozen=True, kw_only=True)
class Clicks(DatasetTask):
    """The type of ``size`` determines the model. Metric: AUC, the area under the ROC curve."""

    size: Any

    def check(self) -> None:
        """Check that the data have categories, and that crosses name existing fields."""
        if not isinstance(self.size, WideDeepSize | XDeepFMSize):
            raise ValueError("size: must be a WideDeepSize or an XDeepFMSize of workloads.models.clicks")
        count = len(self.dataset.facts.cardinalities)
        if not count:
            raise ValueError(f"dataset={self.dataset.name}: has no categories; choose planted, for instance")
        for pair in getattr(self.size, "crosses", ()):
            if len(pair) != 2 or not all(0 <= place < count for place in pair):
                raise ValueError(f"size: crosses={list(pair)} is no pair of categorical fields, 0 to {count - 1}")

    @property
    def fields(self) -> Fields:
        """The numbers and categorical fields of an input row."""
        facts = self.dataset.facts
        return Fields(num_dense=facts.num_dense, cardinalities=tuple(facts.cardinalities))

    @property
    def num_parameters(self) -> int:
        return self.size.count(self.fields)  # type: ignore[no-any-return]

    @property
    def independent_samples(self) -> bool:
        """True unless dropout is used."""
        return not getattr(self.size, "dropout", 0.0)

    def initializers(self) -> list[Initializer]:
        return click_initializers(self.size, self.fields)

    def torch_module(self) -> torch.nn.Module:
        """The Wide & Deep or xDeepFM model; its parameters have no values yet."""
        from workloads.models.torch.clicks import click_module
        from workloads.models.torch.unfilled import Unfilled

        with Unfilled():
            return click_module(self.size, self.fields)

    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        from torch.nn.functional import binary_cross_entropy_with_logits

        return binary_cross_entropy_with_logits(module(inputs), targets.float(), reduction="sum")

    def torch_losses(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        from torch.nn.functional import binary_cross_entropy_with_logits

        return binary_cross_entropy_with_logits(module(inputs), targets.float(), reduction="none")

    def torch_per_sample_stats(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Score, loss and label of each sample, float32 [batch, 3]."""
        import torch
        from torch.nn.functional import binary_cross_entropy_with_logits

        scores, happened = module(inputs), targets.float()
        losses = binary_cross_entropy_with_logits(scores, happened, reduction="none")
        return torch.stack([scores, losses, happened], dim=1)

    def tensorflow_module(self) -> Any:
        """The Wide & Deep or xDeepFM model."""
        from workloads.models.tensorflow.clicks import click_module

        return click_module(self.size, self.fields)

    def tensorflow_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        import tensorflow as tf

        happened = tf.cast(targets, tf.float32)
        scores = module(inputs, training=True)
        return tf.reduce_sum(tf.nn.sigmoid_cross_entropy_with_logits(labels=happened, logits=scores))

    def tensorflow_losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        import tensorflow as tf

        happened = tf.cast(targets, tf.float32)
        return tf.nn.sigmoid_cross_entropy_with_logits(labels=happened, logits=module(inputs, training=True))

    def tensorflow_per_sample_stats(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Score, loss and label of each sample, float32 [batch, 3]."""
        import tensorflow as tf

        scores, happened = module(inputs, training=False), tf.cast(targets, tf.float32)
        losses = tf.nn.sigmoid_cross_entropy_with_logits(labels=happened, logits=scores)
        return tf.stack([scores, losses, happened], axis=1)

    def metrics(self, stats: NDArray[Any]) -> dict[str, float]:
        """AUC (NaN if all samples have the same label) and mean loss."""
        scores, losses, happened = stats.T
        return {"auc": auc(scores, happened), "loss": float(losses.mean(dtype=np.float64))}
