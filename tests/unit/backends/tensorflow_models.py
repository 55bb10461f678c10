"""Models of clicks and language, and what they compute in TensorFlow."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from types import SimpleNamespace
from typing import Any

import numpy as np
from numpy.typing import NDArray

from runtime.backends.base import MicroBatch, micro_batches
from runtime.core.job import Piece
from runtime.core.vectors import FloatVector, aligned_vector
from tests.support.stand_ins import ROWS, TEXT
from workloads.clicks import Clicks
from workloads.data import Split
from workloads.language import Language
from workloads.models.clicks import WideDeepSize, XDeepFMSize
from workloads.models.language import LSTMSize, TransformerSize

SEED = 3
NUM = 12
EVAL = 7
WEIGHTED = [MicroBatch(slice(0, NUM), pieces=(Piece(5, 2.5), Piece(NUM - 5, -0.75)))]
CODED = [MicroBatch(slice(0, 5), 2.5), MicroBatch(slice(5, NUM), -0.75)]
FEWER = [MicroBatch(slice(0, 5), pieces=(Piece(2, 1.0), Piece(3, 2.0)))]
ONE_WORD = replace(TEXT, facts=SimpleNamespace(**{**vars(TEXT.facts), "input_shape": (1,)}))
TASKS: dict[str, Any] = {
    "wide_deep": Clicks(dataset=ROWS, size=WideDeepSize(embedding=3, hidden=(8, 4), crosses=((0, 2), (1, 3)))),
    "xdeepfm": Clicks(dataset=ROWS, size=XDeepFMSize(embedding=3, cin=(5, 4), hidden=(8, 6))),
    "lstm": Language(dataset=TEXT, size=LSTMSize(embedding=6, hidden=9)),
    "lstm of 3 layers": Language(dataset=TEXT, size=LSTMSize(embedding=9, hidden=7, layers=3)),
    "transformer": Language(dataset=TEXT, size=TransformerSize(width=12, heads=3, feedforward=7)),
    "transformer, one word": Language(dataset=ONE_WORD, size=TransformerSize(width=4, heads=2, feedforward=5)),
}
DROPPING: dict[str, Any] = {
    name: replace(TASKS[name], size=replace(TASKS[name].size, dropout=0.5))
    for name in ("xdeepfm", "lstm", "transformer")
}
SPREAD = 3.0
"""Parameters are this many times their initial values, so that nothing is nearly linear."""

Facts = dict[str, Any]


def begun(model: Any, spread: float = SPREAD) -> tuple[FloatVector, FloatVector]:
    """Parameters and gradient that the model computes with from now on."""
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = model.initial_parameters() * np.float32(spread)
    model.attach(params, grad)
    return params, grad


def gradient_of(model: Any, indices: Sequence[int]) -> tuple[float, FloatVector]:
    loss = model.gradient(model.batch(np.asarray(indices)), micro_batches(len(indices), 1))
    return loss, model.grad.copy()


class Masked:
    """Three weights of 64 go through two layers of dropout, the first of them called twice; inputs are only keys."""

    def load(self) -> Split:
        inputs = np.arange(20, dtype=np.float32)[:, None]
        return Split(train=(inputs, inputs), test=(inputs, inputs))

    def initial_parameters(self, seed: int) -> NDArray[np.float32]:
        return np.ones(3 * 64, dtype=np.float32)

    def tensorflow_module(self) -> Any:
        import keras

        class Module(keras.Model):  # type: ignore[misc]
            def __init__(self) -> None:
                super().__init__()
                self.scales = [self.add_weight(shape=(64,), name=f"scale_{number}") for number in range(3)]
                self.layers_of_dropout = [keras.layers.Dropout(0.5) for _ in range(2)]

            def call(self, inputs: Any, training: bool = False) -> Any:
                first, second = self.layers_of_dropout
                rows = [keras.ops.zeros_like(inputs) + scale for scale in self.scales]
                dropped = [
                    layer(row, training=training) for layer, row in zip((first, first, second), rows, strict=True)
                ]
                return keras.ops.concatenate(dropped, axis=1)

        return Module()

    def tensorflow_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        import tensorflow as tf

        return tf.reduce_sum(module(inputs, training=True))

    def tensorflow_metrics(self, module: Any, inputs: Any, targets: Any) -> dict[str, Any]:
        import tensorflow as tf

        return {"kept": tf.reduce_mean(module(inputs, training=False))}


def masks_of(backend: Any) -> Facts:
    """Of one sample the gradient is the mask itself."""
    model, again, other = (backend.prepare(Masked(), seed) for seed in (SEED, SEED, SEED + 1))
    for one in (model, again, other):
        begun(one, 1.0)
    masks = [gradient_of(model, [index])[1] for index in (0, 1, 0)]
    return {
        "masks": [*masks, gradient_of(again, [0])[1], gradient_of(other, [0])[1]],
        "kept": model.evaluate()["kept"],
        "mask_after_evaluation": gradient_of(model, [1])[1],
    }


def seen_at_once(task: Language) -> list[int]:
    """Sequences that the module gets in an evaluation of 40."""
    import tensorflow as tf

    seen: list[int] = []

    def module(words: Any, training: bool) -> Any:
        assert not training
        seen.append(len(words))
        return tf.zeros([len(words), 5, 40])

    words = tf.zeros([40, 5], tf.int64)
    assert task.tensorflow_per_sample_stats(module, words, words).shape == (40, 1)
    return seen


def compute(models: Collection[str], dropping: Collection[str]) -> Facts:
    """Of these ``TASKS``, and of these with dropout; by TensorFlow, which has been started."""
    from runtime.backends.tensorflow import TensorflowBackend

    backend, facts = TensorflowBackend(eval_batch_samples=EVAL), Facts()
    for name in models:
        model = backend.prepare(TASKS[name], SEED)
        facts[f"{name}_initial"] = model.initial_parameters()
        facts[f"{name}_shapes"] = [str(shape) for shape in model.shapes]
        begun(model)
        facts[f"{name}_loss"], facts[f"{name}_grad"] = gradient_of(model, range(NUM))
        model.expect_weights()
        facts[f"{name}_weighted_loss"] = model.gradient(model.batch(np.arange(NUM)), WEIGHTED)
        facts[f"{name}_weighted_grad"] = model.grad.copy()
        model.gradient(model.batch(np.arange(5)), FEWER)
        facts[f"{name}_weighted_traces"] = model._weighted.experimental_get_tracing_count()
        facts[f"{name}_coded_loss"] = model.gradient(model.batch(np.arange(NUM)), CODED)
        facts[f"{name}_coded_grad"] = model.grad.copy()
        metrics = model.evaluate()
        facts[f"{name}_metrics"] = [metrics[metric] for metric in sorted(metrics)]
        for size in (1, 5):
            gradient_of(model, range(size))
        facts[f"{name}_traces"] = model._step.experimental_get_tracing_count()
    for name in dropping:
        model = backend.prepare(DROPPING[name], SEED)
        begun(model)
        facts[f"{name}_dropping"] = [gradient_of(model, rows)[1] for rows in (range(NUM), range(NUM - 1), range(NUM))]
        metrics = model.evaluate()
        facts[f"{name}_dropping_metrics"] = [metrics[metric] for metric in sorted(metrics)]
    facts |= masks_of(backend)
    facts["at_once"] = seen_at_once(TASKS["lstm"])
    return facts
