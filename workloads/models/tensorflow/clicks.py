"""Wide & Deep in Keras: rows [batch, fields] to scores [batch], parameters in the order of the PyTorch one.

See :mod:`workloads.models.clicks`.
"""

from __future__ import annotations

from typing import Any

import keras
import tensorflow as tf

from workloads.models.clicks import CROSS_FACTOR, INIT_STD, Fields, WideDeepSize, XDeepFMSize


class WideDeep(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Wide and deep part, trained together."""

    def __init__(self, size: WideDeepSize, fields: Fields) -> None:
        super().__init__()
        self.crosses, self.buckets, self.fields = [tuple(pair) for pair in size.crosses], size.cross_buckets, fields
        self.bias = self.add_weight(shape=(1,), initializer="zeros", name="bias")
        self.wide = _table(fields.features + len(self.crosses) * size.cross_buckets, 1)
        self.table = _table(sum(fields.cardinalities), size.embedding)
        widths = [size.deep_inputs(fields), *size.hidden]
        hidden = [_dense(into, out, activation="relu") for into, out in zip(widths, size.hidden, strict=False)]
        self.deep = keras.Sequential([keras.Input((widths[0],)), *hidden, _dense(widths[-1], 1, use_bias=False)])

    def call(self, rows: Any, training: bool = False) -> Any:
        """See the module."""
        count = self.fields.num_dense
        dense, hashed = tf.cast(rows[:, :count], tf.float32), tf.cast(rows[:, count:], tf.int64)
        places = hashed + tf.constant(self.fields.starts, tf.int64)
        numbers = tf.linalg.matvec(dense, self.wide(tf.range(count))[:, 0])
        wide = numbers + tf.reduce_sum(self.wide(places + count)[:, :, 0], axis=1)
        for number, (first, second) in enumerate(self.crosses):
            pair = (hashed[:, first] * CROSS_FACTOR + hashed[:, second]) % self.buckets
            wide += self.wide(pair + self.fields.features + number * self.buckets)[:, 0]
        embedded = tf.reshape(self.table(places), [-1, self.table.output_dim * self.fields.num_categorical])
        return wide + self.deep(tf.concat([dense, embedded], axis=1), training=training)[:, 0] + self.bias


def click_module(size: WideDeepSize | XDeepFMSize, fields: Fields) -> Any:
    """The model of that kind of size; raises ``ValueError`` for one that is not written in Keras."""
    if not isinstance(size, WideDeepSize):
        raise ValueError(f"size: {type(size).__name__} has no model in TensorFlow; use backend=torch")
    return WideDeep(size, fields)


def _table(rows: int, width: int) -> Any:
    table = keras.layers.Embedding(rows, width, embeddings_initializer=keras.initializers.RandomNormal(stddev=INIT_STD))
    table.build()
    return table


def _dense(inputs: int, units: int, **more: Any) -> Any:
    """Drawn uniformly within 1/sqrt(inputs), as PyTorch does (other numbers of the same distribution)."""
    bound = inputs**-0.5
    draws = [keras.initializers.RandomUniform(-bound, bound) for _ in range(2)]
    return keras.layers.Dense(units, kernel_initializer=draws[0], bias_initializer=draws[1], **more)
