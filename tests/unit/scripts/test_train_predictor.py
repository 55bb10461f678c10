"""The scripts that fit predictors and profile the noise scale: their files, and the one line of a refusal."""

from __future__ import annotations

import csv
from pathlib import Path

import numpy as np
import pytest

from predictors.lstm import load_lstm
from predictors.noise_table import NoiseTable, rows_of
from predictors.registry import straggler_predictor
from scripts.fitting import profile_noise, train_predictor
from tests.support.records import bsp_story


@pytest.fixture
def runs(tmp_path: Path) -> Path:
    for seed in range(2):
        bsp_story(seed=seed, epochs=6).write(tmp_path / "runs" / str(seed))
    return tmp_path / "runs"


def test_a_file_is_fitted_that_its_predictor_takes(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "fitted.npz"
    words = [str(runs), "--series", "deviation", "--history", "12", "--epochs", "2", "--out", str(out)]
    assert train_predictor.main(words) == 0
    assert "2 runs, " in capsys.readouterr().out
    assert load_lstm(str(out), "deviation").command.startswith("python -m scripts.fitting.train_predictor ")
    straggler_predictor("lstm_ratio", {"weights": str(out)})
    again = tmp_path / "again.npz"
    assert train_predictor.main([*words[:-1], str(again)]) == 0
    with np.load(out) as one, np.load(again) as other:
        assert all((one[name] == other[name]).all() for name in one.files if name != "command")


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--series", "resources"], "does not say how much processor time an iteration took"),
        (["--series", "deviation", "--history", "500"], "--history=500: needs 5 workers or more with longer series"),
        (["--series", "deviation", "--history", "3"], "--history=3: must be 11 or more"),
        (["--series", "deviation", "--epochs", "0"], "--epochs=0: must be 1 or more"),
        (["--series", "deviation", "--out", "x.txt"], "--out=x.txt: must end in .npz"),
    ],
)
def test_bad_input_is_one_line(
    words: list[str], reason: str, runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert train_predictor.main([str(runs), "--out", str(tmp_path / "x.npz"), *words]) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert told.count("\n") == 1


def test_a_profile_is_a_table_that_can_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where no run has prepared the data before."""
    monkeypatch.chdir(tmp_path)
    out = tmp_path / "noise.csv"
    words = ["--steps", "4", "--every", "2", "--batches", "8,16", "--gradients", "4", "--out", str(out)]
    assert profile_noise.main(words) == 0
    with out.open() as file:
        rows = rows_of(csv.DictReader(file))
    assert [(row.model, row.batch_samples, row.step) for row in rows] == [
        ("digits", batch, step) for step in (0, 2, 4) for batch in (8, 16)
    ]
    assert 1.0 < NoiseTable(rows=rows, model="digits").phi_of(12)[0] < 10_000.0


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        (["--every", "0"], "--every=0: must be 1 or more"),
        (["--gradients", "1"], "--gradients=1: must be 2 or more"),
        (["--batches", "5000"], "--batches: 5000 samples, more than the 1438 that there are"),
        (["runtime=virtual", "backend=none", "workload.target=null"], "backend=none: computes no gradients"),
        (["workload=lda"], "backend=torch: cannot train workload=lda; choose backend=numpy"),
        (["workload=resnet20_cifar10_laptop"], "/data/raw/cifar10: does not exist; prepare the data with: "),
    ],
)
def test_a_profile_of_nothing_is_refused(
    words: list[str], reason: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(tmp_path)
    assert profile_noise.main([*words, "--out", str(tmp_path / "x.csv")]) == 2
    told = capsys.readouterr().err
    assert reason in told
    assert told.count("\n") == 1
