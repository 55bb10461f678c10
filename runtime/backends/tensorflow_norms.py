"""Statistics of batch normalisation in Keras, measured again at every evaluation.

Parameters are sent over the network, statistics are not: they are local to a process, and the evaluator never trains.
So they are computed as the mean over batches of training samples that are the same in every process at all times.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any, final

import numpy as np
from numpy.typing import NDArray

from runtime.backends.calibration import calibration_samples, whole_batches

Cut = Callable[[Any], list[tuple[Any, Any]]]
"""Maps the flat tensor to pairs of every variable with the tensor that replaces it."""


@final
class Norms:
    """The batch-normalisation layers of ``module``, if any."""

    def __init__(self, module: Any, cut: Cut, batch_samples: int, num_samples: int) -> None:
        import keras

        layers = list(module._flatten_layers())
        self.norms = [one for one in layers if isinstance(one, keras.layers.BatchNormalization)]
        self.droppers = [one for one in layers if hasattr(one, "rate")]
        self.states = [state for norm in self.norms for state in (norm.moving_mean, norm.moving_variance)]
        self.module, self.cut, self.batch_samples, self.num_samples = module, cut, batch_samples, num_samples
        self._measure: Any = None
        self._chosen: NDArray[np.int64] | None = None

    def trace(self, num_parameters: int, num_samples: int, sample: NDArray[Any]) -> None:
        """Trace the graph for so many training samples, of which ``sample`` is one, pre-processed [1, ...]."""
        import tensorflow as tf

        if self.norms:
            size = len(self._batches(num_samples)[0])
            flat = tf.TensorSpec([num_parameters], tf.float32)
            self._function.get_concrete_function(flat, tf.TensorSpec([size, *sample.shape[1:]], sample.dtype))

    def recalibrate(self, flat: Any, inputs: NDArray[Any], see: Callable[[NDArray[Any]], NDArray[Any]]) -> None:
        """Measure with these parameters; ``inputs`` are all training samples, ``see`` their pre-processing."""
        if not self.norms:
            return
        measured = [self._function(flat, see(inputs[batch])) for batch in self._batches(len(inputs))]
        for state, *values in zip(self.states, *measured, strict=True):
            state.assign(sum(values) / len(values))

    def _batches(self, available: int) -> list[NDArray[np.int64]]:
        if self._chosen is None:
            self._chosen = calibration_samples(available, self.num_samples)
        return whole_batches(self._chosen, self.batch_samples)

    @property
    def _function(self) -> Any:
        import keras
        import tensorflow as tf

        def measure(flat: Any, inputs: Any) -> list[Any]:
            with self._only_measuring(), keras.StatelessScope(state_mapping=self.cut(flat)) as scope:
                self.module(inputs, training=True)
            return [scope.get_current_value(state) for state in self.states]

        if self._measure is None:
            self._measure = tf.function(measure, autograph=False, reduce_retracing=True)
        return self._measure

    @contextmanager
    def _only_measuring(self) -> Iterator[None]:
        """While tracing: measured statistics replace the previous ones, and dropout is off."""
        momenta, rates = [one.momentum for one in self.norms], [one.rate for one in self.droppers]
        for norm in self.norms:
            norm.momentum = 0.0
        for dropper in self.droppers:
            dropper.rate = 0.0
        try:
            yield
        finally:
            for norm, momentum in zip(self.norms, momenta, strict=True):
                norm.momentum = momentum
            for dropper, rate in zip(self.droppers, rates, strict=True):
                dropper.rate = rate
