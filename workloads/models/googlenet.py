"""GoogLeNet (Szegedy et al., "Going deeper with convolutions", CVPR 2015), with batch normalisation instead of biases.

Without the auxiliary classifiers.
"""

from __future__ import annotations

from typing import NamedTuple

from workloads.models.layers import (
    Concat,
    Conv,
    Dropout,
    GlobalPool,
    Layers,
    Linear,
    MaxPool,
    Norm,
    Relu,
    scale_channels,
)


class Inception(NamedTuple):
    """Channels of one module, in the columns of table 1."""

    one: int
    three_reduce: int
    three: int
    five_reduce: int
    five: int
    pool: int


STAGES = (
    (Inception(64, 96, 128, 16, 32, 32), Inception(128, 128, 192, 32, 96, 64)),
    (
        Inception(192, 96, 208, 16, 48, 64),
        Inception(160, 112, 224, 24, 64, 64),
        Inception(128, 128, 256, 24, 64, 64),
        Inception(112, 144, 288, 32, 64, 64),
        Inception(256, 160, 320, 32, 128, 128),
    ),
    (Inception(256, 160, 320, 32, 128, 128), Inception(384, 192, 384, 48, 128, 128)),
)
"""Table 1: modules 3a-3b, 4a-4e, 5a-5b; stages are separated by pooling."""
STEM = (64, 64, 192)
DROPOUT_FRAC = 0.2
"""Torchvision's dropout; the paper's 0.4 belongs to its auxiliary losses."""


def imagenet(classes: int, width: float = 1.0, wide_kernel: int = 5) -> Layers:
    """224 pixels. ``wide_kernel`` 5 is the paper's; torchvision has 3 there, by a mistake that it keeps."""
    first, second, third = (scale_channels(channels, width) for channels in STEM)
    stem = (*_conv(first, 7, 2), MaxPool(3, 2, 1), *_conv(second, 1), *_conv(third, 3), MaxPool(3, 2, 1))
    return (*stem, *_stages(width, wide_kernel), GlobalPool(), Dropout(DROPOUT_FRAC), Linear(classes))


def cifar(classes: int, width: float = 1.0, wide_kernel: int = 5) -> Layers:
    """32 pixels: the stem is one 3x3 convolution with as many channels, and there is no dropout."""
    stem = _conv(scale_channels(STEM[-1], width), 3)
    return (*stem, *_stages(width, wide_kernel), GlobalPool(), Linear(classes))


def _stages(width: float, wide_kernel: int) -> Layers:
    found: Layers = ()
    for index, modules in enumerate(STAGES):
        found += (MaxPool(3, 2, 1),) if index else ()
        found += tuple(_inception(sizes, width, wide_kernel) for sizes in modules)
    return found


def _inception(sizes: Inception, width: float, wide_kernel: int) -> Concat:
    one, three_reduce, three, five_reduce, five, pool = (scale_channels(channels, width) for channels in sizes)
    return Concat(
        (
            _conv(one, 1),
            (*_conv(three_reduce, 1), *_conv(three, 3)),
            (*_conv(five_reduce, 1), *_conv(five, wide_kernel)),
            (MaxPool(3, 1, 1), *_conv(pool, 1)),
        )
    )


def _conv(channels: int, kernel: int, stride: int = 1) -> Layers:
    return (Conv(channels, kernel, stride), Norm(), Relu())
