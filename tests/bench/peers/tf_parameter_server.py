"""TensorFlow's own parameter server: tf.distribute's ParameterServerStrategy with a ClusterCoordinator.

As in https://www.tensorflow.org/tutorials/distribute/parameter_server_training: workers and the server are processes
with a ``tf.distribute.Server``; the chief, which is this process, has the server hold the variables and schedules
steps, each of which goes to a worker that is free. A step reads the variables, computes on its worker's next batch and
has the server take its gradient; that is asynchronous, there is no other kind. ``fit`` of Keras 3 refuses this
strategy, so the variables are plain ones, and SGD is ``assign_sub``, which runs where the variable lies.

Its servers listen on all interfaces and ask nobody who he is: for a minute of measuring, not a way to train.
"""

from __future__ import annotations

import importlib.util
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from multiprocessing import get_context
from typing import Any

import numpy as np

from bench import models
from bench.launch import Unavailable, die_with_parent
from bench.stats import timed_blocks

from . import ranks

WARM_UP = 3
Cluster = dict[str, list[str]]
"""Job -> addresses of its processes."""


def asp_step(model: str, num_workers: int, iterations: int) -> float:
    """Seconds (median of blocks) for ``num_workers`` steps, whoever takes them; ``model`` is one of the MLPs."""
    if importlib.util.find_spec("tensorflow") is None:
        raise Unavailable("tensorflow is not installed (pip install 'stragglab[tensorflow]')")
    addresses = [f"127.0.0.1:{ranks.free_port()}" for _ in range(num_workers + 1)]
    cluster = {"worker": addresses[1:], "ps": addresses[:1]}
    with _servers(cluster):
        return _measure(cluster, model, num_workers, iterations)


def _tensorflow() -> Any:
    """As quiet as can be; one thread of each kind, as in every peer."""
    os.environ.update(TF_CPP_MIN_LOG_LEVEL="3", CUDA_VISIBLE_DEVICES="-1")
    import tensorflow as tf

    tf.config.threading.set_intra_op_parallelism_threads(1)
    tf.config.threading.set_inter_op_parallelism_threads(1)
    return tf


@contextmanager
def _servers(cluster: Cluster) -> Iterator[None]:
    """One fresh interpreter each, as TensorFlow does not survive a fork; killed at the end, as they never return."""
    places = [(job, index) for job, addresses in cluster.items() for index in range(len(addresses))]
    spawn = get_context("spawn")
    processes = [spawn.Process(target=_serve, args=(cluster, *place), daemon=True) for place in places]
    try:
        for process in processes:
            process.start()
        yield
    finally:
        for process in processes:
            process.kill()
            process.join(10)


def _serve(cluster: Cluster, job: str, index: int) -> None:
    die_with_parent()
    tf = _tensorflow()
    tf.distribute.Server(tf.train.ClusterSpec(cluster), job_name=job, task_index=index, protocol="grpc").join()


def _measure(cluster: Cluster, model: str, num_workers: int, iterations: int) -> float:
    tf = _tensorflow()
    resolver = tf.distribute.cluster_resolver.SimpleClusterResolver(tf.train.ClusterSpec(cluster), rpc_layer="grpc")
    strategy = tf.distribute.ParameterServerStrategy(resolver)  # waits until all of them answer
    coordinator = tf.distribute.coordinator.ClusterCoordinator(strategy)
    with strategy.scope():
        layers = [(tf.Variable(kernel), tf.Variable(bias)) for kernel, bias in _layers(model)]
    step = tf.function(_step_of(tf, layers))
    batches = [models.batch(model, rank) for rank in range(num_workers)]
    arrays = tuple(np.stack([batch[part].numpy() for batch in batches]) for part in (0, 1))
    on_workers = coordinator.create_per_worker_dataset(lambda: tf.data.Dataset.from_tensor_slices(arrays).repeat())
    data = iter(on_workers)

    def steps(count: int) -> None:
        for _ in range(count * num_workers):
            coordinator.schedule(step, args=(data,))
        coordinator.join()

    steps(WARM_UP)
    return timed_blocks(steps, iterations)


def _layers(model: str) -> list[tuple[Any, Any]]:
    """Kernel [in, out] and bias [out] of every layer, the same values as in all other peers."""
    values = [parameter.detach().numpy() for parameter in models.build(model).parameters()]
    return [(weight.T.copy(), bias) for weight, bias in zip(values[::2], values[1::2], strict=True)]


def _step_of(tf: Any, layers: list[tuple[Any, Any]]) -> Callable[[Any], None]:
    variables = [variable for layer in layers for variable in layer]

    def step(data: Any) -> None:
        inputs, labels = next(data)
        with tf.GradientTape() as tape:
            outputs = inputs
            for kernel, bias in layers:
                outputs = (tf.nn.relu(outputs) if outputs is not inputs else inputs) @ kernel + bias
            loss = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=outputs)
            mean = tf.reduce_mean(loss)
        for variable, gradient in zip(variables, tape.gradient(mean, variables), strict=True):
            variable.assign_sub(models.LEARNING_RATE * gradient)

    return step
