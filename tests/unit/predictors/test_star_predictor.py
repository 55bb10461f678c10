"""STAR's predictor: times from resources, an LSTM in numpy, the files that hold one, and what it tags."""

from __future__ import annotations

from importlib.util import find_spec
from math import nan
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from predictors.fitted_file import FITTED
from predictors.from_resources import FromResources
from predictors.iteration_time import fit_times, inputs_of, predict_times
from predictors.lstm import Lstm, load_lstm
from predictors.received import RESOURCES, Received, forecast
from predictors.registry import straggler_predictor
from predictors.regressors import REGRESSORS, regressor
from predictors.stragglers import Observation

RNG = np.random.default_rng(0)
BATCH = RNG.choice([32.0, 64.0, 128.0], 60)
CPU, SPEED = RNG.uniform(0.2, 1.0, 60), RNG.uniform(1e7, 1e8, 60)
TIMES = 0.02 + 0.0005 * BATCH / CPU + 8e6 / SPEED
INPUTS = inputs_of(BATCH, CPU, np.full(60, 8e6), SPEED)


def test_a_fit_recovers_the_law() -> None:
    """T = 0.02 + 0.0005 b / cpu + bytes / bandwidth; 128 samples, half a processor, 8 MB at 40 MB/s: 0.348 s."""
    found = fit_times(INPUTS, TIMES)
    assert found == pytest.approx((0.02, 0.0005, 1.0), rel=1e-6)
    one = inputs_of(*(np.array([value]) for value in (128.0, 0.5, 8e6, 40e6)))
    assert predict_times(found, one) == pytest.approx([0.348])


@pytest.mark.parametrize("name", REGRESSORS)
def test_every_regressor_learns_and_is_deterministic(name: str) -> None:
    if name == "lightgbm" and find_spec(name) is None:
        pytest.skip("lightgbm is not installed")
    times = []
    for _ in range(2):
        model = regressor(name)
        model.fit(INPUTS, TIMES)
        times.append(model.predict(INPUTS))
    assert (times[0] == times[1]).all()
    assert np.median(np.abs(times[0] / TIMES - 1)) < 0.1


def test_a_regressor_that_is_not_installed_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("predictors.regressors.find_spec", lambda name: None)
    with pytest.raises(ValueError, match=r"^star:regressor=lightgbm: lightgbm is not installed; pip install 'stragg"):
        straggler_predictor("star", {"regressor": "lightgbm"})


def network(values: int, hidden: int = 7) -> tuple[Lstm, Any, Any]:
    torch.manual_seed(0)
    lstm, head = torch.nn.LSTM(values, hidden, 2, batch_first=True), torch.nn.Linear(hidden, values)
    layers = []
    for n in range(2):
        into, again, one, other = (
            getattr(lstm, f"{name}_l{n}").detach().numpy().astype(float)
            for name in ("weight_ih", "weight_hh", "bias_ih", "bias_hh")
        )
        layers.append((into, again, one + other))
    own = Lstm(
        series="resources",
        mean=np.array([0.5, 2.0][:values]),
        scale=np.array([0.25, 3.0][:values]),
        layers=tuple(layers),
        head=head.weight.detach().numpy().astype(float),
        head_bias=head.bias.detach().numpy().astype(float),
    )
    return own, lstm, head


@pytest.mark.parametrize("values", [1, 2])
def test_inference_is_that_of_torch(values: int) -> None:
    """Rolled out: every prediction is the next input."""
    own, lstm, head = network(values)
    history = RNG.normal(1.0, 2.0, (3, 11, values))
    scaled = torch.tensor((history - own.mean) / own.scale, dtype=torch.float32)
    expected = []
    with torch.no_grad():
        for _ in range(4):
            following = head(lstm(scaled)[0][:, -1:])
            expected.append(following.numpy()[:, 0] * own.scale + own.mean)
            scaled = torch.cat([scaled, following], dim=1)
    assert own.roll_out(history, 4) == pytest.approx(np.stack(expected, axis=1), rel=1e-4, abs=1e-5)


@pytest.mark.parametrize("series", ["resources", "deviation"])
def test_the_files_that_come_along_say_how_they_were_made(series: str) -> None:
    own = load_lstm("", series)
    assert f"--series {series}" in own.command
    last = np.ones((1, 50, 2 if series == "resources" else 1)) * 0.25
    assert own.roll_out(last, 1)[0, 0] == pytest.approx(last[0, 0], abs=0.15), "what is steady stays"


def written(path: Path, **changes: Any) -> Path:
    with np.load(FITTED / "resources.npz") as arrays:
        fields = {name: arrays[name] for name in arrays.files} | changes
    np.savez(path, **{name: value for name, value in fields.items() if value is not None})
    return path


@pytest.mark.parametrize(
    ("spoil", "words"),
    [
        (lambda path: None, "no such file"),
        (lambda path: path.write_bytes(b"no zip"), "is not a file of weights"),
        (lambda path: np.savez(path, weights=np.ones(3)), "was not made by scripts/fitting/train_predictor.py"),
        (lambda path: written(path, series="deviation"), "predicts deviation, not resources"),
        (lambda path: written(path, head=np.ones((2, 3))), "has not the arrays of a fitted LSTM"),
        (lambda path: written(path, head_bias=np.array([nan, 0.0])), "is not fitted"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(spoil: Any, words: str, tmp_path: Path) -> None:
    path = tmp_path / "given.npz"
    spoil(path)
    with pytest.raises(ValueError, match=words) as caught:
        straggler_predictor("star", {"weights": str(path)})
    assert str(caught.value).startswith(f"star:weights={path}: ")
    assert "\n" not in str(caught.value)


def seen(worker: int, number: int, cpu_frac: float, samples: float = 64.0) -> Observation:
    iter_s = 0.02 + 0.0005 * samples / cpu_frac
    return Observation(number, worker, number, iter_s, cpu_frac=cpu_frac, bytes_per_s=1e8, samples=samples)


@pytest.mark.parametrize("resources", RESOURCES)
@pytest.mark.parametrize("model", ["linear", "mlp"])
def test_who_is_left_with_less_processor_is_tagged(resources: str, model: str) -> None:
    predictor = FromResources(resources=resources, regressor=model, history_iters=30, refit_every=50)
    for number in range(60):
        for worker, cpu_frac in enumerate((0.4, 0.4 + 0.001 * (number % 7), 0.1 if number > 29 else 0.41)):
            predictor.update(seen(worker, number, cpu_frac))
    assert predictor.tags(60.0) == {2}
    # the LSTM expects part of the processor back, as in the runs it was fitted to (a share of 0.13 for 0.1)
    assert predictor.seconds()[2] == pytest.approx(0.02 + 0.0005 * 64 / 0.1, rel=0.3)


def test_batches_as_the_last_and_times_where_resources_are_unknown() -> None:
    """The same resources, but four times the samples."""
    predictor = FromResources(resources="last", history_iters=30)
    for number in range(40):
        for worker in range(2):
            predictor.update(seen(worker, number, 0.4, samples=256.0 if worker and number > 20 else 64.0))
    assert predictor.tags(40.0) == {1}
    predictor = FromResources()
    for number in range(20):
        for worker, iter_s in enumerate((1.0, 1.0 + 0.5 * (number == 19))):
            predictor.update(Observation(number, worker, number, iter_s))
    assert predictor.seconds() == {0: 1.0, 1: 1.5}
    assert predictor.tags(20.0) == {1}


def test_forecasts_stay_possible() -> None:
    """An average of growing shares, and never more than a processor."""
    own = Received(4)
    for number, cpu_frac in enumerate((0.2, 0.6, 1.0)):
        own.add(seen(0, number, cpu_frac))
    assert own.table()[:, 0].tolist() == [0.2, 0.2, 0.6, 1.0], "the oldest stands for what came before"
    weights = np.array([0.8**3, 0.8**2, 0.8, 1.0])
    assert forecast("ema", "", [own], 1, 1)[0, 0, 0] == pytest.approx(
        (own.table()[:, 0] * weights).sum() / weights.sum()
    )
    assert forecast("last", "", [own], 2, 3)[0].tolist() == [[1.0, 1e8], [1.0, 1e8]]
    assert (shares := forecast("lstm", "", [own], 2, 4)[0, :, 0]).shape == (3,)
    assert 0.0 < shares.min() <= shares.max() <= 1.0


@pytest.mark.parametrize(
    ("name", "settings", "words"),
    [
        ("star", {"horizon_iters": 101}, "horizon_iters=101: must be at most history_iters"),
        ("star", {"regressor": "guess"}, "regressor=guess: must be one of linear, mlp, lightgbm"),
        ("star", {"resources": "guess"}, "resources=guess: must be one of lstm, ema, last"),
        ("lstm_ratio", {"min_records": 0}, "min_records=0"),
    ],
)
def test_settings_are_refused_by_name(name: str, settings: dict[str, Any], words: str) -> None:
    with pytest.raises(ValueError, match=words):
        straggler_predictor(name, settings)


def falling(resources: str = "lstm", **settings: Any) -> FromResources:
    """Worker 1 gets less and less of its processor, worker 0 always the same."""
    predictor = FromResources(resources=resources, history_iters=30, refit_every=50, **settings)
    for number in range(60):
        predictor.update(seen(0, number, 0.6))
        predictor.update(seen(1, number, 0.9 - 0.01 * number))
    return predictor


def test_later_iterations_are_those_of_a_longer_roll_out_as_far_as_is_known() -> None:
    """From the second to the fourth: as if each had been asked for by itself."""
    ahead = falling().seconds_ahead(2, 4)
    single = [falling(horizon_iters=horizon).seconds()[1] for horizon in (2, 3, 4)]
    assert ahead[1] == pytest.approx(single)
    assert len(set(ahead[1])) == 3, "no two are the same"
    predictor = falling()
    known = predictor.seconds_ahead(1, 30)[1]
    assert predictor.seconds_ahead(29, 32)[1] == pytest.approx((known[28], known[29], known[29], known[29]))
    predictor.update(Observation(60.0, 2, 0, 3.0))
    assert predictor.seconds_ahead(3, 5)[2] == (3.0, 3.0, 3.0), "who is hardly known keeps its last time"
