"""AlexNet in its single-tower form (Krizhevsky, "One weird trick", arXiv:1404.5997): no normalisation."""

from __future__ import annotations

from workloads.models.layers import Conv, Dropout, Flatten, Layers, Linear, MaxPool, Relu, scale_channels

WIDTHS = (64, 192, 384, 256, 256)
KERNELS = (11, 5, 3, 3, 3)
POOLED = (True, True, False, False, True)
HIDDEN = (4096, 4096)
DROPOUT_FRAC = 0.5


def imagenet(classes: int, width: float = 1.0) -> Layers:
    """224 pixels: 6 x 6 maps and two hidden layers with dropout."""
    hidden: Layers = ()
    for units in HIDDEN:
        hidden += (Dropout(DROPOUT_FRAC), Linear(scale_channels(units, width)), Relu())
    return (*_features(width, padding=2, pool=3), Flatten(), *hidden, Linear(classes))


def cifar(classes: int, width: float = 1.0) -> Layers:
    """32 pixels: the same convolutions with wider padding and smaller pooling, one linear layer, no dropout."""
    return (*_features(width, padding=5, pool=2), Flatten(), Linear(classes))


def _features(width: float, padding: int, pool: int) -> Layers:
    found: Layers = ()
    for index, (channels, kernel) in enumerate(zip(WIDTHS, KERNELS, strict=True)):
        stride, margin = (4, padding) if index == 0 else (1, None)
        found += (Conv(scale_channels(channels, width), kernel, stride, margin, bias=True), Relu())
        found += (MaxPool(pool, 2),) if POOLED[index] else ()
    return found
