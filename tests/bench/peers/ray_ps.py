"""A synchronous parameter server of Ray actors, after the example in Ray's documentation.

https://docs.ray.io/en/latest/ray-core/examples/plot_parameter_server.html: the driver hands references to the weights
to all workers, and references to their gradients to the server, which sums them, steps its optimizer and returns the
new weights. Weights travel as a state_dict of tensors, gradients as lists of numpy arrays, both in the object store.
As there, the driver does not wait inside a block of iterations; it does at a block's end, where the time is taken.

``STRAGGLAB_RAY_PYTHON`` names the interpreter to use when Ray is not installed next to Stragglab (it needs torch too).
"""

from __future__ import annotations

import importlib.util
import os
import secrets
import tempfile
from typing import Any

import torch

from bench import models
from bench.launch import Unavailable
from bench.stats import timed_blocks

WARM_UP = 3
TIMEOUT_S = 100.0
STORE_BYTES = 1 << 28


class Server:
    """The actor that holds the parameters."""

    def __init__(self, model: str) -> None:
        self.model = models.build(model)
        self.optimizer = torch.optim.SGD(self.model.parameters(), lr=models.LEARNING_RATE)

    def apply_gradients(self, *gradients: list[Any]) -> dict[str, Any]:
        """Sum, step, return the new weights."""
        self.optimizer.zero_grad()
        for parameter, parts in zip(self.model.parameters(), zip(*gradients, strict=True), strict=True):
            parameter.grad = torch.from_numpy(sum(parts[1:], start=parts[0].copy()))
        self.optimizer.step()
        return self.get_weights()

    def get_weights(self) -> dict[str, Any]:
        """Everything that a worker needs."""
        return self.model.state_dict()


class Worker:
    """Computes gradients on its own batch."""

    def __init__(self, model: str, rank: int) -> None:
        self.model = models.build(model)
        self.data = models.batch(model, rank)

    def compute_gradients(self, weights: dict[str, Any]) -> list[Any]:
        """Of the weights given."""
        self.model.load_state_dict(weights)
        models.backward(self.model, *self.data)
        return [parameter.grad.numpy() for parameter in self.model.parameters()]


def bsp_step(model: str, num_workers: int, iterations: int) -> float:
    """Seconds per iteration (median of blocks), seen by the driver."""
    if importlib.util.find_spec("ray") is None:
        raise Unavailable("ray is not installed (pip install ray, or set STRAGGLAB_RAY_PYTHON)")
    # Ray would store a generated token in the user's home; authentication stays on.
    os.environ.update(RAY_AUTH_MODE="token", RAY_AUTH_TOKEN=secrets.token_hex(32), RAY_USAGE_STATS_ENABLED="0")
    import ray  # reads its settings from the environment once

    try:
        ray.init(
            num_cpus=num_workers + 1,  # logical: all actors must be placed whatever the machine has
            include_dashboard=False,
            log_to_driver=False,
            object_store_memory=STORE_BYTES,
            _temp_dir=tempfile.gettempdir(),
        )
        return _measure(ray, model, num_workers, iterations)
    finally:
        ray.shutdown()


def _measure(ray: Any, model: str, num_workers: int, iterations: int) -> float:
    server = ray.remote(Server).remote(model)
    workers = [ray.remote(Worker).remote(model, rank) for rank in range(num_workers)]
    weights = server.get_weights.remote()

    def steps(count: int) -> None:
        nonlocal weights
        for _ in range(count):
            gradients = [worker.compute_gradients.remote(weights) for worker in workers]
            weights = server.apply_gradients.remote(*gradients)
        ray.get(weights, timeout=TIMEOUT_S)

    steps(WARM_UP)
    return timed_blocks(steps, iterations)
