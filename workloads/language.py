"""Language modelling: the next word at every position of a sequence. A sample is a sequence."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

import numpy as np
from numpy.typing import NDArray

from workloads.metrics import perplexity
from workloads.models.initial import Initializer
from workloads.models.language import LSTMSize, TransformerSize, language_initializers
from workloads.tasks import DatasetTask

if TYPE_CHECKING:
    import torch
    from torch import Tensor

SEQUENCES_AT_ONCE = 16
"""Samples per evaluation batch: scores of 35 positions for 33,278 words take 4.7 MB per sequence."""


@final
@dataclass(frozen=True, kw_only=True)
class Language(DatasetTask):
    """The type of ``size`` determines the model. A sample's loss is the mean over its positions. Metric: perplexity."""

    size: Any

    def check(self) -> None:
        """Check that the data are text."""
        if not isinstance(self.size, LSTMSize | TransformerSize):
            raise ValueError("size: must be an LSTMSize or a TransformerSize of workloads.models.language")
        if not self.dataset.facts.vocabulary:
            raise ValueError(f"dataset={self.dataset.name}: holds no text; choose wikitext2, for instance")

    @property
    def num_parameters(self) -> int:
        return self.size.count(self.dataset.facts.vocabulary)  # type: ignore[no-any-return]

    @property
    def independent_samples(self) -> bool:
        """True unless dropout is used."""
        return not getattr(self.size, "dropout", 0.0)

    @property
    def masks_of_device(self) -> str:
        """The layer whose dropout masks a device would draw itself; empty: there is none."""
        if not getattr(self.size, "dropout", 0.0):
            return ""
        if isinstance(self.size, TransformerSize):
            return "attention (nn.MultiheadAttention)"
        return "nn.LSTM" if self.size.layers > 1 else ""

    def initializers(self) -> list[Initializer]:
        return language_initializers(self.size, self.dataset.facts.vocabulary)

    def torch_module(self) -> torch.nn.Module:
        """The LSTM or Transformer; its parameters have no values yet."""
        from workloads.models.torch.language import language_module
        from workloads.models.torch.unfilled import Unfilled

        with Unfilled():
            return language_module(self.size, self.dataset.facts.vocabulary)

    def torch_loss(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy, summed over sequences and averaged over their positions."""
        from torch.nn.functional import cross_entropy

        scores = module(inputs).flatten(0, 1)
        return cross_entropy(scores, targets.flatten(), reduction="sum") / targets.shape[1]

    def torch_losses(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        """Cross-entropy of each sequence, averaged over its positions."""
        from torch.nn.functional import cross_entropy

        losses = cross_entropy(module(inputs).flatten(0, 1), targets.flatten(), reduction="none")
        return losses.view(targets.shape).mean(dim=1)

    def torch_per_sample_stats(self, module: torch.nn.Module, inputs: Tensor, targets: Tensor) -> Tensor:
        import torch
        from torch.nn.functional import cross_entropy

        losses = []
        for start in range(0, len(inputs), SEQUENCES_AT_ONCE):
            some = slice(start, start + SEQUENCES_AT_ONCE)
            losses.append(cross_entropy(module(inputs[some]).flatten(0, 1), targets[some].flatten(), reduction="none"))
        return torch.cat(losses).view(targets.shape).mean(dim=1, keepdim=True)

    def tensorflow_module(self) -> Any:
        """Build the LSTM or Transformer in Keras."""
        from workloads.models.tensorflow.language import language_module

        return language_module(self.size, self.dataset.facts.vocabulary)

    def tensorflow_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Cross-entropy, summed over sequences and averaged over their positions."""
        import tensorflow as tf

        scores = module(inputs, training=True)
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores)
        return tf.reduce_sum(losses) / targets.shape[1]

    def tensorflow_losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Cross-entropy of each sequence, averaged over its positions."""
        import tensorflow as tf

        scores = module(inputs, training=True)
        return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores), axis=1)

    def tensorflow_per_sample_stats(self, module: Any, inputs: Any, targets: Any) -> Any:
        """The loss of every sequence, float32 [batch, 1]."""
        import tensorflow as tf

        def some(done: Any, losses: Any) -> tuple[Any, Any]:
            rows = slice(done * SEQUENCES_AT_ONCE, (done + 1) * SEQUENCES_AT_ONCE)
            scores = module(inputs[rows], training=False)
            own = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets[rows], logits=scores)
            return done + 1, losses.write(done, tf.reduce_mean(own, axis=1, keepdims=True))

        count = (tf.shape(inputs)[0] + SEQUENCES_AT_ONCE - 1) // SEQUENCES_AT_ONCE
        losses = tf.TensorArray(tf.float32, count, infer_shape=False, element_shape=[None, 1])
        begun = (tf.constant(0), losses)
        return tf.while_loop(lambda done, _: done < count, some, begun, parallel_iterations=1)[1].concat()

    def metrics(self, stats: NDArray[Any]) -> dict[str, float]:
        """Perplexity, the exponential of the mean loss."""
        total = float(stats.sum(dtype=np.float64))
        return {"perplexity": perplexity(total, len(stats)), "loss": total / len(stats)}
