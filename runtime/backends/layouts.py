"""How a Keras variable lies in the flat vector, whose canonical layout is PyTorch's (outputs first).

========================  ====================================  ==================
variable                  Keras                                 flat vector
========================  ====================================  ==================
dense kernel              [in, out]                             [out, in]
convolution kernel        [height, width, in, out]              [out, in, height, width]
depthwise kernel          [height, width, channels, 1]          [1, channels, height, width]
all others                as they are                           as they are
========================  ====================================  ==================

Kernels of recurrent layers are dense ones. The order of the variables is that of the model, kernel before bias.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

Axes = tuple[int, ...]


def native_axes(name: str, rank: int) -> Axes:
    """Permutation from the flat vector's axes to Keras'; empty: they are the same."""
    return (*range(2, rank), 1, 0) if name.endswith("kernel") and rank > 1 else ()


def stored_shape(shape: Axes, axes: Axes) -> Axes:
    """Shape in the flat vector of a variable of this shape."""
    return tuple(shape[axes.index(axis)] for axis in range(len(axes))) if axes else shape


def canonical(value: NDArray[Any], axes: Axes) -> NDArray[Any]:
    """A variable's value as it lies in the flat vector, 1-D."""
    return (np.transpose(value, np.argsort(axes)) if axes else value).ravel()
