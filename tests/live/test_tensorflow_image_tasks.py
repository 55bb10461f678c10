"""Image models through the whole runtime: both frameworks' losses, on images like CIFAR-10's that are made here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from runtime.backends.base import micro_batches
from runtime.backends.torch import TorchModel
from runtime.vectors import aligned_vector
from tests.runs import QUICK, Run
from tests.tensorflow_facts import HAVE
from workloads import data
from workloads.data import Split
from workloads.datasets.cifar10 import CLASSES, SHAPE, Cifar10
from workloads.images import Images

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(400),
    pytest.mark.skipif(not HAVE, reason="tensorflow is not installed: pip install '.[tensorflow]'"),
]

UPDATES = 50
RUN_S = 300.0
BSP = (
    *("workload=resnet20_cifar10_laptop", "+workload.task.dataset.verify=false", "workload.global_batch_samples=32"),
    *("workload.task.train_samples=320", "workload.task.test_samples=64", "workload.epochs=5", "straggler=none"),
    *("strategy=bsp", "cluster=virtual", "cluster.num_workers=2", *QUICK, "cluster.device={base_s: 0.03}"),
)
CNN = ("workload.task.model=cnn", "workload.task.width=1.0", "workload.optimizer.lr=0.005")
"""Without normalisation: with it, roundings grow by a factor of a thousand in ten updates (docs/backends.md)."""

Losses = NDArray[np.float64]
Runs = Callable[..., Losses]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """With data."""
    directory = tmp_path_factory.mktemp("images")
    store(directory / "data")
    return directory


@pytest.fixture(scope="module")
def runs(directory: Path) -> Runs:
    """Losses of a run, in the order of arrival."""

    def make(*words: str) -> Losses:
        run = Run(
            directory / re.sub(r"\W+", "-", " ".join(words)),
            *BSP,
            *CNN,
            *words,
            f"workload.task.data_dir={directory}/data",
        )
        try:
            run.finish(RUN_S)
        finally:
            run.kill()
        return np.array([event["loss"] for event in run.events("Arrived") if event["loss"] is not None])

    return make


def store(data_dir: Path) -> None:
    """Classes differ by their colours, below noise."""
    chance = np.random.default_rng(0)
    colours = chance.integers(60, 196, size=(CLASSES, 3, 1, 1))

    def drawn(count: int) -> tuple[NDArray[np.uint8], NDArray[np.int64]]:
        classes = chance.integers(CLASSES, size=count)
        images = colours[classes] + chance.normal(0, 40, size=(count, *SHAPE))
        return images.clip(0, 255).astype(np.uint8), classes

    data.store(Cifar10(verify=False).directory(str(data_dir)), Split(train=drawn(320), test=drawn(64)))


def test_torch_and_tensorflow_give_the_same_losses_over_50_updates(runs: Runs) -> None:
    ours, wanted = (runs(f"backend={backend}") for backend in ("tensorflow", "torch"))
    assert len(ours) == len(wanted) >= 2 * UPDATES
    np.testing.assert_allclose(ours, wanted, rtol=1e-4)
    assert wanted[-10:].mean() < 0.7 * wanted[:10].mean(), "nothing was learned, so nothing was compared"
    assert np.abs(runs("backend=torch", "seed=1") / wanted - 1).max() > 1e-2, "another seed would not be noticed"


@pytest.mark.parametrize(("model", "width", "parts"), [("cnn", 1.0, False), ("resnet20", 0.25, True)])
def test_with_normalisation_pytorch_parts_from_itself(model: str, width: float, parts: bool, directory: Path) -> None:
    """So nothing is asked of two frameworks there: a change of the first parameters by 1e-7 is as much as theirs."""
    dataset = Cifar10(verify=False)
    task = Images(dataset=dataset, model=model, width=width, data_dir=str(directory / "data"))
    losses = [descend(TorchModel(task, 0, 1), shaken, 0.1 if parts else 0.005) for shaken in (0.0, 1e-7)]
    difference = np.abs(losses[1] / losses[0] - 1).max()
    assert difference > 0.1 if parts else difference < 1e-4


def descend(model: TorchModel, shaken: float, lr: float) -> Losses:
    """As BSP does: two gradients of 16 samples for each of the updates."""
    params, grad = aligned_vector(model.num_parameters), aligned_vector(model.num_parameters)
    signs = np.random.default_rng(1).choice([-1.0, 1.0], size=len(params))
    params[:] = model.task.initial_parameters(0) * (1 + shaken * signs)
    velocity, losses = np.zeros_like(params), []
    model.attach(params, grad)
    for update in range(UPDATES):
        losses.append(model.gradient(model.batch((np.arange(32) + 32 * update) % 320), micro_batches(32, 2)))
        velocity[:] = 0.9 * velocity + grad / 32
        params -= lr * velocity
    return np.array(losses)
