"""Residual networks (He et al., "Deep residual learning for image recognition", CVPR 2016)."""

from __future__ import annotations

from workloads.models.layers import Conv, GlobalPool, Layers, Linear, MaxPool, Norm, Relu, Skip, Sum, scale_channels

CIFAR_WIDTHS = (16, 32, 64)
"""Section 4.2: three stages of (depth - 2) / 6 blocks each on maps of 32, 16 and 8 pixels; shortcuts of option A."""
IMAGENET_WIDTHS = (64, 128, 256, 512)
IMAGENET_BLOCKS = {34: (3, 4, 6, 3), 101: (3, 4, 23, 3)}
"""Table 1. ResNet-34 has basic blocks, ResNet-101 bottlenecks; shortcuts are projected where shapes change (B)."""
EXPANSION = 4
"""Output channels of a bottleneck, relative to its width."""


def cifar(depth: int, classes: int, width: float = 1.0) -> Layers:
    """ResNet-20, -56, ... of 6n + 2 layers; ``width`` scales all channels."""
    widths = [scale_channels(channels, width) for channels in CIFAR_WIDTHS]
    blocks: Layers = ()
    channels = widths[0]
    for stage, target in enumerate(widths):
        for index in range((depth - 2) // 6):
            stride = 2 if stage and not index else 1
            shortcut: Layers = () if (stride, channels) == (1, target) else (Skip(target, stride),)
            blocks += (Sum((_basic(target, stride), shortcut)), Relu())
            channels = target
    return (Conv(widths[0]), Norm(), Relu(), *blocks, GlobalPool(), Linear(classes))


def imagenet(depth: int, classes: int, width: float = 1.0) -> Layers:
    """ResNet-34 or -101; a bottleneck's stride is in its 3x3 convolution."""
    widths = [scale_channels(channels, width) for channels in IMAGENET_WIDTHS]
    deep = depth > 34
    blocks: Layers = ()
    channels = widths[0]
    for stage, (inner, repeats) in enumerate(zip(widths, IMAGENET_BLOCKS[depth], strict=True)):
        target = inner * EXPANSION if deep else inner
        for index in range(repeats):
            stride = 2 if stage and not index else 1
            body = _bottleneck(inner, stride) if deep else _basic(inner, stride)
            shortcut: Layers = () if (stride, channels) == (1, target) else (Conv(target, 1, stride), Norm())
            blocks += (Sum((body, shortcut)), Relu())
            channels = target
    return (Conv(widths[0], 7, 2), Norm(), Relu(), MaxPool(3, 2, 1), *blocks, GlobalPool(), Linear(classes))


def _basic(channels: int, stride: int) -> Layers:
    return (Conv(channels, 3, stride), Norm(), Relu(), Conv(channels), Norm())


def _bottleneck(channels: int, stride: int) -> Layers:
    last = Conv(channels * EXPANSION, 1)
    return (Conv(channels, 1), Norm(), Relu(), Conv(channels, 3, stride), Norm(), Relu(), last, Norm())
