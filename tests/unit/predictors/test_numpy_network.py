"""The network that learns in slices, and ridge regression: gradients, fits, files."""

from __future__ import annotations

import pickle
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from sklearn.linear_model import Ridge as Reference

from predictors.network import Network, first_parameters, layers_of, spread
from predictors.network_file import load_network, network_bytes
from predictors.ridge import PENALTY, Ridge

RNG = np.random.default_rng(0)
INPUTS = RNG.normal(2.0, 3.0, (200, 3))
TARGETS = INPUTS[:, 0] * 0.5 + np.abs(INPUTS[:, 1]) + 4.0
NAMES = ("a", "b", "c")


def torch_of(network: Network) -> torch.nn.Sequential:
    """The same network in torch, on standardised rows."""
    layers: list[torch.nn.Module] = []
    for matrix, bias in layers_of(network.parameters.copy(), network.sizes):
        linear = torch.nn.Linear(*matrix.shape, dtype=torch.float64)
        linear.weight.data, linear.bias.data = torch.tensor(matrix.T), torch.tensor(bias)
        layers += [linear, torch.nn.ReLU()]
    return torch.nn.Sequential(*layers[:-1])


def standard(values: np.ndarray) -> torch.Tensor:
    return torch.tensor((values - values.mean(axis=0)) / values.std(axis=0))


def test_a_fit_is_that_of_torch() -> None:
    """Adam on whole batches, with weights, and a rate that falls."""
    network, weights = Network(3, (5, 4), rate=0.01, batch_rows=1000), RNG.uniform(0.5, 2.0, 200)
    other = torch_of(network)
    optimizer = torch.optim.Adam(other.parameters(), lr=0.01)
    network.fit(INPUTS, TARGETS, weights, epochs=30)
    rows, wanted, own = standard(INPUTS), standard(TARGETS), torch.tensor(weights / weights.mean())
    for step in range(30):
        optimizer.param_groups[0]["lr"] = 0.01 * (0.01 + 0.99 * (1 - step / 30))
        optimizer.zero_grad()
        (0.5 * (own * (other(rows)[:, 0] - wanted) ** 2).mean()).backward()
        optimizer.step()
    with torch.no_grad():
        expected = other(rows)[:, 0].numpy() * TARGETS.std() + TARGETS.mean()
    assert network.predict(INPUTS) == pytest.approx(expected, rel=1e-6)


def test_slices_are_the_whole_and_predict_nothing_half_learnt() -> None:
    whole, sliced = Network(3, (8, 4)), Network(3, (8, 4))
    whole.fit(INPUTS, TARGETS, epochs=3)
    sliced.fit(INPUTS, TARGETS, epochs=1)
    before = sliced.predict(INPUTS)
    one_more, again = pickle.loads(pickle.dumps(sliced)), pickle.loads(pickle.dumps(sliced))
    one_more.fit(INPUTS, TARGETS, epochs=2)
    again.begin(INPUTS, TARGETS, epochs=2)
    for _ in range(7):
        assert not again.advance(1)
        again = pickle.loads(pickle.dumps(again))
        assert (again.predict(INPUTS) == before).all()
    assert again.advance(1)
    assert again.advance(1), "there is nothing left"
    assert (again.predict(INPUTS) == one_more.predict(INPUTS)).all()
    assert (again.predict(INPUTS) != before).any()


def test_ridge_is_that_of_sklearn() -> None:
    own, weights = Ridge(3), RNG.uniform(0.5, 2.0, 200)
    own.begin(INPUTS, TARGETS, weights)
    scaled = standard(INPUTS).numpy()
    mean = np.average(TARGETS, weights=weights)
    root = np.sqrt(weights / weights.mean())
    reference = Reference(alpha=PENALTY * 200, fit_intercept=False).fit(scaled * root[:, None], (TARGETS - mean) * root)
    assert own.predict(INPUTS) == pytest.approx(scaled @ reference.coef_ + mean, rel=1e-9)


def test_what_is_hashed_has_no_pattern() -> None:
    numbers = spread(10_000, 3)
    assert ((numbers > 0) & (numbers < 1)).all()
    assert numbers.mean() == pytest.approx(0.5, abs=0.01)
    assert np.histogram(numbers, 10)[0] == pytest.approx(np.full(10, 1000), rel=0.1)
    assert abs(np.corrcoef(numbers[1:], numbers[:-1])[0, 1]) < 0.03
    assert abs(np.corrcoef(numbers, spread(10_000, 4))[0, 1]) < 0.03
    first = first_parameters((50, 20, 1))
    assert first[:1000].std() == pytest.approx(np.sqrt(2 / 50), rel=0.05)


def test_inputs_far_away_count_as_less_far() -> None:
    network = Network(3, (8, 4))
    network.fit(INPUTS, TARGETS)
    far = INPUTS.mean(axis=0) + 6.0 * INPUTS.std(axis=0)
    assert network.predict(far[None] * 1000) == pytest.approx(network.predict(far[None]))


@pytest.fixture
def network() -> Network:
    found = Network(3, (8, 4))
    found.fit(INPUTS, TARGETS, epochs=2)
    return found


def test_a_file_holds_all_of_it(network: Network, tmp_path: Path) -> None:
    path = tmp_path / "kept.npz"
    path.write_bytes(network_bytes(network, NAMES, "targets", "a command"))
    again = load_network(str(path), "modes", NAMES)
    assert (again.about, again.command) == ("targets", "a command")
    assert (again.network.predict(INPUTS) == network.predict(INPUTS)).all()


def spoilt(path: Path, network: Network, **changes: Any) -> None:
    path.write_bytes(network_bytes(network, NAMES, "", ""))
    with np.load(path) as arrays:
        fields = {name: arrays[name] for name in arrays.files} | changes
    np.savez(path, **{name: value for name, value in fields.items() if value is not None})


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        (None, "no such file"),
        (b"no zip", "is not a file of a network"),
        ({"format": "other"}, "was not made by scripts/fitting/train_modes.py"),
        ({"features": np.array(["a", "b", "d"])}, "is a model of 3 features instead of 3, among them 'd'"),
        ({"features": np.array(["a", "c", "b"])}, "is a model of 3 features instead of 3, in another order"),
        ({"parameters": None}, "has not the numbers of a fitted network"),
        ({"mean": np.array([0.0, np.nan, 0.0])}, "numbers that are not finite"),
        ({"scale": np.zeros(3)}, "scales of zero"),
    ],
)
def test_a_file_of_something_else_is_refused_in_one_line(
    changes: Any, words: str, network: Network, tmp_path: Path
) -> None:
    path = tmp_path / "given.npz"
    if isinstance(changes, bytes):
        path.write_bytes(changes)
    elif changes is not None:
        spoilt(path, network, **changes)
    with pytest.raises(ValueError, match=words) as caught:
        load_network(str(path), "modes", NAMES)
    assert str(caught.value).startswith(f"weights={path}: ")
    assert "\n" not in str(caught.value)
