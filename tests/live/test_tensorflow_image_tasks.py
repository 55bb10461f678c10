"""Image models through the whole runtime: both frameworks' losses, on images like CIFAR-10's that are made here."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from numpy.typing import NDArray

from tests.support.runs import QUICK, Run
from tests.support.stand_ins import store_photos
from tests.support.tensorflow_facts import needs_tensorflow

pytestmark = [
    pytest.mark.live,
    pytest.mark.timeout(400),
    pytest.mark.xdist_group("tensorflow images"),  # they share runs
    needs_tensorflow,
]

UPDATES = 50
RUN_S = 300.0
BSP = (
    *("workload=resnet20_cifar10_laptop", "+workload.task.dataset.verify=false", "workload.global_batch_samples=32"),
    *("workload.task.train_samples=320", "workload.task.test_samples=64", "workload.epochs=5", "straggler=none"),
    *("strategy=bsp", "runtime=virtual", "cluster.num_workers=2", *QUICK, "cluster.device={base_s: 0.03}"),
)
CNN = ("workload.task.model=cnn", "workload.task.width=1.0", "workload.optimizer.lr=0.005")
"""Without normalisation: with it, roundings grow (tests/unit/backends/test_roundings.py)."""

Losses = NDArray[np.float64]
Runs = Callable[..., Losses]


@pytest.fixture(scope="module")
def directory(tmp_path_factory: pytest.TempPathFactory) -> Path:
    directory = tmp_path_factory.mktemp("images")
    store_photos(directory / "data")
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


@pytest.mark.long(like="tests/live/test_tensorflow_tasks.py::test_torch_and_tensorflow_give_the_same_loss_sequence")
def test_torch_and_tensorflow_give_the_same_losses_over_50_updates(runs: Runs) -> None:
    ours, wanted = (runs(f"backend={backend}") for backend in ("tensorflow", "torch"))
    assert len(ours) == len(wanted) >= 2 * UPDATES
    np.testing.assert_allclose(ours, wanted, rtol=1e-4)
    assert wanted[-10:].mean() < 0.7 * wanted[:10].mean(), "nothing was learned, so nothing was compared"
    assert np.abs(np.roll(wanted, 2) / wanted - 1).max() > 1e-2, "other batches would not be noticed"
