"""Layers in Keras: images [batch, channels, height, width] are transposed once at the input.

Inside, channels are last, which TensorFlow needs on a CPU. Variables are created immediately, in the order of the
layers, and are zeros, since they are never read (docs/backends.md).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import keras
import tensorflow as tf

from workloads.models import layers as plain
from workloads.models.layers import Layer, Layers, Shape, shape_after


def build(layers: Layers, shape: Shape) -> Any:
    """The network for inputs of ``shape`` (channels first)."""
    return Network(layers, shape)


class Chain(keras.Layer):  # type: ignore[misc]  # Keras has no types
    """One layer after another, on maps [batch, height, width, channels] or features [batch, features]."""

    def __init__(self, layers: Layers, shape: Shape) -> None:
        super().__init__()
        self.links = []
        for layer in layers:
            self.links.append(MAKERS[type(layer)](layer, shape))
            shape = shape_after((layer,), shape)
        self.built = True

    def call(self, x: Any) -> Any:
        """The same, for the shape after the last layer."""
        for link in self.links:
            x = link(x)
        return x


class Network(Chain):
    """A chain for images with channels first."""

    def call(self, x: Any, training: bool = False) -> Any:
        """[batch, channels, height, width]; Keras passes ``training`` to every layer."""
        return super().call(tf.transpose(x, (0, 2, 3, 1)))


class Branches(keras.Layer):  # type: ignore[misc]
    """Several branches with the same input, summed or concatenated along the channels."""

    def __init__(self, branches: tuple[Layers, ...], shape: Shape, summed: bool) -> None:
        super().__init__()
        self.branches = [Chain(branch, shape) for branch in branches]
        self.summed = summed
        self.built = True

    def call(self, x: Any) -> Any:
        """Combine the branches' outputs for [batch, height, width, channels]."""
        ends = [branch(x) for branch in self.branches]
        return tf.add_n(ends) if self.summed else tf.concat(ends, axis=-1)


class Conv(keras.Layer):  # type: ignore[misc]
    """Convolution with explicit padding on all sides: Keras' "same" padding is uneven with strides."""

    def __init__(self, layer: plain.Conv, channels: int) -> None:
        super().__init__()
        size, name = (layer.kernel, layer.kernel), "depthwise_kernel" if layer.depthwise else "kernel"
        units = (channels, 1) if layer.depthwise else (channels, layer.channels)
        self.kernel = self.add_weight(shape=(*size, *units), initializer="zeros", name=name)
        self.bias = self.add_weight(shape=(layer.channels,), initializer="zeros", name="bias") if layer.bias else None
        self.strides, self.margins = (1, layer.stride, layer.stride, 1), margins(layer.margin)
        self.depthwise = layer.depthwise
        self.built = True

    def call(self, x: Any) -> Any:
        """Convolve [batch, height, width, channels]."""
        if self.depthwise:  # explicit padding and a bias make TensorFlow 2.21 abort
            found = tf.nn.depthwise_conv2d(tf.pad(x, self.margins), self.kernel, self.strides, "VALID")
        else:
            found = tf.nn.conv2d(x, self.kernel, self.strides, self.margins)
        return found if self.bias is None else tf.nn.bias_add(found, self.bias)


class Norm(keras.layers.BatchNormalization):  # type: ignore[misc]
    """Batch normalisation as in PyTorch: momentum 0.1, and running variances are unbiased (n - 1).

    One operation forward and one backward, where Keras' own uses one for every step of the formula.
    """

    def __init__(self, channels: int) -> None:
        super().__init__(momentum=0.9, epsilon=1e-5)
        self.build((None, None, None, channels))

    def call(self, x: Any, training: bool = False) -> Any:
        """Normalise [batch, height, width, channels]."""
        states = (self.moving_mean, self.moving_variance)
        found, *measured = tf.raw_ops.FusedBatchNormV3(  # tf.nn does not allow an epsilon below 1.001e-5
            x=x,
            scale=self.gamma,
            offset=self.beta,
            mean=states[0],
            variance=states[1],
            epsilon=self.epsilon,
            exponential_avg_factor=1 - self.momentum,
            is_training=training,
        )[:3]
        for state, new in zip(states, measured, strict=True) if training else ():
            state.assign(new)
        return found


def margins(width: int) -> list[list[int]]:
    """Padding of the axes of maps."""
    return [[0, 0], [width, width], [width, width], [0, 0]]


def _pool(pool: Callable[..., Any], kernel: int, stride: int, margin: Any = "VALID") -> Callable[[Any], Any]:
    return lambda x: pool(x, kernel, stride, margin)


def _skip(layer: plain.Skip, channels: int) -> Callable[[Any], Any]:
    """Drops pixels, and appends zero channels."""
    zeros = [[0, 0], [0, 0], [0, 0], [0, layer.channels - channels]]
    return lambda x: tf.pad(x[:, :: layer.stride, :: layer.stride], zeros)


def _to_channels_first(x: Any) -> Any:
    """To channels first, like the columns of the next kernel."""
    return tf.reshape(tf.transpose(x, (0, 3, 1, 2)), (-1, x.shape[1] * x.shape[2] * x.shape[3]))


def _dense(inputs: int, units: int) -> Any:
    dense = keras.layers.Dense(units, kernel_initializer="zeros")
    dense.build((None, inputs))
    return dense


MAKERS: dict[type[Layer], Callable[[Any, Shape], Callable[..., Any]]] = {
    plain.Conv: lambda layer, shape: Conv(layer, shape[0]),
    plain.Norm: lambda layer, shape: Norm(shape[0]),
    plain.Relu: lambda layer, shape: tf.nn.relu,
    plain.MaxPool: lambda layer, shape: _pool(
        tf.nn.max_pool2d, layer.kernel, layer.stride, margins(layer.padding) if layer.padding else "VALID"
    ),
    plain.AvgPool: lambda layer, shape: _pool(tf.nn.avg_pool2d, layer.kernel, layer.stride),
    plain.GlobalPool: lambda layer, shape: lambda x: tf.reduce_mean(x, axis=(1, 2)),
    plain.Flatten: lambda layer, shape: _to_channels_first,
    plain.Linear: lambda layer, shape: _dense(shape[0], layer.units),
    plain.Dropout: lambda layer, shape: keras.layers.Dropout(layer.frac),
    plain.Skip: lambda layer, shape: _skip(layer, shape[0]),
    plain.Sum: lambda layer, shape: Branches(layer.branches, shape, summed=True),
    plain.Concat: lambda layer, shape: Branches(layer.branches, shape, summed=False),
}
"""Maps a layer and the shape of its input (channels first) to its implementation."""
