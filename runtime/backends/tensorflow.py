"""TensorFlow (Keras 3) on flat vectors: one tensor over the runtime's memory, split into variables inside the graph.

The canonical order and layout of parameters are PyTorch's (:mod:`runtime.backends.layouts`), so the same vector means
the same model in both frameworks. Tasks that compute with it start cold: see DESIGN.md, "Threads and forks".
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from typing import Any, ClassVar, final

import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import (
    MicroBatch,
    augmentation_key,
    batch_inputs_of,
    check_counts,
    checked_parameters,
    coupled_samples,
    task_parameters,
)
from runtime.backends.devices.choice import CPU, CUDA
from runtime.backends.layouts import canonical, native_axes, stored_shape
from runtime.backends.tensorflow_masks import Masks
from runtime.backends.tensorflow_norms import Norms
from runtime.backends.tensorflow_start import import_tensorflow, start_tensorflow
from runtime.core.vectors import FloatVector


@final
class TensorflowModel:
    """A task's ``tensorflow_module``, a Keras model that is called with tensors in place of its variables.

    State that training changes besides the parameters (batch-norm statistics) stays in Keras' variables, local to each
    process.
    """

    def __init__(
        self,
        task: Any,
        seed: int,
        num_threads: int,
        eval_batch_samples: int = 512,
        recalibrate_samples: int = 1024,
        device: str = CPU,
    ) -> None:
        self.where = start_tensorflow(num_threads, device)
        import keras

        # reset Keras' name counters: graph optimisation depends on node names, down to the order of sums
        keras.backend.clear_session(free_memory=False)
        keras.utils.set_random_seed(seed % 2**32)  # Keras accepts 32 bits
        self.task, self.seed = task, seed
        self.data = task.load()
        self.batch_inputs = batch_inputs_of(task)
        with self._there():
            self.module: Any = task.tensorflow_module()
        self.variables: list[Any] = list(self.module.trainable_variables)
        self.axes = [native_axes(variable.name, len(variable.shape)) for variable in self.variables]
        self.shapes = [
            stored_shape(tuple(one.shape), axes) for one, axes in zip(self.variables, self.axes, strict=True)
        ]
        self.sizes = [int(np.prod(shape)) for shape in self.shapes]
        self.num_parameters = sum(self.sizes)
        self.stage_s = 0.0
        self.eval_batch_samples = eval_batch_samples
        self.in_batches = hasattr(task, "tensorflow_per_sample_stats")
        self.masks = Masks(self.module, seed)
        if self.where and self.masks.states:
            raise ValueError(
                f"backend.device={device}: TensorFlow would draw dropout masks on the device, which need not be those "
                "of the CPU; set dropout to 0, or backend.device=cpu"
            )
        self.norms = Norms(self.module, self._cut, eval_batch_samples, recalibrate_samples)
        self.params: Any = None
        self.grad: FloatVector = np.zeros(0, dtype=np.float32)
        self._tensors: dict[int, Any] = {}
        self._step, self._metrics, self._weighted = self._functions()

    def trace(self) -> TensorflowModel:
        """Trace the graph of a step now, and not within the first iteration."""
        with self._there():
            self._step.get_concrete_function()
        return self

    def trace_scores(self) -> TensorflowModel:
        """Trace the graphs of an evaluation instead: in the first one, workers would wait for the processor."""
        inputs = self.data.train[0]
        with self._there():
            self._metrics.get_concrete_function()
            self.norms.trace(self.num_parameters, len(inputs), self.batch_inputs(inputs[:1], None))
        return self

    def _there(self) -> AbstractContextManager[Any]:
        """Within it, operations run on the model's device."""
        import tensorflow as tf

        return tf.device(self.where) if self.where else nullcontext()

    def expect_weights(self) -> None:
        """Trace the graph of a weighted step, too."""
        with self._there():
            self._weighted.get_concrete_function()

    def initial_parameters(self) -> FloatVector:
        """The task's own if it draws them (``initial_parameters(seed)``), else Keras' initial values."""
        if (drawn := task_parameters(self.task, self.seed)) is not None:
            return checked_parameters(drawn, self.num_parameters)
        values = [canonical(one.numpy(), axes) for one, axes in zip(self.variables, self.axes, strict=True)]
        return np.concatenate(values, dtype=np.float32)

    def attach(self, params: FloatVector, grad: FloatVector) -> None:
        """Wrap the memory of ``params`` in a tensor (no copy), once for each vector; it is cached.

        On a device it is another copy each time: TensorFlow would keep a tensor's copy there even if the wrapped memory
        changes.
        """
        import tensorflow as tf

        if self.where:
            begun = time.perf_counter()
            with self._there():
                self.params, self.grad = tf.constant(params), grad
            tf.test.experimental.sync_devices()
            self.stage_s = time.perf_counter() - begun
            return
        place = params.ctypes.data
        if place not in self._tensors:
            self._tensors[place] = tf.experimental.dlpack.from_dlpack(params.__dlpack__())
        self.params, self.grad = self._tensors[place], grad

    def batch(
        self, indices: NDArray[np.int64], epochs: NDArray[np.int64] | None = None
    ) -> tuple[NDArray[Any], NDArray[Any]]:
        """Copy the samples from the memory-mapped arrays and apply the task's pre-processing."""
        inputs, targets = self.data.train
        seen = self.batch_inputs(inputs[indices], augmentation_key(self.seed, indices, epochs))
        return seen, targets[indices]

    def gradient(self, batch: tuple[NDArray[Any], NDArray[Any]], micro: Iterable[MicroBatch]) -> float:
        """Forward and backward pass of the summed loss; copies the gradient once, from the tensor to the vector."""
        inputs, targets = batch
        total = 0.0
        for index, one in enumerate(micro):
            rows, coefficient, pieces = one
            part = inputs[rows]
            with self._there():
                if pieces:
                    loss, flat = self._weighted(self.params, part, targets[rows], one.weights)
                else:
                    loss, flat = self._step(self.params, part, targets[rows], self.masks.key(part))
            own = self._fetch(flat)
            if index:
                self.grad += own if coefficient == 1.0 else np.float32(coefficient) * own
            else:
                np.multiply(own, np.float32(coefficient), out=self.grad)
            total += float(loss)
        return total

    def _fetch(self, flat: Any) -> FloatVector:
        """The gradient on the host; copies from a device are measured apart from the computation that they wait for."""
        import tensorflow as tf

        if self.where:
            tf.test.experimental.sync_devices()
        begun = time.perf_counter()
        own: FloatVector = flat.numpy()
        if self.where:
            self.stage_s += time.perf_counter() - begun
        return own

    def evaluate(self) -> dict[str, float]:
        """The task's metrics, computed on the model's device."""
        with self._there():
            return self._evaluate()

    def _evaluate(self) -> dict[str, float]:
        """Evaluate in batches if the task has ``tensorflow_per_sample_stats``, otherwise on all samples at once."""
        self.norms.recalibrate(self.params, self.data.train[0], lambda inputs: self.batch_inputs(inputs, None))
        inputs, targets = self.data.test
        if not self.in_batches:
            means = self._metrics(self.params, self.batch_inputs(inputs, None), targets)
            return {name: float(value) for name, value in means.items()}
        starts = range(0, len(targets), self.eval_batch_samples)
        batches = [slice(start, start + self.eval_batch_samples) for start in starts]
        figures = [
            self._metrics(self.params, self.batch_inputs(inputs[rows], None), targets[rows]).numpy() for rows in batches
        ]
        metrics: dict[str, float] = self.task.metrics(np.concatenate(figures))
        return metrics

    def _functions(self) -> tuple[Any, Any, Any]:
        """Trace the step (loss, flat gradient), the metrics and the weighted step, each for all batch sizes."""
        import keras
        import tensorflow as tf

        inputs, targets = self.data.train
        inputs = self.batch_inputs(inputs[:1], None)  # pre-processing may change shape and type
        signature = [
            tf.TensorSpec([self.num_parameters], tf.float32),
            *(tf.TensorSpec([None, *array.shape[1:]], array.dtype) for array in (inputs, targets)),
        ]
        states = self.masks.others(self.module.non_trainable_variables)

        def step(flat: Any, inputs: Any, targets: Any, key: Any) -> tuple[Any, Any]:
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(flat)
                with keras.StatelessScope(state_mapping=[*self._cut(flat), *self.masks.begun(key)]) as scope:
                    loss = self.task.tensorflow_loss(self.module, inputs, targets)
            for state in states:
                if (new := scope.get_current_value(state)) is not None:
                    state.assign(new)
            return loss, tape.gradient(loss, flat)

        def weighted(flat: Any, inputs: Any, targets: Any, weights: Any) -> tuple[Any, Any]:
            if self.masks.states or self.norms.norms:
                raise coupled_samples("dropout" if self.masks.states else "batch normalisation")
            with tf.GradientTape(watch_accessed_variables=False) as tape:
                tape.watch(flat)
                with keras.StatelessScope(state_mapping=self._cut(flat)):
                    losses = self.task.tensorflow_losses(self.module, inputs, targets)
                total = tf.reduce_sum(losses * weights)
            return tf.reduce_sum(losses), tape.gradient(total, flat)

        def evaluate(flat: Any, inputs: Any, targets: Any) -> Any:
            with keras.StatelessScope(state_mapping=self._cut(flat)):
                of = self.task.tensorflow_per_sample_stats if self.in_batches else self.task.tensorflow_metrics
                return of(self.module, inputs, targets)

        def function(of: Any, *more: Any) -> Any:
            return tf.function(of, autograph=False, input_signature=[*signature, *more])

        key, weights = tf.TensorSpec([], tf.int64), tf.TensorSpec([None], tf.float32)
        return function(step, key), function(evaluate), function(weighted, weights)

    def _cut(self, flat: Any) -> list[tuple[Any, Any]]:
        """Every variable paired with the tensor that replaces it."""
        import tensorflow as tf

        parts = tf.split(flat, self.sizes)
        tensors = [
            tf.transpose(tf.reshape(part, shape), axes) if axes else tf.reshape(part, shape)
            for part, shape, axes in zip(parts, self.shapes, self.axes, strict=True)
        ]
        return list(zip(self.variables, tensors, strict=True))


@final
@dataclass(frozen=True, kw_only=True)
class TensorflowBackend:
    """TensorFlow. ``num_threads`` is the intra-op and the inter-op thread count of every process.

    ``device`` is where workers, evaluator and scorer compute: ``cpu`` or ``cuda``.

    Parameters are evaluated ``eval_batch_samples`` at a time if the task has per-sample statistics; with batch
    normalisation, after its statistics were measured on ``recalibrate_samples`` training samples.
    """

    computes: ClassVar[bool] = True
    framework: ClassVar[str] = "tensorflow"
    fork_safe: ClassVar[bool] = False

    device: str = CPU
    num_threads: int = 1
    eval_batch_samples: int = 512
    recalibrate_samples: int = 1024

    def __post_init__(self) -> None:
        if self.device not in (CPU, CUDA):
            raise ValueError(f"device={self.device}: must be {CPU} or {CUDA}; only PyTorch has a fake one")
        check_counts(self, "num_threads", "eval_batch_samples", "recalibrate_samples")

    def preload(self) -> list[str]:
        import_tensorflow(self.device)
        return ["tensorflow", "keras"]

    def prepare(self, task: Any, seed: int, *, only_scores: bool = False) -> TensorflowModel:
        model = self._model(task, seed)
        return model.trace_scores() if only_scores else model.trace()

    def initial_parameters(self, task: Any, seed: int) -> FloatVector:
        """The model's initial parameters, on the CPU; does not import TensorFlow if the task draws them itself."""
        drawn = task_parameters(task, seed)
        return TensorflowModel(task, seed, self.num_threads).initial_parameters() if drawn is None else drawn

    def _model(self, task: Any, seed: int) -> TensorflowModel:
        fields = self.num_threads, self.eval_batch_samples, self.recalibrate_samples
        return TensorflowModel(task, seed, *fields, self.device)
