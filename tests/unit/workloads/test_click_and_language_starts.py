"""What click and language models start as: PyTorch's own distributions, but for the tensors that the models say."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pytest
import torch
from numpy.typing import NDArray
from torch import nn

from runtime.backends.base import task_parameters
from runtime.backends.torch import TorchBackend, TorchModel
from workloads.models import clicks, language
from workloads.models.clicks import Fields, WideDeepSize, XDeepFMSize, click_initializers
from workloads.models.initial import Initializer, constant, draw, normal, uniform
from workloads.models.language import LSTMSize, TransformerSize, language_initializers
from workloads.models.torch.clicks import click_module
from workloads.models.torch.language import language_module

FIELDS = Fields(num_dense=3, cardinalities=(50, 20, 30, 100))
WORDS = 300
CLICKS: dict[str, WideDeepSize | XDeepFMSize] = {
    "wide_deep": WideDeepSize(embedding=32, hidden=(256, 128), crosses=((0, 1), (2, 3)), cross_buckets=30),
    "wide": WideDeepSize(hidden=()),
    "xdeepfm": XDeepFMSize(embedding=32, cin=(128, 64), hidden=(256, 128)),
}
LANGUAGE: dict[str, LSTMSize | TransformerSize] = {
    "lstm": LSTMSize(embedding=96, hidden=128, layers=3),
    "transformer": TransformerSize(width=128, heads=4, feedforward=256),
}
OURS = {
    "wide.weight": normal(1, clicks.INIT_STD),
    "linear.weight": normal(1, clicks.INIT_STD),
    "table.weight": normal(1, clicks.INIT_STD),
    "bias": constant(1, 0.0),
    "embedding.weight": uniform(1, language.INIT_RANGE),
    "output.weight": uniform(1, language.INIT_RANGE),
    "output.bias": constant(1, 0.0),
}
"""Tensors that do not start as PyTorch's do, whatever their number of parameters."""

Vector = NDArray[np.float32]


def model(name: str) -> tuple[nn.Module, list[Initializer]]:
    """As PyTorch initialises it, and what it is to start as."""
    torch.manual_seed(1)
    if name in CLICKS:
        return click_module(CLICKS[name], FIELDS), click_initializers(CLICKS[name], FIELDS)
    return language_module(LANGUAGE[name], WORDS), language_initializers(LANGUAGE[name], WORDS)


def alike(drawn: Vector, wanted: Vector) -> bool:
    """Of the same distribution, as far as 128 numbers tell a uniform one from another."""
    if wanted.std() == 0:
        return bool((drawn == wanted).all())
    return bool(0.85 < drawn.std() / wanted.std() < 1.15 and 0.9 < np.abs(drawn).max() / np.abs(wanted).max() < 1.1)


@pytest.mark.parametrize("name", [*CLICKS, *LANGUAGE])
def test_every_tensor_starts_as_in_pytorch_or_as_its_model_says(name: str) -> None:
    module, starts = model(name)
    parameters = dict(module.named_parameters())
    assert [start.count for start in starts] == [parameter.numel() for parameter in parameters.values()]
    drawn = np.split(draw(0, starts), np.cumsum([start.count for start in starts])[:-1])
    compared = 0
    for (place, parameter), start, values in zip(parameters.items(), starts, drawn, strict=True):
        if place in OURS:
            assert start == replace(OURS[place], count=start.count), place
            continue
        theirs = parameter.detach().numpy().ravel()
        assert alike(values, theirs), place
        assert start.kind == "constant" or not alike(1.4 * values, theirs), place
        compared += 1
    assert compared + len(OURS.keys() & parameters) == len(starts)


def test_draws_have_the_value_the_bound_and_the_deviation_that_are_asked_for() -> None:
    flat, bounded, bell = np.split(
        draw(3, [constant(4, 0.5), uniform(20_000, 0.25), normal(20_000, 0.01)]), [4, 20_004]
    )
    assert flat.tolist() == [0.5] * 4
    starts = click_initializers(CLICKS["xdeepfm"], FIELDS)
    assert draw(3, starts).tobytes() == draw(3, starts).tobytes() != draw(4, starts).tobytes()
    assert (bounded.min(), bounded.max()) == pytest.approx((-0.25, 0.25), rel=1e-3)
    assert (bounded.mean(), bounded.std()) == pytest.approx((0, 0.25 / 3**0.5), rel=0.02, abs=0.003)
    assert (bell.mean(), bell.std()) == pytest.approx((0, 0.01), rel=0.02, abs=0.0003)
    assert (np.abs(bell) > 0.02).mean() == pytest.approx(0.0455, rel=0.1)


@dataclass
class Drawing:
    """A task of one layer that draws its own parameters."""

    count: int = 8

    def initial_parameters(self, seed: int) -> Vector:
        return np.full(self.count, seed, dtype=np.float32)

    def load(self) -> Any: ...

    def torch_module(self) -> nn.Module:
        return nn.Linear(3, 2)


class Unbuilt(Drawing):
    """Its network is not to be asked for."""

    def torch_module(self) -> nn.Module:
        raise AssertionError


class Plain(Drawing):
    """It leaves the drawing to PyTorch."""

    initial_parameters = None  # type: ignore[assignment]


def test_pytorch_begins_with_what_the_task_draws() -> None:
    assert TorchModel(Drawing(), 5, 1).initial_parameters().tolist() == [5.0] * 8
    begun = TorchModel(Plain(), 5, 1).initial_parameters()
    assert task_parameters(Plain(), 5) is None
    assert len(set(begun.tolist())) == 8


def test_a_server_builds_no_network_for_it() -> None:
    assert TorchBackend().initial_parameters(Unbuilt(), 5).tolist() == [5.0] * 8


def test_parameters_that_are_not_those_of_the_model_are_refused() -> None:
    with pytest.raises(ValueError, match=r"initial_parameters: float32 \(9,\), and the model has float32 8"):
        TorchModel(Drawing(9), 5, 1).initial_parameters()
