"""Invalid data, as a user meets it: ``run.py`` and ``python run.py data`` end with one line that names the file
and the cure, exit code 2, and nothing that was not there before."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

import pytest

from stragglab.commands import data as prepare_data
from tests.support import raw_files
from tests.support.cli import refusal
from tests.support.long_tests import long_after

Act = Callable[[Path], None]
"""On the folder of the original files."""


def leave(raw: Path) -> None:
    """Leave the file as it is."""


def put(name: str, content: bytes) -> Act:
    return lambda raw: (raw / name).write_bytes(content) and None


class Case(NamedTuple):
    """Invalid files of a data set, and the message about each."""

    workload: str
    dataset: str
    make: Act
    spoil: Act
    problem: str
    cure: str
    verify: bool = False


CIFAR = ("resnet20_cifar10", "cifar10", raw_files.cifar_binary)
FETCH_CIFAR = "prepare the data with: python run.py data cifar10 --fetch"
CASES = {
    "nothing": Case(*CIFAR[:2], leave, leave, ": does not exist", FETCH_CIFAR),
    "truncated": Case(
        *CIFAR,
        lambda raw: os.truncate(raw / "data_batch_2.bin", 24_583),
        "/data_batch_2.bin: has 24,583 bytes, not a multiple of 3,073: truncated",
        FETCH_CIFAR,
    ),
    "wrong checksum": Case(*CIFAR, leave, "/data_batch_1.bin: sha256 ", FETCH_CIFAR, verify=True),
    "pointer": Case(
        *("wide_deep_criteo", "criteo", raw_files.criteo, put("train.txt", raw_files.LFS_POINTER)),
        "/train.txt: is a Git-LFS pointer and not the data; run git lfs pull where it comes from, or get ",
        "run.py data criteo --from PATH",
        verify=True,
    ),
}


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Case:
    """Its files lie where they are looked for."""
    found = CASES[request.param]
    monkeypatch.chdir(tmp_path)
    raw = tmp_path / "data" / "raw" / found.dataset
    raw.parent.mkdir(parents=True)
    found.make(raw)
    found.spoil(raw)
    return found


def everything(folder: Path) -> list[Path]:
    return sorted(folder.rglob("*"))


def check(said: str, case: Case) -> None:
    assert f"data/raw/{case.dataset}{case.problem}" in said
    assert case.cure in said
    assert "\n" not in said


@pytest.mark.few(1)
@pytest.mark.parametrize("case", long_after(sorted(CASES, key="wrong checksum".__ne__), always=2), indirect=True)
def test_a_run_is_refused(case: Case, tmp_path: Path) -> None:
    before = everything(tmp_path)
    verify = [] if case.verify else ["+workload.task.dataset.verify=false"]
    check(refusal(f"workload={case.workload}", *verify, "hydra.run.dir=run", cwd=tmp_path), case)
    assert everything(tmp_path) == before


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_the_preparation_is_refused(case: Case, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    before = everything(tmp_path)
    assert prepare_data.main([case.dataset, *([] if case.verify else ["--no-verify"])]) == 2
    captured = capsys.readouterr()
    check(captured.err.removeprefix("data: ").removesuffix("\n"), case)
    assert captured.out == ""
    assert everything(tmp_path) == before
