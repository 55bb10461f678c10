"""MobileNet v1 (Howard et al., arXiv:1704.04861): depthwise separable convolutions."""

from __future__ import annotations

from workloads.models.layers import Conv, GlobalPool, Layers, Linear, Norm, Relu, scale_channels

STEM = 32
BLOCKS = (
    (64, 1),
    (128, 2),
    (128, 1),
    (256, 2),
    (256, 1),
    (512, 2),
    *((512, 1),) * 5,
    (1024, 2),
    (1024, 1),
)
"""Table 1: channels and stride of each separable convolution. (The paper's last strides contradict its sizes.)"""


def layers(classes: int, width: float = 1.0, stem_stride: int = 2) -> Layers:
    """``width`` is the paper's multiplier alpha. For 32 pixels ``stem_stride`` is 1."""
    found: Layers = (Conv(scale_channels(STEM, width), 3, stem_stride), Norm(), Relu())
    channels = scale_channels(STEM, width)
    for out, stride in BLOCKS:
        found += (Conv(channels, 3, stride, depthwise=True), Norm(), Relu())
        channels = scale_channels(out, width)
        found += (Conv(channels, 1), Norm(), Relu())
    return (*found, GlobalPool(), Linear(classes))
