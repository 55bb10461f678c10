"""Image models by name."""

from __future__ import annotations

from collections.abc import Callable

from workloads.models import alexnet, densenet, googlenet, mobilenet, resnet, vgg
from workloads.models.layers import Conv, Flatten, Layers, Linear, Relu, Shape, scale_channels, shape_after

CIFAR_PX = 64
"""Largest image side (pixels) that gets a model's CIFAR form; larger images get its ImageNet form."""

Maker = Callable[[int, float], Layers]
"""Maps (classes, width factor) to layers."""


def cnn(classes: int, width: float = 1.0) -> Layers:
    """Two convolutions and a linear layer, without normalisation: small, for comparing frameworks."""
    first, second = scale_channels(16, width), scale_channels(32, width)
    return (Conv(first, 3, 2, bias=True), Relu(), Conv(second, 3, 2, bias=True), Relu(), Flatten(), Linear(classes))


MODELS: dict[str, tuple[Maker, Maker]] = {
    "alexnet": (alexnet.cifar, alexnet.imagenet),
    "cnn": (cnn, cnn),
    "densenet121": (densenet.cifar, densenet.imagenet),
    "googlenet": (googlenet.cifar, googlenet.imagenet),
    "mobilenet": (
        lambda classes, width: mobilenet.layers(classes, width, stem_stride=1),
        lambda classes, width: mobilenet.layers(classes, width),
    ),
    "resnet20": ((lambda classes, width: resnet.cifar(20, classes, width)),) * 2,
    "resnet34": ((lambda classes, width: resnet.imagenet(34, classes, width)),) * 2,
    "resnet56": ((lambda classes, width: resnet.cifar(56, classes, width)),) * 2,
    "resnet101": ((lambda classes, width: resnet.imagenet(101, classes, width)),) * 2,
    "vgg13": (
        lambda classes, width: vgg.layers(13, classes, width),
        lambda classes, width: vgg.layers(13, classes, width, vgg.HIDDEN),
    ),
    "vgg16": (
        lambda classes, width: vgg.layers(16, classes, width),
        lambda classes, width: vgg.layers(16, classes, width, vgg.HIDDEN),
    ),
}
"""Builders by name: (small images, large images)."""


def image_model(name: str, shape: Shape, classes: int, width: float = 1.0) -> Layers:
    """The layers of a model for images of ``shape`` (channels, height, width); raises ``ValueError``."""
    if name not in MODELS:
        raise ValueError(f"model={name}: must be one of {', '.join(MODELS)}")
    layers = MODELS[name][max(shape[1:]) > CIFAR_PX](classes, width)
    try:
        shape_after(layers, shape)
    except ValueError as error:
        raise ValueError(f"model={name}: images of {shape[1]} x {shape[2]} are too small for it ({error})") from None
    return layers
