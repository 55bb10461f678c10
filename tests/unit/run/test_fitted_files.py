"""Records name the fitted files by which a strategy predicts, with a fingerprint of their content."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from predictors.fitted_file import FITTED
from strategies.star import Star
from strategies.star.learned import ModeLearner
from tests.support.job_sets import row, run_rows

RINGS = ModeLearner(topology="allreduce", use_ml_from_start=True, max_workers=16)


def name_of(path: Path) -> str:
    return f"{path.stem} {hashlib.sha256(path.read_bytes()).hexdigest()[:8]}"


def other(path: Path, of: str) -> Path:
    """The file ``of`` that comes along, as if it had been made by another command."""
    with np.load(FITTED / f"{of}.npz") as arrays:
        np.savez(path, **{**{name: arrays[name] for name in arrays.files}, "command": "by hand"})
    return path


@pytest.mark.parametrize(
    ("settings", "names"),
    [
        ({"predictor": "ema"}, []),
        ({"predictor": "star"}, ["resources"]),
        ({"predictor": "star", "predictor_settings": {"regressor": "mlp"}}, ["resources"]),
        ({"predictor": "star", "predictor_settings": {"resources": "last"}}, []),
        ({"predictor": "lstm_ratio"}, ["deviation"]),
        ({"predictor": "lstm_ratio", "topology": "allreduce"}, ["deviation"]),
        ({"learning": ModeLearner(use_ml_from_start=True)}, ["modes"]),
        ({"learning": ModeLearner()}, []),
        ({"topology": "allreduce", "learning": RINGS}, ["ring_modes"]),
        ({"predictor": "star", "learning": ModeLearner(use_ml_from_start=True)}, ["modes", "resources"]),
    ],
)
def test_a_strategy_says_which_files_it_predicts_by(settings: dict[str, Any], names: list[str]) -> None:
    assert Star(**settings).fitted == tuple(name_of(FITTED / f"{name}.npz") for name in names)


def test_a_file_of_ones_own_has_its_own_name(tmp_path: Path) -> None:
    path = other(tmp_path / "mine.npz", "deviation")
    found = Star(predictor="lstm_ratio", predictor_settings={"weights": str(path)}).fitted
    assert found == (name_of(path),)
    assert found[0].split()[1] != name_of(FITTED / "deviation.npz").split()[1]
    table = tmp_path / "noise.csv"
    table.write_text("model,batch_samples,step,sqr,var\ndigits,32,0,1,100\ndigits,64,0,1,100\n")
    assert Star(phi_table=str(table), phi_model="digits").fitted == (name_of(table),)


def test_records_of_a_set_and_of_its_jobs_name_them(tmp_path: Path) -> None:
    rows = [row("a", settings=["strategy=star_h", "strategy.predictor=lstm_ratio"]), row("b")]
    run_rows(tmp_path / "set", rows, "checkpoint_every_s=null")
    names = [name_of(FITTED / "deviation.npz")]
    heads = [tmp_path / "set" / place / "meta.json" for place in ("jobs/a", "jobs/b", ".")]
    assert [json.loads(head.read_text())["fitted"] for head in heads] == [names, [], names]
    run_rows(tmp_path / "counted", rows, "replay.detail=gpus_only")
    assert json.loads((tmp_path / "counted" / "meta.json").read_text())["fitted"] == [], "nobody decides there"
