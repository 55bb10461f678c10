"""The progress model against numbers worked by hand, its files, and the backend that uses it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.backends.none import NoBackend
from runtime.config.instantiate import instantiate
from runtime.errors import ConfigError
from runtime.training.progress import DIRECTORY, Progress, ProgressModel, load_progress, parse_progress

POINTS = ((0.0, 0.1), (10.0, 0.5), (30.0, 0.9))
GOOD = "schema: 1\nmetric: accuracy\nlr: 0.1\nphi_samples: 64\npoints: [[0, 0.1], [10, 0.5], [30, 0.9]]\n"


def model(phi_samples: Any = 0.0, **given: Any) -> ProgressModel:
    return ProgressModel(
        **{"schema": 1, "metric": "accuracy", "lr": 0.1, "points": POINTS, **given}, phi_samples=phi_samples
    )


def after(*updates: tuple[int, float], phi_samples: Any = 0.0) -> float:
    progress = Progress(model(phi_samples))
    for samples, lr_scale in updates:
        progress.update(samples, lr_scale)
    return progress.progress


@pytest.mark.parametrize(
    ("updates", "phi_samples", "progress"),
    [
        ([(1, 1.0), (64, 1.0), (4096, 1.0)], 0.0, 3.0),  # without noise it counts updates
        ([(128, 1.0)], 128.0, 0.5),
        ([(64, 2.0)], 64.0, 2 / 3),  # a long step gains less than its length: 2 / (1 + 2 * 64/64)
    ],
)
def test_progress_by_hand(updates: list[tuple[int, float]], phi_samples: float, progress: float) -> None:
    assert after(*updates, phi_samples=phi_samples) == pytest.approx(progress)


@given(parts=st.integers(1, 64), samples=st.integers(1, 512), phi=st.floats(0, 1e5), scale=st.floats(0.01, 100))
def test_an_update_cut_up_with_its_learning_rate_makes_the_same_progress(
    parts: int, samples: int, phi: float, scale: float
) -> None:
    """What ``batch_linear`` does to an asynchronous job."""
    whole = after((samples * parts, scale), phi_samples=phi)
    assert after(*[(samples, scale / parts)] * parts, phi_samples=phi) == pytest.approx(whole)


@pytest.mark.parametrize(("samples", "lr_scale"), [(0, 1.0), (-1, 1.0), (8, -0.1), (8, float("nan"))])
def test_an_impossible_update_is_refused(samples: int, lr_scale: float) -> None:
    progress = Progress(model())
    with pytest.raises(ValueError, match="must be at least"):
        progress.update(samples, lr_scale)
    assert progress.progress == 0.0


@pytest.mark.parametrize(("progress", "accuracy"), [(0, 0.1), (5, 0.3), (20, 0.7), (1e9, 0.9)])
def test_the_metric_is_linear_between_the_points_and_flat_beyond(progress: float, accuracy: float) -> None:
    job = Progress(model())
    job.load_state({"progress": progress})
    assert job.metrics() == {"accuracy": pytest.approx(accuracy)}


def test_a_rollback_takes_progress_back_exactly() -> None:
    progress = Progress(model(32.0))
    progress.update(64)
    saved = progress.state()
    progress.update(64)
    whole = progress.progress
    progress.load_state(saved)
    assert progress.progress == saved["progress"] == pytest.approx(2 / 3)
    progress.update(64)
    assert progress.progress == whole
    fresh = Progress(model(32.0))
    fresh.load_state(progress.state())
    assert fresh.state() == progress.state()


@pytest.mark.parametrize("state", [{"step": 3.0}, {"progress": float("nan")}])
def test_a_foreign_state_is_refused(state: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="progress state"):
        Progress(model()).load_state(state)


def test_files_are_read_by_path_and_name_and_missing_ones_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"no such file or directory.*there are none"):
        load_progress("mine", tmp_path)
    (tmp_path / "digits.yaml").write_text(GOOD)
    with pytest.raises(ConfigError, match="there are digits, or give a path"):
        load_progress("mine", tmp_path)
    (tmp_path / "mine.yaml").write_text(GOOD)
    assert load_progress("mine", tmp_path) == load_progress(str(tmp_path / "mine.yaml"))
    assert load_progress("mine", tmp_path).points == POINTS


@pytest.mark.parametrize("path", sorted(DIRECTORY.glob("*.yaml")), ids=lambda path: path.stem)
def test_every_file_in_conf_is_a_model(path: Path) -> None:
    assert load_progress(path.stem).runs


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("a: [", "is not a YAML file"),
        (GOOD.replace("schema: 1", "schema: 2"), "schema=2: must be 1"),
        (GOOD.replace("metric: accuracy\n", ""), "metric: missing"),
        (GOOD + "phi: 3\n", "phi: no such setting"),
        (GOOD.replace("64", "-1"), "phi_samples=-1"),
        (GOOD.replace("metric: accuracy", "metric: version"), "metric=version"),
        (GOOD.replace("64", "[]"), "phi_samples: must be a number, or pairs"),
        (GOOD.replace("64", "[[0, 1], [0, 2]]"), "phi_samples: progress 0 after 0"),
        (GOOD.replace("[10, 0.5]", "[30, 0.5]"), "points: progress 30 after 30"),
        (GOOD.replace("[10, 0.5]", "[10, 0.05]"), "points: the value must only rise or only fall"),
        (GOOD.replace("[0, 0.1], [10, 0.5], ", ""), "points: must be two or more"),
    ],
)
def test_a_file_of_no_use_is_refused_in_one_line(text: str, said: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_progress(text.encode(), "mine")
    assert str(caught.value).startswith("backend.progress=mine: ")
    assert said in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_model_of_another_job_is_refused() -> None:
    model(workload="digits").check("digits", "accuracy")
    model().check("anything", "accuracy")
    with pytest.raises(ConfigError, match="of workload=digits, not of ledger"):
        model(workload="digits").check("ledger", "accuracy")
    with pytest.raises(ConfigError, match="of the metric accuracy, not of loss"):
        model().check("digits", "loss")


class Task:
    num_parameters = 7


def test_the_size_of_messages_is_given_or_the_tasks_own_or_nothing() -> None:
    assert NoBackend(num_parameters=10**9).parameters_of(Task()) == 10**9
    assert NoBackend().parameters_of(Task()) == 7
    assert NoBackend().parameters_of(object()) == 0


@pytest.mark.parametrize("count", [0, -1])
def test_a_model_without_parameters_is_refused(count: int) -> None:
    with pytest.raises(ConfigError, match=f"backend.num_parameters={count}: must be at least 1, or null"):
        instantiate({"_target_": "runtime.backends.none.NoBackend", "num_parameters": count}, "backend")
