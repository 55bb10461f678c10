"""Layout of Keras variables in the flat vector, whose canonical layout is PyTorch's (outputs first).

========================  ====================================  ==================
variable                  Keras                                 flat vector
========================  ====================================  ==================
dense kernel              [in, out]                             [out, in]
convolution kernel        [height, width, in, out]              [out, in, height, width]
depthwise kernel          [height, width, channels, 1]          [1, channels, height, width]
all others                unchanged                             unchanged
========================  ====================================  ==================

Kernels of recurrent layers are dense kernels. Variables are in the model's order, kernel before bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Axes = tuple[int, ...]


def native_axes(name: str, rank: int) -> Axes:
    """Permutation from the flat vector's axes to Keras' axes; empty if they are the same."""
    return (*range(2, rank), 1, 0) if name.endswith("kernel") and rank > 1 else ()


def stored_shape(shape: Axes, axes: Axes) -> Axes:
    """Shape in the flat vector of a variable with this Keras shape."""
    return tuple(shape[axes.index(axis)] for axis in range(len(axes))) if axes else shape


def canonical(value: NDArray[Any], axes: Axes) -> NDArray[Any]:
    """A variable's value as stored in the flat vector, 1-D."""
    return (np.transpose(value, np.argsort(axes)) if axes else value).ravel()
