"""VGG (Simonyan and Zisserman, ICLR 2015), with batch normalisation."""

from __future__ import annotations

from workloads.models.layers import Conv, Dropout, Flatten, Layers, Linear, MaxPool, Norm, Relu, scale_channels

WIDTHS = (64, 128, 256, 512, 512)
REPEATS = {13: (2, 2, 2, 2, 2), 16: (2, 2, 3, 3, 3)}
"""Table 1, columns B and D: convolutions before each of the five poolings. They have biases, as in the paper."""
HIDDEN = (4096, 4096)
"""Hidden units of the ImageNet classifier. Images of 32 pixels leave 512 features for one linear layer."""
DROPOUT_FRAC = 0.5


def layers(depth: int, classes: int, width: float = 1.0, hidden: tuple[int, ...] = ()) -> Layers:
    """VGG-13 or -16; without ``hidden`` layers it is the form commonly used for CIFAR."""
    features: Layers = ()
    for channels, repeats in zip(WIDTHS, REPEATS[depth], strict=True):
        features += (Conv(scale_channels(channels, width), bias=True), Norm(), Relu()) * repeats + (MaxPool(2, 2),)
    classifier: Layers = ()
    for units in hidden:
        classifier += (Linear(scale_channels(units, width)), Relu(), Dropout(DROPOUT_FRAC))
    return (*features, Flatten(), *classifier, Linear(classes))
