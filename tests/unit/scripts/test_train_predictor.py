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
