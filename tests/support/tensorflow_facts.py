"""What the TensorFlow backend computes, found out in a process of its own, since other tests fork theirs."""

from __future__ import annotations

import importlib.util
import os
import sys
from functools import partial
from typing import Any

import numpy as np
import pytest

from runtime.backends.base import micro_batches
from runtime.core.vectors import aligned_vector
from runtime.errors import ConfigError
from workloads.digits import Digits

HAVE = importlib.util.find_spec("tensorflow") is not None
needs_tensorflow = pytest.mark.skipif(not HAVE, reason="tensorflow is not installed: pip install '.[tensorflow]'")

SEED = 3
NUM = 48

Facts = dict[str, Any]


class Normalised:
    """A task with batch normalisation and no initial parameters of its own."""

    def __init__(self, data_dir: str) -> None:
        self.data_dir = data_dir

    def load(self) -> Any:
        return Digits(data_dir=self.data_dir).load()

    def tensorflow_module(self) -> Any:
        from keras import Input, Sequential, layers

        return Sequential([Input((64,)), layers.Dense(6), layers.BatchNormalization(), layers.Dense(10)])

    def tensorflow_loss(self, module: Any, inputs: Any, targets: Any) -> Any:
        return Digits().tensorflow_loss(module, inputs, targets)

    def tensorflow_metrics(self, module: Any, inputs: Any, targets: Any) -> Any:
        return Digits().tensorflow_metrics(module, inputs, targets)


def facts_of(model: Any) -> Facts:
    """Initial parameters, metrics, losses as the vector changes, and how often graphs were made."""
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    params[:] = model.initial_parameters()
    model.attach(params, grad)
    batch = model.batch(np.arange(NUM))
    found = {"initial": params.copy(), "loss": model.gradient(batch, micro_batches(NUM, 1))}
    found["accuracy"], found["mean_loss"] = model.evaluate().values()
    params *= 0.5  # the same memory: the model is not notified
    found["halved_loss"] = model.gradient(batch, micro_batches(NUM, 1))
    for size in (1, 2, 7):
        model.gradient(model.batch(np.arange(size)), micro_batches(size, 1))
    found["traces"] = model._step.experimental_get_tracing_count()
    return found


def norms_of(model: Any) -> Facts:
    """Metrics before and after steps of training, with and without statistics that are measured again."""
    before = list(model.evaluate().values())
    measured = model.module.layers[1].moving_mean.numpy()
    kernel, bias = model.variables[0], model.params.numpy()[64 * 6 : 65 * 6]
    flat = model.params.numpy()[: 64 * 6].reshape(6, 64)
    assert tuple(kernel.shape) == (64, 6)
    whole_batches = model.norms._chosen[: len(model.norms._chosen) // 512 * 512]
    wanted = (model.data.train[0][whole_batches] @ flat.T + bias).mean(axis=0)
    for _ in range(3):
        model.gradient(model.batch(np.arange(NUM)), micro_batches(NUM, 1))
    after = list(model.evaluate().values())
    model.norms.norms = []
    for _ in range(3):
        model.gradient(model.batch(np.arange(NUM)), micro_batches(NUM, 1))
    return {"norms": [before, after, list(model.evaluate().values())], "measured": measured, "wanted_means": wanted}


def scores_of(model: Any) -> Facts:
    """Metrics of the initial parameters, and how often graphs were made before and after."""

    def traces() -> list[int]:
        made = (model._step, model._metrics, model.norms._function)
        return [one.experimental_get_tracing_count() for one in made]

    before, params = traces(), aligned_vector(model.num_parameters)
    params[:] = model.initial_parameters()
    model.attach(params, np.zeros_like(params))
    metrics = model.evaluate()
    return {"metrics": list(metrics.values()), "traces": [before, traces()]}


def compute(data_dir: str) -> Facts:
    """Everything, by a process that has not imported TensorFlow yet; the data set has been prepared."""
    facts: Facts = {}
    begun = Digits(data_dir=data_dir).initial_parameters(SEED)
    from runtime.backends.tensorflow import TensorflowBackend

    backend = TensorflowBackend()
    assert (backend.initial_parameters(Digits(), SEED) == begun).all()
    facts["imported_for_initial_parameters"] = "tensorflow" in sys.modules
    with_norm = partial(Normalised, data_dir)
    normalised = backend.prepare(with_norm(), SEED)
    facts |= {f"bn_{name}": value for name, value in facts_of(normalised).items()}
    try:
        normalised.expect_weights()
    except ValueError as error:
        facts["bn_weights_refused"] = str(error)
    scores = scores_of(backend.prepare(with_norm(), SEED, only_scores=True))
    facts |= {f"only_scores_{fact}": value for fact, value in scores.items()}
    facts |= norms_of(normalised)
    facts["bn_moved"] = float(np.abs(normalised.module.non_trainable_variables[0].numpy()).max())
    facts["bn_again"] = backend.initial_parameters(with_norm(), SEED)
    try:
        TensorflowBackend(num_threads=2).prepare(with_norm(), SEED)
    except ConfigError as error:
        facts["refusal"] = str(error)
    facts["modules"] = [name for name in ("torch", "sklearn", "pandas", "matplotlib") if name in sys.modules]
    facts["threads"] = len(os.listdir("/proc/self/task"))
    return facts
