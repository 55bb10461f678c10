"""Arrays appear whole or not at all; a run without its data refuses with the command to type."""

from __future__ import annotations

import os
from dataclasses import dataclass
from pathlib import Path
from types import SimpleNamespace
from typing import cast

import numpy as np
import pytest

from runtime.config.parse import Config
from runtime.errors import ConfigError
from runtime.run.job import prepare_data
from tests.support.cli import run_cli
from tests.support.runs import DIGITS
from workloads import data
from workloads.data import Split, appearing
from workloads.datasets.cifar10 import Cifar10


def split(value: int) -> Split:
    array = np.full(3, value)
    return Split(train=(array, array), test=(array, array))


def test_an_interrupted_conversion_leaves_nothing(tmp_path: Path) -> None:
    def interrupted() -> None:
        with appearing(tmp_path / "new") as partial:
            np.save(partial / "a.npy", np.zeros(3))
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert os.listdir(tmp_path) == []


def test_who_comes_second_keeps_what_is_there(tmp_path: Path) -> None:
    """What a killed process left is in nobody's way."""
    left = tmp_path / f".new.{os.getpid()}"
    left.mkdir()
    (left / "old.npy").write_bytes(b"half")
    data.store(tmp_path / "new", split(1))
    data.store(tmp_path / "new", split(2))
    assert data.load(tmp_path / "new").train[0][0] == 1
    assert os.listdir(tmp_path) == ["new"]
    assert not (tmp_path / "new" / "old.npy").exists()


def test_a_folder_that_is_no_data_set_is_not_taken_for_one(tmp_path: Path) -> None:
    (tmp_path / "new").mkdir()
    (tmp_path / "new" / "mine.txt").write_text("keep")
    with pytest.raises(OSError, match="not empty"):
        data.store(tmp_path / "new", split(1))
    assert os.listdir(tmp_path / "new") == ["mine.txt"]


@dataclass(frozen=True, kw_only=True)
class Task:
    """Stands for any task on CIFAR-10."""

    data_dir: str

    def prepare(self) -> int:
        return Cifar10().prepare(self.data_dir)


def test_a_run_without_its_data_names_the_command(tmp_path: Path) -> None:
    config = cast(Config, SimpleNamespace(workload=SimpleNamespace(name="cifar10_resnet20")))
    with pytest.raises(ConfigError) as refused:
        prepare_data(Task(data_dir=str(tmp_path)), config)
    assert str(refused.value) == (
        f"workload=cifar10_resnet20: {tmp_path}/raw/cifar10: does not exist; "
        "prepare the data with: python run.py data cifar10 --fetch"
    )


def test_a_folder_that_cannot_be_written_is_one_line(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    done = run_cli(*DIGITS, f"workload.task.data_dir={tmp_path}/file", f"hydra.run.dir={tmp_path}/run")
    assert done.exit_code == 2
    assert done.err.splitlines()[-1].startswith("run.py: workload=digits: ")
    assert str(tmp_path / "file") in done.err
    assert "Traceback" not in done.err
