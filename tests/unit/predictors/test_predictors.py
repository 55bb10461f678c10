"""Predictors of speed: worked numbers, recovered coefficients, and what they owe to whoever asks."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from predictors.arx import Arx
from predictors.base import SpeedPredictor, SpeedRecord
from predictors.by_speed import SPEED_PREDICTORS, prepare, speed_predictor
from predictors.ema import Ema
from predictors.history import History
from predictors.narx import Narx
from tests.support.examples import examples

every_predictor = pytest.mark.parametrize("name", SPEED_PREDICTORS)


def received(predictor: SpeedPredictor, *speeds: float) -> SpeedPredictor:
    for speed in speeds:
        predictor.update(SpeedRecord(speed))
    return predictor


def autoregressive(count: int, seed: int = 0, curve: float = 0.0) -> list[SpeedRecord]:
    """v(t) = 0.5 v(t-1) + 0.3 v(t-2) + 20 c(t), without noise; ``curve`` bends it."""
    chance = np.random.default_rng(seed)
    records = [SpeedRecord(60.0, 0.5), SpeedRecord(50.0, 0.5)]
    for cpu in chance.uniform(0.1, 1.0, count - 2):
        newest, before = records[-1].speed, records[-2].speed
        speed = 0.5 * newest + 0.3 * before + 20 * cpu + curve * (cpu - 0.5) ** 2
        records.append(SpeedRecord(speed, float(cpu)))
    return records


def test_the_average_follows_a_change_slowly() -> None:
    """a = 0.2: after 100, 100, 50 the forecast is 90, after another 50 it is 82."""
    predictor = Ema(0.2)
    forecasts = [received(predictor, speed).predict() for speed in (100, 100, 50, 50)]
    assert forecasts == pytest.approx([100, 100, 90, 82])


def test_the_linear_fit_recovers_the_coefficients_and_is_renewed_with_every_fifth_record() -> None:
    predictor = Arx()
    for record in autoregressive(40):
        predictor.update(record)
    predictor.predict(0.5)
    found = predictor.coefficients
    assert found["v(t)"] == pytest.approx(0.5, abs=1e-6)
    assert found["v(t-1)"] == pytest.approx(0.3, abs=1e-6)
    assert found["c(t+1)"] == pytest.approx(20, rel=1e-6)
    assert [found[other] for other in ("c(t)", "m(t+1)", "m(t)")] == pytest.approx([0, 0, 0], abs=1e-4)
    predictor, fits = Arx(refit_every=5), []
    for count, record in enumerate(autoregressive(30), 1):
        predictor.update(record)
        before = dict(predictor.coefficients)
        predictor.predict(0.5)
        if predictor.coefficients != before:
            fits.append(count)
    assert fits[0] == 10, "eight rows of three records each"
    assert fits[1:] == [15, 20, 25, 30]


def test_the_network_is_the_line_until_fifty_records_and_learns_what_a_line_cannot() -> None:
    """A parabola in c: over 200 iterations the network's error is less than half the linear fit's."""
    errors: dict[str, list[float]] = {"narx": [], "arx": []}
    predictors = {name: speed_predictor(name) for name in errors}
    for count, record in enumerate(autoregressive(400, curve=200.0)):
        for name, predictor in predictors.items():
            if count >= 200:
                errors[name].append(abs(predictor.predict(record.cpu) - record.speed))
            predictor.update(record)
    assert np.mean(errors["narx"]) < 0.5 * np.mean(errors["arx"])
    network, line = Narx(), Arx()
    agreed = []
    for count, record in enumerate(autoregressive(60, curve=200.0), 1):
        network.update(record)
        line.update(record)
        agreed.append((count, network.predict(0.3) == line.predict(0.3)))
    assert all(same for count, same in agreed if count < 50)
    assert not any(same for count, same in agreed if count >= 50)


@every_predictor
def test_without_a_record_there_is_no_forecast(name: str) -> None:
    with pytest.raises(ValueError, match="no iteration has been recorded"):
        speed_predictor(name).predict()


@every_predictor
@examples(20)
@given(speeds=st.lists(st.floats(0.01, 1e6), min_size=1, max_size=70), cpu=st.floats(0, 64))
def test_a_forecast_is_positive_and_of_the_order_of_what_was_seen(name: str, speeds: list[float], cpu: float) -> None:
    predictor = speed_predictor(name)
    for index, speed in enumerate(speeds):
        predictor.update(SpeedRecord(speed, cpu=float(index % 3), memory=1e9 * (1 + index % 5)))
    assert min(speeds) / 2 * (1 - 1e-9) <= predictor.predict(cpu, 1e9) <= max(speeds) * 2 * (1 + 1e-9)


@every_predictor
def test_after_a_long_calm_a_sudden_slowness_is_believed(name: str) -> None:
    """100 records around 570, then four times as slow: whatever has been learnt says nothing about that."""
    chance = np.random.default_rng(0)
    predictor = received(speed_predictor(name), *chance.normal(570, 15, 100))
    assert predictor.predict() == pytest.approx(570, rel=0.1)
    predictions = [received(predictor, speed).predict() for speed in [140.0] * 12]
    if name == "ema":
        assert predictions[-1] < 200
    else:
        assert predictions == pytest.approx([140.0] * 12, rel=0.25)
    assert received(predictor, *chance.normal(570, 15, 8)).predict() > 400, "and so is its end"


@pytest.mark.parametrize(("speed", "novel"), [(84.0, False), (83.0, True), (132.0, False), (133.0, True)])
def test_a_speed_is_new_that_differs_by_more_than_a_fifth_from_all_that_were_learnt(speed: float, novel: bool) -> None:
    """Learnt are 100 to 110: 100 / 1.2 = 83.3 and 110 x 1.2 = 132 are the last that are not new."""
    history = History(window=50)
    for known in (100.0, 105.0, 110.0):
        history.add(SpeedRecord(known))
    history.table()
    history.add(SpeedRecord(speed))
    assert history.novel is novel


@pytest.mark.parametrize("name", ["narx", "arx"])
def test_who_is_fitted_together_predicts_the_same_to_the_bit(name: str) -> None:
    """Seven workers, of whom one has fewer records, until networks take over from linear fits."""
    alone, together = ([speed_predictor(name) for _ in range(7)] for _ in range(2))
    chance = np.random.default_rng(1)
    for step in range(60):
        for worker in range(7 if step > 3 else 6):
            record = SpeedRecord(float(chance.uniform(40, 60)), float(chance.uniform(0.5, 1.0)))
            alone[worker].update(record)
            together[worker].update(record)
        known = slice(7 if step > 3 else 6)
        prepare(together[known])
        assert [one.predict(0.7) for one in together[known]] == [one.predict(0.7) for one in alone[known]]


def test_a_window_keeps_its_newest_records() -> None:
    history = History(4)
    for number in range(1, 12):
        history.add(SpeedRecord(float(number), number / 10, number / 100))
        assert history.num_rows == max(0, min(number, 4) - 2)
    rows, speeds = history.table()
    assert rows.tolist() == [[9.0, 8.0, 1.0, 0.9, 0.1, 0.09], [10.0, 9.0, 1.1, 1.0, 0.11, 0.1]]
    assert speeds.tolist() == [10.0, 11.0]
    assert history.row(0.5, 0.25).tolist() == [11.0, 10.0, 0.5, 1.1, 0.25, 0.11]


def test_a_record_without_a_number_is_left_out_of_the_fit() -> None:
    narx = Narx()
    for i in range(120):
        narx.update(SpeedRecord(speed=20.0 + i % 5, cpu=float("nan") if i == 60 else 1.0, memory=1.0))
        assert 10.0 < narx.predict() < 40.0
