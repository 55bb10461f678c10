"""Layers in PyTorch: images [batch, channels, height, width]."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, cast

import torch
from torch import Tensor, nn
from torch.nn import functional

from workloads.models import layers as plain
from workloads.models.layers import Layer, Layers, Shape, shape_after


def build(layers: Layers, shape: Shape) -> nn.Sequential:
    """The network for inputs of ``shape``; initial values are defined by ``layers.initializers``."""
    modules = []
    for layer in layers:
        modules.append(MAKERS[type(layer)](layer, shape))
        shape = shape_after((layer,), shape)
    return nn.Sequential(*modules)


class Branches(nn.Module):
    """Several branches with the same input, summed or concatenated along the channels."""

    def __init__(self, branches: tuple[Layers, ...], shape: Shape, summed: bool) -> None:
        super().__init__()
        self.branches = nn.ModuleList(build(branch, shape) for branch in branches)
        self.summed = summed

    def forward(self, x: Tensor) -> Tensor:
        """Combine the branches' outputs for [batch, channels, height, width]."""
        ends = [branch(x) for branch in self.branches]
        return cast(Tensor, sum(ends[1:], ends[0])) if self.summed else torch.cat(ends, dim=1)


class Skip(nn.Module):
    """A shortcut without parameters (:class:`workloads.models.layers.Skip`)."""

    def __init__(self, new_channels: int, stride: int) -> None:
        super().__init__()
        self.new_channels, self.stride = new_channels, stride

    def forward(self, x: Tensor) -> Tensor:
        """Drops pixels, and appends zero channels."""
        kept = x[:, :, :: self.stride, :: self.stride]
        return functional.pad(kept, (0, 0, 0, 0, 0, self.new_channels))


def _conv(layer: plain.Conv, channels: int) -> nn.Conv2d:
    groups = channels if layer.depthwise else 1
    return nn.Conv2d(channels, layer.channels, layer.kernel, layer.stride, layer.margin, groups=groups, bias=layer.bias)


MAKERS: dict[type[Layer], Callable[[Any, Shape], nn.Module]] = {
    plain.Conv: lambda layer, shape: _conv(layer, shape[0]),
    plain.Norm: lambda layer, shape: nn.BatchNorm2d(shape[0]),
    plain.Relu: lambda layer, shape: nn.ReLU(inplace=True),
    plain.MaxPool: lambda layer, shape: nn.MaxPool2d(layer.kernel, layer.stride, layer.padding),
    plain.AvgPool: lambda layer, shape: nn.AvgPool2d(layer.kernel, layer.stride),
    plain.GlobalPool: lambda layer, shape: nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten()),
    plain.Flatten: lambda layer, shape: nn.Flatten(),
    plain.Linear: lambda layer, shape: nn.Linear(shape[0], layer.units),
    plain.Dropout: lambda layer, shape: nn.Dropout(layer.frac),
    plain.Skip: lambda layer, shape: Skip(layer.channels - shape[0], layer.stride),
    plain.Sum: lambda layer, shape: Branches(layer.branches, shape, summed=True),
    plain.Concat: lambda layer, shape: Branches(layer.branches, shape, summed=False),
}
"""Maps a layer and the shape of its input to a module."""
