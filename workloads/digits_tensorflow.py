"""The networks of :mod:`workloads.digits` in Keras: the same layers, the same parameters in the same order."""

from __future__ import annotations

from typing import Any


def network(model: str, hidden_units: int) -> Any:
    """A Keras model from float32 [N, 64] to scores [N, 10]."""
    from keras import Input, Sequential, layers

    if model == "mlp":
        return Sequential([Input((64,)), layers.Dense(hidden_units, activation="relu"), layers.Dense(10)])
    return Sequential(
        [
            Input((64,)),
            layers.Reshape((8, 8, 1)),
            layers.Conv2D(16, 3, padding="same", activation="relu"),
            layers.ZeroPadding2D(1),  # padding="same" with a stride would pad one side only
            layers.Conv2D(hidden_units, 3, strides=2, activation="relu"),
            layers.Permute((3, 1, 2)),  # channels first, like the rows of the next kernel
            layers.Flatten(),
            layers.Dense(10),
        ]
    )


def cross_entropy(scores: Any, targets: Any) -> Any:
    """Cross-entropy of each sample, float32 [N]."""
    import tensorflow as tf

    return tf.nn.sparse_softmax_cross_entropy_with_logits(labels=targets, logits=scores)


def classification_metrics(scores: Any, targets: Any) -> dict[str, Any]:
    """Accuracy and mean loss, scalar tensors."""
    import tensorflow as tf

    hits = tf.equal(tf.argmax(scores, axis=1), tf.cast(targets, tf.int64))
    return {
        "accuracy": tf.reduce_mean(tf.cast(hits, tf.float32)),
        "loss": tf.reduce_mean(cross_entropy(scores, targets)),
    }
