"""Every workload that trains, with every backend that can train it: real processes, 20 updates, and the loss falls."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
import yaml
from PIL import Image

from runtime.config.instantiate import instantiate
from tests.support.leaks import Start
from tests.support.raw_files import SMALL
from tests.support.runs import QUICK
from tests.support.tensorflow_facts import needs_tensorflow
from tests.unit.run.test_preflight import CONF, composed

pytestmark = [pytest.mark.live, pytest.mark.slow, pytest.mark.timeout(900)]

UPDATES = 20
PATIENCE_S = 600.0
SAMPLES = {
    "cifar10": 16,
    "fashion_mnist": 12,
    "wikitext2": 6,
    "criteo": 32,
    "adult": 2,
    "imagenet": 8,
    "planted": 128,
    "planted_topics": 128,
}
"""The same few in every epoch: few enough for the largest models on two cores, and then the loss has to fall."""
MOST = 64
"""Samples of an update."""
PLAIN = {"cifar10": ["augment=false"], "imagenet": ["num_classes=2"], "wikitext2": [], "fashion_mnist": []}
"""So that the batch stays the same; and as many classes as the made files have."""
OWN = {"lda_wikipedia": ["dataset.sequence_length=30", "stop_words=0"]}
"""For a text of some 300 words, few of them different."""


def trained() -> list[Any]:
    """(workload, backend). The ledger counts samples and has no loss."""
    named = [path.stem for path in sorted((CONF / "workload").glob("*.yaml")) if path.stem != "ledger"]
    marks = {"tensorflow": [needs_tensorflow]}
    return [pytest.param(name, one, marks=marks.get(one, ())) for name in named for one in backends(name)]


def backends(name: str) -> list[str]:
    """Of a workload or of the one that it is made from; not composed, as this is asked whenever tests are collected."""
    own = yaml.safe_load((CONF / "workload" / f"{name}.yaml").read_text())
    found: list[str] = own["backends"] if "backends" in own else backends(own["defaults"][0])
    return found


@pytest.fixture(scope="module")
def data_dir(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Small files of every data set that has files."""
    directory = tmp_path_factory.mktemp("data")
    for name, (make, _) in SMALL.items():
        make(directory / "raw" / name)
    noise(directory / "raw" / "imagenet")
    return directory


def noise(folder: Path) -> None:
    """In the place of pictures that have one colour each, which batch normalisation makes all alike."""
    chance = np.random.default_rng(0)
    for path in sorted(folder.rglob("*.*")):
        Image.fromarray(chance.integers(0, 256, (240, 240, 3), dtype=np.uint8)).save(path)


def words(name: str, data_dir: Path) -> list[str]:
    """What makes a workload as small as this test is: one batch for each epoch."""
    [(_, raw)] = composed(f"workload={name}")
    task = instantiate(raw["workload"]["task"])
    common = [f"workload={name}", f"workload.task.data_dir={data_dir}", "workload.batches_per_shard=1"]
    if name.startswith("digits"):
        return [*common, "workload.global_batch_samples=64", "workload.epochs=1"]
    dataset = task.dataset.name
    files = ["verify=false"] if task.dataset.from_files else []
    samples = SAMPLES[dataset]
    return [
        *common,
        *(f"++workload.task.dataset.{one}" for one in [*files, *PLAIN.get(dataset, [])]),
        *(f"workload.task.{one}" for one in OWN.get(name, [])),
        f"workload.task.train_samples={samples}",
        f"workload.global_batch_samples={min(samples, MOST)}",
        f"workload.epochs={UPDATES}",
    ]


@pytest.mark.parametrize(("name", "backend"), trained())
def test_twenty_updates_reduce_the_loss(name: str, backend: str, data_dir: Path, start: Start) -> None:
    run = start(
        "run",
        *words(name, data_dir),
        *QUICK,
        f"backend={backend}",
        "strategy=bsp",
        "straggler=none",
        "cluster.num_workers=2",
        f"runtime.start_deadline_s={PATIENCE_S:g}",
        f"max_time_s={PATIENCE_S:g}",
    )
    run.finish(PATIENCE_S)
    losses = [event["loss"] for event in run.events("Arrived") if event["loss"] is not None]
    assert len(losses) >= 2 * UPDATES
    assert sum(losses[-10:]) < sum(losses[:10]), losses  # of five updates by two workers each
