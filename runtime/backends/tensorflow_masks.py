"""Dropout in Keras, whose masks are drawn by a key of the step (:mod:`runtime.backends.masks`)."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.backends.masks import mask_key

CALLS = 2**16
"""A state is a pair of numbers; the second goes up with every call of its layer, those of layers start so far apart."""


@final
class Masks:
    """The random generators of ``module``'s layers. Their state is no state of the model: each step gives it anew."""

    def __init__(self, module: Any, seed: int) -> None:
        self.seed = seed
        self.states = [one.state for layer in module._flatten_layers() for one in layer._seed_generators]

    def key(self, inputs: NDArray[Any]) -> np.int64:
        """Of this micro-batch; 0 where nothing is dropped."""
        return np.int64(mask_key(self.seed, inputs) if self.states else 0)

    def begun(self, key: Any) -> list[tuple[Any, Any]]:
        """Every generator's state with the tensor that takes its place."""
        import tensorflow as tf

        return [
            (state, tf.stack([key, tf.constant(CALLS * number, key.dtype)])) for number, state in enumerate(self.states)
        ]

    def others(self, variables: list[Any]) -> list[Any]:
        """Those of the variables that are no states of generators."""
        own = {id(state) for state in self.states}
        return [variable for variable in variables if id(variable) not in own]
