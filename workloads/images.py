"""Classification of images."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, final

from workloads.classification import Classification
from workloads.models.images import image_model
from workloads.models.initial import Initializer
from workloads.models.layers import Layers, count, independent_samples, initializers
from workloads.tasks import DatasetTask

if TYPE_CHECKING:
    import torch


@final
@dataclass(frozen=True, kw_only=True)
class Images(Classification, DatasetTask):
    """``model`` is one of ``workloads.models.images.MODELS``; ``width`` scales its channels. Metric: accuracy."""

    model: str
    width: float = 1.0

    def check(self) -> None:
        """Check that images have classes and are large enough."""
        if not 0 < self.width <= 16:
            raise ValueError(f"width={self.width}: must be more than 0 and at most 16")
        facts = self.dataset.facts
        if len(facts.input_shape) != 3 or not facts.num_classes:
            raise ValueError(f"dataset={self.dataset.name}: holds no images of classes; choose cifar10, for instance")
        self.layers()

    def layers(self) -> Layers:
        """The layers of ``model`` for the data set's images."""
        facts = self.dataset.facts
        return image_model(self.model, facts.input_shape, facts.num_classes, self.width)

    @property
    def num_parameters(self) -> int:
        return count(self.layers(), self.dataset.facts.input_shape)

    @property
    def independent_samples(self) -> bool:
        """Whether no layer couples samples, as batch normalisation does."""
        return independent_samples(self.layers())

    def initializers(self) -> list[Initializer]:
        """He et al.'s initialisation for convolutions, PyTorch's for linear layers."""
        return initializers(self.layers(), self.dataset.facts.input_shape)

    def torch_module(self) -> torch.nn.Module:
        """The layers in PyTorch; their parameters have no values yet."""
        from workloads.models.torch.images import build
        from workloads.models.torch.unfilled import Unfilled

        with Unfilled():
            return build(self.layers(), self.dataset.facts.input_shape)

    def tensorflow_module(self) -> Any:
        """Build the layers in Keras."""
        from workloads.models.tensorflow.images import build

        return build(self.layers(), self.dataset.facts.input_shape)

    def tensorflow_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Cross-entropy summed over the batch."""
        import tensorflow as tf

        scores = module(inputs, training=True)
        return tf.reduce_sum(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores))

    def tensorflow_losses(self, module: Any, inputs: Any, targets: Any) -> Any:
        """Cross-entropy of each sample, float32 [batch]."""
        import tensorflow as tf

        scores = module(inputs, training=True)
        return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores)

    def tensorflow_per_sample_stats(self, module: Any, inputs: Any, targets: Any) -> Any:
        """For each sample, whether the best class is right (0 or 1), and the loss: [batch, 2]."""
        import tensorflow as tf

        scores = module(inputs, training=False)
        hits = tf.cast(tf.equal(tf.argmax(scores, axis=1, output_type=targets.dtype), targets), tf.float32)
        return tf.stack([hits, tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores)], axis=1)
