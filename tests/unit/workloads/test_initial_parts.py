"""A part of the initial parameters has the bits of the whole, and modules draw none that nobody will see."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from runtime.backends.initial import draws_parts, wrong_part
from runtime.config.instantiate import instantiate
from tests.unit.run.test_preflight import composed
from workloads.models.initial import BLOCK, Initializer, constant, draw, draw_part, normal, uniform
from workloads.models.torch.unfilled import Unfilled

TENSORS: list[Initializer] = [
    normal(3 * BLOCK + 7, 0.5),
    constant(10, 1.0),
    uniform(BLOCK - 1, 2.0),
    uniform(5, 0.1),
    normal(BLOCK, 3.0),
]
SIZE = sum(tensor.count for tensor in TENSORS)


@pytest.mark.parametrize(
    ("lo", "hi"),
    [(0, SIZE), (0, 1), (SIZE - 1, SIZE), (BLOCK, 2 * BLOCK), (3 * BLOCK, 4 * BLOCK + 50), (17, 17), (SIZE, SIZE)],
)
def test_a_part_has_the_bits_of_the_whole(lo: int, hi: int) -> None:
    part = np.full(hi - lo, np.nan, np.float32)
    draw_part(5, TENSORS, lo, part)
    assert part.tobytes() == draw(5, TENSORS)[lo:hi].tobytes()


@pytest.mark.parametrize(
    "name", ["resnet20_cifar10", "lstm_wikitext2_laptop", "transformer_wikitext2_laptop", "xdeepfm_criteo_laptop"]
)
def test_a_module_draws_no_values_of_its_own_and_its_task_draws_parts(name: str) -> None:
    raw: Any
    [(_, raw)] = composed(f"workload={name}")
    task = instantiate(raw["workload"]["task"])
    assert draws_parts(task)
    assert wrong_part(task, 3) == ""
    torch.manual_seed(3)
    before = torch.get_rng_state()
    module = task.torch_module()
    assert torch.equal(torch.get_rng_state(), before)
    assert sum(parameter.numel() for parameter in module.parameters()) == task.num_parameters


def test_buffers_have_their_values_and_layers_made_later_are_filled() -> None:
    with Unfilled():
        norm = torch.nn.BatchNorm2d(3)
    assert (norm.running_mean.tolist(), norm.running_var.tolist()) == ([0] * 3, [1] * 3)
    before = torch.get_rng_state()
    layer = torch.nn.Linear(2, 2)
    assert not torch.equal(torch.get_rng_state(), before)
    assert np.isfinite(layer.weight.tolist()).all()
