"""DenseNet-121 (Huang et al., "Densely connected convolutional networks", CVPR 2017): form BC, compression 0.5."""

from __future__ import annotations

from workloads.models.layers import (
    AvgPool,
    Concat,
    Conv,
    GlobalPool,
    Layers,
    Linear,
    MaxPool,
    Norm,
    Relu,
    scale_channels,
)

GROWTH = 32
BLOCKS = (6, 12, 24, 16)
"""Table 1: number of layers of the four dense blocks."""
BOTTLENECK = 4
"""Channels between the 1x1 and the 3x3 convolution, relative to the growth rate."""
COMPRESSION = 2
"""A transition halves the channels."""


def imagenet(classes: int, width: float = 1.0) -> Layers:
    """The form for 224 pixels."""
    return (Conv(2 * scale_channels(GROWTH, width), 7, 2), Norm(), Relu(), MaxPool(3, 2, 1), *_blocks(classes, width))


def cifar(classes: int, width: float = 1.0) -> Layers:
    """32 pixels: the stem is one 3x3 convolution."""
    return (Conv(2 * scale_channels(GROWTH, width)), *_blocks(classes, width))


def _blocks(classes: int, width: float) -> Layers:
    growth = scale_channels(GROWTH, width)
    found: Layers = ()
    channels = 2 * growth
    for index, repeats in enumerate(BLOCKS):
        found += (Concat(((), _layer(growth))),) * repeats
        channels += repeats * growth
        if index < len(BLOCKS) - 1:
            channels //= COMPRESSION
            found += (Norm(), Relu(), Conv(channels, 1), AvgPool(2, 2))
    return (*found, Norm(), Relu(), GlobalPool(), Linear(classes))


def _layer(growth: int) -> Layers:
    return (Norm(), Relu(), Conv(BOTTLENECK * growth, 1), Norm(), Relu(), Conv(growth))
