"""Click models in Keras: rows [batch, fields] to scores [batch], parameters in the order of the PyTorch ones.

See :mod:`workloads.models.clicks`, which also defines initial values: nothing is drawn here.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import keras
import tensorflow as tf

from workloads.models.clicks import CROSS_FACTOR, Fields, WideDeepSize, XDeepFMSize


class WideDeep(keras.Model):  # type: ignore[misc]  # Keras has no types
    """Wide and deep part, trained together."""

    def __init__(self, size: WideDeepSize, fields: Fields) -> None:
        super().__init__()
        self.crosses, self.buckets, self.fields = [tuple(pair) for pair in size.crosses], size.cross_buckets, fields
        self.bias = self.add_weight(shape=(1,), initializer="zeros", name="bias")
        self.wide = _table(fields.features + len(self.crosses) * size.cross_buckets, 1)
        self.table = _table(sum(fields.cardinalities), size.embedding)
        self.deep = mlp(size.deep_inputs(fields), size.hidden)

    def call(self, rows: Any, training: bool = False) -> Any:
        dense, hashed, places = split(rows, self.fields)
        wide = linear_part(self.wide, dense, places)
        for number, (first, second) in enumerate(self.crosses):
            pair = (hashed[:, first] * CROSS_FACTOR + hashed[:, second]) % self.buckets
            wide += self.wide(pair + self.fields.features + number * self.buckets)[:, 0]
        embedded = tf.reshape(self.table(places), [-1, self.table.output_dim * self.fields.num_categorical])
        return wide + self.deep(tf.concat([dense, embedded], axis=1), training=training)[:, 0] + self.bias


class XDeepFM(keras.Model):  # type: ignore[misc]
    """Sum of a linear part, a compressed interaction network (CIN) and a deep network."""

    def __init__(self, size: XDeepFMSize, fields: Fields) -> None:
        super().__init__()
        self.fields = fields
        self.bias = self.add_weight(shape=(1,), initializer="zeros", name="bias")
        self.linear = _table(fields.features, 1)
        self.table = _table(fields.features, size.embedding)
        below = [fields.count, *size.cin]
        self.cin = [
            _dense(inputs * fields.count, maps, use_bias=False) for inputs, maps in zip(below, size.cin, strict=False)
        ]
        self.interactions = _dense(sum(size.cin), 1, use_bias=False)
        self.deep = mlp(fields.count * size.embedding, size.hidden, size.dropout)

    def call(self, rows: Any, training: bool = False) -> Any:
        dense, _, places = split(rows, self.fields)
        numbers = dense[:, :, None] * self.table(tf.range(self.fields.num_dense))
        embedded = tf.concat([numbers, self.table(places + self.fields.num_dense)], axis=1)
        explicit = self.interactions(self._interact(tf.transpose(embedded, (0, 2, 1))))
        deep = self.deep(tf.reshape(embedded, [-1, self.fields.count * self.table.output_dim]), training=training)
        return linear_part(self.linear, dense, places) + (explicit + deep)[:, 0] + self.bias

    def _interact(self, embedded: Any) -> Any:
        """[batch, embedding, fields] to the sums of all feature maps [batch, maps of all layers]."""
        maps, sums = embedded, []
        for layer in self.cin:
            pairs = maps[:, :, :, None] * embedded[:, :, None, :]
            inputs, width = maps.shape[2] * embedded.shape[2], embedded.shape[1]
            maps = tf.reshape(layer(tf.reshape(pairs, [-1, inputs])), [-1, width, layer.units])
            sums.append(tf.reduce_sum(maps, axis=1))
        return tf.concat(sums, axis=1)


def split(rows: Any, fields: Fields) -> tuple[Any, Any, Any]:
    """Numbers, float32 [batch, num_dense]; ids, int64 [batch, num_categorical], offset into the categories' table."""
    dense, hashed = rows[:, : fields.num_dense], tf.cast(rows[:, fields.num_dense :], tf.int64)
    return tf.cast(dense, tf.float32), hashed, hashed + tf.constant(fields.offsets, tf.int64)


def linear_part(table: Any, dense: Any, places: Any) -> Any:
    """The linear part, [batch]; the table's first rows are for the numbers."""
    count = dense.shape[1]
    numbers = tf.linalg.matvec(dense, table(tf.range(count))[:, 0])
    return numbers + tf.reduce_sum(table(places + count)[:, :, 0], axis=1)


def mlp(inputs: int, hidden: Sequence[int], dropout: float = 0.0) -> Any:
    """ReLU layers and one output without bias, since the sum of the parts has one."""
    layers = [keras.Input((inputs,))]
    for into, out in pairwise([inputs, *hidden]):
        layers += [_dense(into, out, activation="relu")]
        layers += [keras.layers.Dropout(dropout)] if dropout else []
    return keras.Sequential([*layers, _dense([inputs, *hidden][-1], 1, use_bias=False)])


def click_module(size: WideDeepSize | XDeepFMSize, fields: Fields) -> Any:
    """The model for this type of size."""
    return WideDeep(size, fields) if isinstance(size, WideDeepSize) else XDeepFM(size, fields)


def _table(rows: int, width: int) -> Any:
    table = keras.layers.Embedding(rows, width, embeddings_initializer="zeros")
    table.build()
    return table


def _dense(inputs: int, units: int, **more: Any) -> Any:
    dense = keras.layers.Dense(units, kernel_initializer="zeros", **more)
    dense.build((None, inputs))
    return dense
