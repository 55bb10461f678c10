"""Dropout in Keras, whose masks are drawn from a key of the step (:mod:`runtime.backends.masks`)."""

from __future__ import annotations

from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.backends.masks import mask_key

CALLS = 2**16
"""A generator's state is a pair of numbers. Every call of its layer increments the second one, so the states of
different layers start this far apart."""


@final
class Masks:
    """The random generators of ``module``'s layers. Their state is not part of the model's: each step resets it."""

    def __init__(self, module: Any, seed: int) -> None:
        self.seed = seed
        self.states = [one.state for layer in module._flatten_layers() for one in layer._seed_generators]

    def key(self, inputs: NDArray[Any]) -> np.int64:
        """Key of this micro-batch; 0 if nothing is dropped."""
        return np.int64(mask_key(self.seed, inputs) if self.states else 0)

    def begun(self, key: Any) -> list[tuple[Any, Any]]:
        """Every generator's state variable paired with the tensor that replaces it."""
        import tensorflow as tf

        return [
            (state, tf.stack([key, tf.constant(CALLS * number, key.dtype)])) for number, state in enumerate(self.states)
        ]

    def others(self, variables: list[Any]) -> list[Any]:
        """The variables that are not generator states."""
        own = {id(state) for state in self.states}
        return [variable for variable in variables if id(variable) not in own]
