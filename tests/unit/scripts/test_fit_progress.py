"""Fits of a progress model to runs whose noise scale is known, and the script around them."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cache
from math import isnan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest

from analysis.fitting.progress import Fit, TrainingTrace, errors, fit, held_out, read_trace
from analysis.records.load import RecordError, load_run
from runtime.training.progress import Progress, ProgressModel, load_progress
from scripts.fitting import fit_progress as script
from tests.support.records import Story, apply, asp_story, rollback_story

BATCHES = (16, 64, 256)
KIND = {"workload": "digits", "task": {}, "optimizer": {"name": "sgd"}, "metric": "accuracy"}


def learned(progress: Any) -> Any:
    """The true curve: 0.9 at a progress of 92.1."""
    return 1 - 0.9 * np.exp(-progress / 41.93)


def trace(
    batch: int, phi: float, *, seed: int = 0, lr: float = 0.1, updates: int = 600, noise: float = 0.01
) -> TrainingTrace:
    """A run at the true noise scale ``phi`` (at a rate of 0.1), with evaluations that err by ``noise``."""
    rng = np.random.default_rng([seed, batch])
    scale = lr / 0.1
    versions = np.arange(0, updates, 4)
    values = learned(versions * scale / (1 + scale * phi / batch)) + noise * rng.standard_normal(len(versions))
    about: dict[str, Any] = {"name": f"b{batch}_s{seed}", "kind": KIND, "higher_is_better": True, "target": 0.9}
    steps = {"samples": np.full(updates, batch), "lrs": np.full(updates, lr), "versions": versions, "values": values}
    return TrainingTrace(batch_samples=batch, lr=lr, **about, **steps)


def traces(phi: float, batches: Sequence[int] = BATCHES, **given: Any) -> list[TrainingTrace]:
    return [trace(batch, phi, seed=seed, **given) for batch in batches for seed in range(2)]


@cache
def fitted() -> tuple[list[TrainingTrace], Fit, pd.DataFrame]:
    """Runs at a noise scale of 50, their fit, and what it predicts of batches that were left out."""
    runs = traces(50.0)
    return runs, (model := fit(runs)), held_out(runs, model, 0.9)


def story(batch: int, phi: float, updates: int = 120, lr_scale: float = 1.0, **given: Any) -> Story:
    """The same as a record: one worker, one gradient per update, an evaluation after every fourth update."""
    loss = given.pop("loss", 1.0)
    received = Story(**{"num_workers": 1, "global_batch_samples": batch, "lr": 0.1, **given})
    received.started()
    for k in range(updates):
        if k % 4 == 0:
            received.evaluated(0.1 * k, float(learned(k * lr_scale / (1 + lr_scale * phi / batch))))
        command = {**apply(k), "lr_scale": lr_scale}
        received.arrived(0.1 * k + 0.05, 0, k, [command], samples=batch, iteration=k, loss=loss)
    received.finished(0.1 * updates)
    return received


@pytest.fixture
def records(tmp_path: Path) -> Path:
    """Three batches, at a true noise scale of 32."""
    for batch in BATCHES:
        story(batch, 32.0, run_id=f"b{batch}").write(tmp_path / "runs" / f"b{batch}")
    return tmp_path / "runs"


@pytest.mark.parametrize("phi", [0.0, 5.0, 500.0])
def test_the_noise_scale_is_found_again(phi: float) -> None:
    model = fit(traces(phi))
    assert model.phi_samples == pytest.approx(phi, rel=0.15, abs=1.0)
    assert model.spread_frac < 0.15


def test_the_noise_scale_is_found_in_a_loss_that_falls() -> None:
    falling = [replace(each, higher_is_better=False, values=1 - each.values) for each in traces(50.0)]
    model = fit(falling)
    assert model.phi_samples == pytest.approx(50.0, rel=0.15)
    assert (np.diff(model.points[:, 1]) <= 0).all()


def test_the_model_says_how_many_updates_a_batch_needs() -> None:
    """Progress 92.1 at 0.9; an update of 64 samples at phi 32 makes 2/3 of that of an infinite batch."""
    assert fit(traces(32.0, noise=0.0)).updates(0.9, 64, 0.1) == pytest.approx(92.1 * 1.5, rel=0.02)
    assert isnan(fit(traces(32.0)).updates(1.5, 64, 0.1))


def test_analysis_and_runtime_speak_of_the_same_law() -> None:
    run = trace(64, 0.0, lr=0.03, updates=50)
    model = ProgressModel(schema=1, metric="accuracy", lr=0.1, phi_samples=70.0, points=((0, 0), (1, 1)))
    job = Progress(model)
    for samples, lr in zip(run.samples.tolist(), run.lrs.tolist(), strict=True):
        job.update(samples, lr / model.lr)
    assert run.progress(70.0, 0.1)[-1] == pytest.approx(job.progress)


def test_a_wrong_model_is_told_from_a_right_one() -> None:
    """Negative control: with a noise scale of 0 predictions are far off."""
    runs, good, tested = fitted()
    wrong = fit(runs, 0.0)
    assert wrong.spread_frac > 5 * good.spread_frac
    assert errors(held_out(runs, wrong, 0.9, 0.0))["updates_frac"] > 5 * errors(tested)["updates_frac"]


def test_one_batch_size_does_not_determine_phi() -> None:
    with pytest.raises(RecordError, match=r"same ratio of learning rate to batch \(0.1/64\).*or give phi"):
        fit(traces(50.0, [64]))
    model = fit(traces(50.0, [64]), 50.0)
    assert model.phi_samples == 50.0
    assert model.updates(0.9, 256, 0.1) == pytest.approx(92.1 * (1 + 50 / 256), rel=0.05)


def test_progress_proportional_to_samples_has_no_finite_phi() -> None:
    runs = [trace(batch, 0.0, updates=9600 // batch, noise=0.0) for batch in (16, 64)]
    runs = [replace(run, values=learned(run.versions * run.batch_samples / 16)) for run in runs]
    with pytest.raises(RecordError, match="the larger, the better"):
        fit(runs)


def test_runs_of_different_jobs_are_not_mixed() -> None:
    runs = traces(50.0)
    runs[-1] = replace(runs[-1], kind={**KIND, "optimizer": {"name": "adam"}})
    with pytest.raises(RecordError, match=r"b256_s1: optimizer is .*adam.*Fit them apart"):
        fit(runs)


def test_runs_that_share_no_level_are_refused() -> None:
    low, high = trace(16, 50.0), trace(64, 50.0)
    with pytest.raises(RecordError, match="no two runs reach the same value"):
        fit([replace(low, values=low.values * 0.01), replace(high, values=10 + high.values)])


def test_a_record_becomes_a_trace(tmp_path: Path) -> None:
    run = read_trace(load_run(story(16, 32.0, updates=40, lr_scale=0.5).write(tmp_path / "run")))
    assert (run.batch_samples, run.lr, run.target) == (16, 0.1, 0.9)
    assert run.samples.tolist() == [16] * 40
    assert run.lrs == pytest.approx(0.05)
    assert run.versions.tolist() == list(range(0, 40, 4))
    assert run.progress(32.0, 0.1)[-1] == pytest.approx(40 * 0.5 / 2)
    assert run.values[-1] == pytest.approx(learned(36 * 0.25))


UNUSABLE: dict[str, tuple[Callable[[], Story], str]] = {
    "label": (lambda: story(16, 1.0, backend="none"), "computed no gradients"),
    "losses": (lambda: story(16, 1.0, loss=None, runtime="virtual"), "computed no gradients"),
    "schedule": (lambda: story(16, 1.0, lr_schedule={"name": "step"}), "no constant learning rate"),
    "lr": (lambda: story(16, 1.0, lr=None), "no constant learning rate"),
    "rollback": (lambda: rollback_story(lr=0.1), "rolled back"),
    "stale": (lambda: asp_story(lr=0.1), "stale gradients"),
    "few": (lambda: story(16, 1.0, updates=16), "4 times, below 5"),
    "unscored": (lambda: story(16, 1.0, updates=0), "computed no gradients"),
}


@pytest.mark.parametrize("what", UNUSABLE)
def test_a_run_that_the_model_cannot_describe_is_refused_in_one_line(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    received, said = UNUSABLE[what]
    path = received().write(tmp_path / "run")
    assert script.main([str(path), "--phi", "1"]) == 2
    error = capsys.readouterr().err
    assert error.startswith(f"fit_progress.py: {path}: ")
    assert said in error
    assert error.count("\n") == 1


def test_the_script_writes_a_model_that_the_runtime_reads(
    records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    out = tmp_path / "conf" / "mine.yaml"
    assert script.main([str(records), "-o", str(out), "--target", "0.5"]) == 0
    model = load_progress(str(out))
    assert model.phi_samples == pytest.approx(32.0, rel=0.02)
    assert (model.workload, model.metric, model.lr) == ("digits", "accuracy", 0.1)
    assert model.covered is not None
    assert model.covered.batch_samples == (16, 256)
    assert len(model.runs) == 3
    assert model.errors["updates_frac"] < 0.05
    shown = capsys.readouterr().out
    assert "samples at lr=0.1 (fitted)" in shown
    assert "updates to accuracy = 0.5" in shown
    assert shown.rstrip().endswith(str(out))
    job = Progress(model)
    while job.metrics()["accuracy"] < 0.5:
        job.update(64)
    assert job.progress * 1.5 == pytest.approx(41.93 * np.log(1.8) * 1.5, abs=2.0)


def test_a_file_is_replaced_only_by_force(records: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """And a target that the metric cannot reach is refused; without one the model is not tested."""
    out = tmp_path / "mine.yaml"
    out.write_text("precious")
    assert script.main([str(records), "-o", str(out)]) == 2
    assert "exists; give another name, or --force" in capsys.readouterr().err
    assert out.read_text() == "precious"
    assert script.main([str(records), "-o", str(out), "--force"]) == 0
    assert load_progress(str(out)).runs
    assert script.main([str(records), "--target", "2"]) == 2
    assert "--target=2: accuracy is between 0 and 1" in capsys.readouterr().err
    for batch in BATCHES:
        story(batch, 32.0, target=None).write(tmp_path / "aimless" / f"b{batch}")
    assert script.main([str(tmp_path / "aimless")]) == 0
    assert "give --target" in capsys.readouterr().out


def test_the_error_of_phi_is_the_jackknife_s() -> None:
    """Of 1, 2 and 6, each fitted without one of three rows: sqrt(2 x their variance, 14/3)."""
    tested = pd.DataFrame({"updates": [10.0] * 3, "predicted": [11.0, 9.0, 10.0], "phi_samples": [1.0, 2.0, 6.0]})
    assert errors(tested)["phi_samples"] == pytest.approx((2 * 14 / 3) ** 0.5)
    assert errors(tested)["updates_frac"] == pytest.approx(0.2 / 3)
