"""What roundings do to training: why two frameworks are compared over 50 updates only without batch normalisation."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.backends.base import micro_batches
from runtime.backends.torch import TorchModel
from runtime.core.vectors import aligned_vector
from tests.support.stand_ins import store_photos
from workloads.datasets.cifar10 import Cifar10
from workloads.images import Images

UPDATES = (20, 50)
"""With batch normalisation losses differ by a half after 20 already."""
LR = {"cnn": 0.005, "resnet20": 0.1}
SHAKEN = 1e-7
"""Relative change of the first parameters, which is as much as two frameworks differ by in one update."""


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("roundings")
    store_photos(directory)
    return directory


@pytest.mark.long(like="tests/live/test_tensorflow_tasks.py::test_torch_and_tensorflow_give_the_same_loss_sequence")
@pytest.mark.parametrize("updates", UPDATES)
def test_pytorch_parts_from_itself_with_batch_normalisation_and_stays_without(updates: int, data_dir: Path) -> None:
    kept, parted = (difference(model, width, updates, data_dir) for model, width in (("cnn", 1.0), ("resnet20", 0.25)))
    assert kept < 1e-4
    assert parted > 100 * kept


def difference(model: str, width: float, updates: int, data_dir: Path) -> float:
    """Largest of the losses, relative."""
    task = Images(dataset=Cifar10(verify=False), model=model, width=width, data_dir=str(data_dir))
    whole, shaken = (descend(TorchModel(task, 0, 1), by, LR[model], updates) for by in (0.0, SHAKEN))
    return float(np.abs(shaken / whole - 1).max())


def descend(model: TorchModel, shaken: float, lr: float, updates: int) -> NDArray[np.float64]:
    """As BSP does: two gradients of 16 samples for each of the updates."""
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=len(params))
    params[:] = model.task.initial_parameters(0) * (1 + shaken * signs)
    velocity, losses = np.zeros_like(params), []
    model.attach(params, grad)
    for update in range(updates):
        losses.append(model.gradient(model.batch((np.arange(32) + 32 * update) % 320), micro_batches(32, 2)))
        velocity[:] = 0.9 * velocity + grad / 32
        params -= lr * velocity
    return np.array(losses)
