"""Invalid prepared arrays are refused before any process starts: the file, what is wrong, the cure."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.support.cli import refusal
from tests.support.long_tests import long_after
from workloads.data import DataError, Split, store
from workloads.datasets.fashion_mnist import FashionMnist
from workloads.digits import Digits

VIRTUAL = ("runtime=virtual", "workload.epochs=1", "view=none", "draw=false", "straggler=none", "eval_every_s=null")
Spoil = Callable[[Path], Any]


def save(name: str, array: Any) -> Spoil:
    return lambda place: np.save(place / f"{name}.npy", array)


SPOILED: dict[str, tuple[Spoil, str]] = {
    "empty": (lambda place: (place / "train_inputs.npy").write_bytes(b""), "/train_inputs.npy: is empty"),
    "cut": (
        lambda place: (place / "train_inputs.npy").write_bytes((place / "train_inputs.npy").read_bytes()[:4000]),
        "/train_inputs.npy: is not a complete NumPy",
    ),
    "objects": (save("train_targets", np.array([{}], dtype=object)), "/train_targets.npy: is not a complete NumPy"),
    "images": (save("train_inputs", np.zeros((1438, 3, 32, 32))), "train inputs have the shape (3, 32, 32) instead of"),
    "targets": (save("train_targets", np.zeros(7, np.int64)), ": train has 1438 inputs and 7 targets"),
    "less": (lambda place: (place / "test_targets.npy").unlink(), "/digits: has not all arrays; remove "),
    "words": (save("test_targets", np.array(["a"] * 359)), ": test targets are <U1, and no numbers"),
}


@pytest.mark.few(1)
@pytest.mark.parametrize("case", long_after(SPOILED, always=3))
def test_digits(case: str, tmp_path: Path) -> None:
    place = tmp_path / "data" / "digits"
    Digits(data_dir=str(tmp_path / "data")).prepare()
    spoil, problem = SPOILED[case]
    spoil(place)
    said = refusal(*VIRTUAL, "hydra.run.dir=out", cwd=tmp_path)
    assert problem in said
    assert said.startswith(f"workload=digits: {place}")
    assert said.endswith(f"; remove {place}, it is made again")
    assert not (tmp_path / "out").exists()


def test_a_data_set(tmp_path: Path) -> None:
    task = Digits(data_dir=str(tmp_path / "few"))
    few = (np.zeros((5, 64), np.float32), np.zeros(5, np.int64))
    store(task.directory, Split(train=few, test=few))
    with pytest.raises(DataError, match="has not the 1797 digits of scikit-learn; remove"):
        task.prepare()
    data = FashionMnist(verify=False)
    place = data.directory(str(tmp_path))
    images, labels = np.zeros((5, 1, 28, 28), np.uint8), np.zeros(5, np.int64)
    store(place, Split(train=(images, labels), test=(images, labels)))
    assert data.prepare(str(tmp_path)) == 5
    for array, problem in (
        (images[:, :, :20], r"train inputs have the shape \(1, 20, 28\) instead of \(1, 28, 28\)"),
        (images[:4], "train has 4 inputs and 5 targets"),
    ):
        np.save(place / "train_inputs.npy", array)
        with pytest.raises(DataError, match=f"{problem}.*; remove it, and prepare the data with: python run.py data"):
            data.prepare(str(tmp_path))
    (place / "train_inputs.npy").write_bytes(b"")
    with pytest.raises(DataError, match=r"/train_inputs\.npy: is empty\); remove it, and prepare the data with"):
        data.prepare(str(tmp_path))
