"""Language models in Keras: words int64 [batch, length] to scores [batch, length, vocabulary].

Parameters have the order of the PyTorch ones and also their layout, since these layers are our own. See
:mod:`workloads.models.language`, which also defines initial values: nothing is drawn here.
"""

from __future__ import annotations

import math
from typing import Any

import keras
import tensorflow as tf

from workloads.models.language import LSTMSize, TransformerSize, positions

NORM_EPSILON = 1e-5
"""PyTorch's."""


class Linear(keras.layers.Layer):  # type: ignore[misc]  # Keras has no types
    """Along the last axis. Keras' own would transpose the output weights (27 MB) at every step."""

    def __init__(self, inputs: int, outputs: int) -> None:
        super().__init__()
        self.inputs, self.outputs = inputs, outputs
        self.weight = _zeros(self, "weight", outputs, inputs)
        self.bias = _zeros(self, "bias", outputs)
        self.built = True

    def call(self, x: Any) -> Any:
        """[batch, length, inputs] to [batch, length, outputs]; one matrix product for all positions."""
        places = tf.matmul(tf.reshape(x, [-1, self.inputs]), self.weight, transpose_b=True) + self.bias
        return tf.reshape(places, [-1, x.shape[1], self.outputs])


class Recurrence(keras.layers.Layer):  # type: ignore[misc]
    """One LSTM layer with zero initial state: [length, batch, inputs] to [length, batch, hidden].

    One operation for all steps, which is fast to trace (35 unrolled steps take a second); its gates have another order.
    (The gradient of its second version is wrong: it assumes the gate order of the first.)
    """

    def __init__(self, inputs: int, hidden: int) -> None:
        super().__init__()
        self.hidden = hidden
        self.weights_of_inputs = _zeros(self, "weight_ih", 4 * hidden, inputs)
        self.weights_of_states = _zeros(self, "weight_hh", 4 * hidden, hidden)
        self.biases = [_zeros(self, name, 4 * hidden) for name in ("bias_ih", "bias_hh")]
        self.built = True

    def call(self, x: Any) -> Any:
        weights = tf.concat([self.weights_of_inputs, self.weights_of_states], axis=1)
        state, no_peepholes = tf.zeros([tf.shape(x)[1], self.hidden]), tf.zeros([self.hidden])
        return tf.raw_ops.BlockLSTM(
            seq_len_max=tf.cast(tf.shape(x)[0], tf.int64),
            x=x,
            cs_prev=state,
            h_prev=state,
            w=tf.transpose(_cell_second(weights)),
            b=_cell_second(self.biases[0] + self.biases[1]),
            **dict.fromkeys(("wci", "wcf", "wco"), no_peepholes),
            forget_bias=0.0,
            cell_clip=0.0,
        ).h


class LSTM(keras.Model):  # type: ignore[misc]
    """Stacked LSTM; every sequence starts with a zero state."""

    def __init__(self, size: LSTMSize, words: int) -> None:
        super().__init__()
        self.embedding = _table(words, size.embedding)
        self.recurrences = [
            Recurrence(size.hidden if number else size.embedding, size.hidden) for number in range(size.layers)
        ]
        self.linear = Linear(size.hidden, words)
        self.dropout = keras.layers.Dropout(size.dropout)

    def call(self, words: Any, training: bool = False) -> Any:
        states = tf.transpose(self.embedding(words), (1, 0, 2))
        for recurrence in self.recurrences:
            states = recurrence(self.dropout(states, training=training))
        return self.linear(tf.transpose(self.dropout(states, training=training), (1, 0, 2)))


class Block(keras.layers.Layer):  # type: ignore[misc]
    """Causal self-attention and two linear layers, normalised after each residual: [batch, length, width]."""

    def __init__(self, size: TransformerSize) -> None:
        super().__init__()
        self.width, self.heads = size.width, size.heads
        self.packed, self.joined = Linear(size.width, 3 * size.width), Linear(size.width, size.width)
        self.wide, self.narrow = Linear(size.width, size.feedforward), Linear(size.feedforward, size.width)
        self.norms = [_norm(size.width) for _ in range(2)]
        self.dropout = keras.layers.Dropout(size.dropout)
        self.built = True

    def call(self, x: Any, training: bool = False) -> Any:
        x = self.norms[0](x + self.dropout(self._attention(x, training), training=training))
        inner = self.dropout(tf.nn.relu(self.wide(x)), training=training)
        return self.norms[1](x + self.dropout(self.narrow(inner), training=training))

    def _attention(self, x: Any, training: bool) -> Any:
        length, depth = x.shape[1], self.width // self.heads
        packed = tf.reshape(self.packed(x), [-1, length, 3, self.heads, depth])
        queries, keys, values = tf.unstack(tf.transpose(packed, (2, 0, 3, 1, 4)))
        seen = tf.linalg.band_part(tf.ones([length, length]), -1, 0) > 0
        scores = tf.where(seen, tf.matmul(queries, keys, transpose_b=True) / math.sqrt(depth), -math.inf)
        mixed = tf.matmul(self.dropout(tf.nn.softmax(scores), training=training), values)
        return self.joined(tf.reshape(tf.transpose(mixed, (0, 2, 1, 3)), [-1, length, self.width]))


class Transformer(keras.Model):  # type: ignore[misc]
    """Self-attention over each word and those before it."""

    def __init__(self, size: TransformerSize, words: int) -> None:
        super().__init__()
        self.width = size.width
        self.embedding = _table(words, size.width)
        self.blocks = [Block(size) for _ in range(size.layers)]
        self.linear = Linear(size.width, words)
        self.dropout = keras.layers.Dropout(size.dropout)

    def call(self, words: Any, training: bool = False) -> Any:
        places = tf.constant(positions(words.shape[1], self.width))
        states = self.dropout(self.embedding(words) * math.sqrt(self.width) + places, training=training)
        for block in self.blocks:
            states = block(states, training=training)
        return self.linear(states)


def language_module(size: LSTMSize | TransformerSize, words: int) -> Any:
    """The model for this type of size."""
    return LSTM(size, words) if isinstance(size, LSTMSize) else Transformer(size, words)


def _cell_second(gates: Any) -> Any:
    """Reorder the first axis from PyTorch's gates (input, forget, cell, output) to (input, cell, forget, output)."""
    into, forget, cell, out = tf.split(gates, 4)
    return tf.concat([into, cell, forget, out], axis=0)


def _zeros(layer: Any, name: str, *shape: int) -> Any:
    return layer.add_weight(shape=shape, initializer="zeros", name=name)


def _table(rows: int, width: int) -> Any:
    table = keras.layers.Embedding(rows, width, embeddings_initializer="zeros")
    table.build()
    return table


def _norm(width: int) -> Any:
    norm = keras.layers.LayerNormalization(epsilon=NORM_EPSILON)
    norm.build((None, None, width))
    return norm
