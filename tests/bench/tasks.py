"""The benchmark's models as a workload of ours: the same modules and random batches that the peers compute."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from workloads.data import Split

if TYPE_CHECKING:
    import torch
    from torch import Tensor


ROUNDS = 10
"""Iterations of an epoch: an epoch's own cost (its shuffle, its notes) is part of training, but not of every step."""


@dataclass(frozen=True, kw_only=True)
class BenchTask:
    """One batch of ``models.BATCH`` samples for each of ``num_workers``, ``ROUNDS`` times over in every epoch."""

    model: str
    num_workers: int

    def preload(self) -> list[str]:
        """The module that defines the networks."""
        import bench.models  # noqa: F401

        return []

    def load(self) -> Split:
        """Inputs and labels of all ranks, one after another."""
        from bench import models

        batches = [models.batch(self.model, rank) for rank in range(self.num_workers)]
        inputs, labels = (np.concatenate([batch[part].numpy() for batch in batches] * ROUNDS) for part in (0, 1))
        return Split(train=(inputs, labels), test=(inputs, labels))

    def torch_module(self) -> torch.nn.Module:
        from bench import models

        return models.build(self.model)

    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        from torch.nn.functional import cross_entropy

        return cross_entropy(module(inputs), targets, reduction="sum")

    def torch_metrics(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> dict[str, float]:
        return {}

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        from bench import models

        parameters = models.build(self.model).parameters()
        return np.concatenate([parameter.detach().numpy().ravel() for parameter in parameters])

    def tensorflow_module(self) -> Any:
        """The same network in Keras; of the MLPs only."""
        from keras import Input, Sequential, layers
        from torch import nn

        from bench import models

        widths = [layer.out_features for layer in models.build(self.model) if isinstance(layer, nn.Linear)]
        hidden = [layers.Dense(width, activation="relu") for width in widths[:-1]]
        return Sequential([Input(models.MODELS[self.model][1]), *hidden, layers.Dense(widths[-1])])

    def tensorflow_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        import tensorflow as tf

        scores = module(inputs, training=True)
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores))

    def tensorflow_metrics(self, module: Any, inputs: Any, targets: Any) -> dict[str, Any]:
        return {}
