"""Optimizers: the same as torch.optim, the same wherever the vector is cut, and in the order given."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime.training.optimizers import BLOCK, Optimizer, make_optimizer
from tests.support.examples import examples

Vector = NDArray[np.float32]
Step = Callable[[Vector, Sequence[Vector], Sequence[float]], None]
"""(parameters, gradients, weights): one update in place."""

CASES: dict[str, dict[str, Any]] = {
    "sgd": {},
    "sgd momentum": {"momentum": 0.9},
    "sgd nesterov": {"momentum": 0.9, "nesterov": True, "weight_decay": 0.01},
    "sgd weight decay": {"weight_decay": 0.1},
    "adagrad": {"weight_decay": 0.01},
    "adam": {"weight_decay": 0.01},
    "adamw": {"weight_decay": 0.1},
    "tally": {},
}
EQUAL, UNEQUAL = (0.25,) * 4, (0.1, 0.2, 0.3, 0.4)


def make(case: str, num_elements: int) -> Optimizer:
    return make_optimizer(case.partition(" ")[0], num_elements, **CASES[case])


def gradients(num_elements: int, count: int = 4, seed: int = 0) -> list[Vector]:
    """Read-only, as in shared memory; of very different sizes, so that the order of additions matters."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((count, num_elements), dtype=np.float32)
    made *= np.float32(10) ** rng.integers(-4, 4, (count, 1)).astype(np.float32)
    made.flags.writeable = False
    return list(made)


def run_cut(make_step: Callable[[int, int], Step], num_elements: int, cuts: Sequence[int]) -> Vector:
    """Five updates of the parts between ``cuts``, each part by a server of its own."""
    params = np.linspace(-1, 1, num_elements, dtype=np.float32)
    bounds = [0, *cuts, num_elements]
    for lo, hi in pairwise(bounds):
        part, step = params[lo:hi].copy(), make_step(lo, hi)
        for round_ in range(5):
            grads = [grad[lo:hi] for grad in gradients(num_elements, seed=round_)]
            step(part, grads, EQUAL if round_ % 2 else UNEQUAL)
        params[lo:hi] = part
    return params


def stepper(case: str) -> Callable[[int, int], Step]:
    def make_step(lo: int, hi: int) -> Step:
        optimizer = make(case, hi - lo)
        return lambda params, grads, weights: optimizer.step(params, grads, weights, 0.1, 32)

    return make_step


@pytest.mark.few(4)
@pytest.mark.parametrize("case", CASES)
def test_blocks_do_not_change_a_bit(case: str) -> None:
    size = 2 * BLOCK + 1000
    whole, parts = (run_cut(stepper(case), size, where) for where in ([], [16, 4096, BLOCK + 16, 2 * BLOCK]))
    assert whole.tobytes() == parts.tobytes()


@pytest.mark.parametrize("weights", [EQUAL, UNEQUAL])
def test_gradients_are_added_in_the_order_given(weights: tuple[float, ...]) -> None:
    grads = gradients(1000)
    found = []
    for order in ((0, 1, 2, 3), (3, 2, 1, 0)):
        params = np.zeros(1000, dtype=np.float32)
        make("sgd", 1000).step(params, [grads[i] for i in order], [weights[i] for i in order], 1.0, 4)
        found.append(params)
        factors = [np.float32(-weights[i]) for i in order]
        if weights == EQUAL:
            expected = (((grads[order[0]] + grads[order[1]]) + grads[order[2]]) + grads[order[3]]) * factors[0]
        else:
            expected = np.zeros(1000, dtype=np.float32)
            for i, factor in zip(order, factors, strict=True):
                expected = expected + grads[i] * factor
        assert np.array_equal(params, expected)
    assert not np.array_equal(found[0], found[1]), "these gradients do not show the order"


TORCH: dict[str, Callable[[list[torch.Tensor]], torch.optim.Optimizer]] = {
    "sgd": lambda params: torch.optim.SGD(params, lr=0.05),
    "sgd momentum": lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9),
    "sgd nesterov": lambda params: torch.optim.SGD(params, lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "sgd weight decay": lambda params: torch.optim.SGD(params, lr=0.05, weight_decay=0.1),
    "adagrad": lambda params: torch.optim.Adagrad(params, lr=0.05, weight_decay=0.01),
    "adam": lambda params: torch.optim.Adam(params, lr=0.05, weight_decay=0.01),
    "adamw": lambda params: torch.optim.AdamW(params, lr=0.05, weight_decay=0.1),
}


def difference_to_torch(case: str, optimizer: Optimizer, weights: Sequence[float]) -> float:
    """Largest difference of a parameter (of size 1) over 20 steps on a noisy quadratic, with a rate that changes."""
    size, rng = optimizer.num_elements, np.random.default_rng(1)
    params = rng.standard_normal(size, dtype=np.float32)
    tensor = torch.nn.Parameter(torch.from_numpy(params.copy()))
    peer = TORCH[case]([tensor])
    worst = 0.0
    for step in range(20):
        lr = 0.05 if step < 10 else 0.01
        grads = [(params + rng.standard_normal(size, dtype=np.float32)).astype(np.float32) for _ in weights]
        tensor.grad = torch.from_numpy(
            np.sum([np.float64(w) * g for w, g in zip(weights, grads, strict=True)], axis=0).astype(np.float32)
        )
        peer.param_groups[0]["lr"] = lr
        peer.step()
        optimizer.step(params, grads, weights, lr, 128)
        worst = max(worst, float(np.abs(params - tensor.detach().numpy()).max()))
    return worst


@pytest.mark.parametrize("weights", [EQUAL, UNEQUAL])
@pytest.mark.parametrize("case", TORCH)
def test_it_is_what_torch_does(case: str, weights: tuple[float, ...]) -> None:
    assert difference_to_torch(case, make(case, 1000), weights) < 1e-6


@examples(20)
@given(st.lists(st.integers(0, 40), min_size=1, max_size=6).filter(any))
def test_the_tally_is_exact_under_the_mean_rule(samples: list[int]) -> None:
    """Weights of 1/n, undone by n: counts stay whole numbers."""
    rng, total = np.random.default_rng(0), sum(samples)
    grads = [np.bincount(rng.integers(0, 20, count), minlength=20).astype(np.float32) for count in samples]
    params = np.arange(20, dtype=np.float32)
    make("tally", 20).step(params, grads, [1 / total] * len(grads), 0.123, total)
    assert params.tolist() == (np.arange(20) + np.sum(grads, axis=0)).tolist()


@pytest.mark.parametrize("case", CASES)
def test_the_result_can_be_left_elsewhere(case: str) -> None:
    size, grads = BLOCK + 500, gradients(BLOCK + 500)
    params, out = np.ones(size, dtype=np.float32), np.full(size, np.nan, dtype=np.float32)
    make(case, size).step(params, grads, UNEQUAL, 0.1, 32, out=out)
    assert params.tolist() == [1.0] * size
    make(case, size).step(params, grads, UNEQUAL, 0.1, 32, out=params)
    assert params.tobytes() == out.tobytes()
    in_place = np.ones(size, dtype=np.float32)
    make(case, size).step(in_place, grads, UNEQUAL, 0.1, 32)
    assert in_place.tobytes() == out.tobytes()


@pytest.mark.parametrize("case", CASES)
def test_a_restored_optimizer_goes_on_as_if_nothing_had_happened(case: str) -> None:
    grads = gradients(500)
    first, params = make(case, 500), np.ones(500, dtype=np.float32)
    for _ in range(3):
        first.step(params, grads, EQUAL, 0.1, 32)
    # as a checkpoint holds it: scalars may come back as floats, arrays cannot be written to
    kept = {
        name: np.array(value) if isinstance(value, np.ndarray) else float(value)
        for name, value in first.state().items()
    }
    for value in kept.values():
        if isinstance(value, np.ndarray):
            value.flags.writeable = False
    restored, again = make(case, 500), params.copy()
    restored.load_state(kept)
    fresh, other = make(case, 500), params.copy()
    for optimizer, values in ((first, params), (restored, again), (fresh, other)):
        for _ in range(3):
            optimizer.step(values, grads, UNEQUAL, 0.1, 32)
    assert params.tobytes() == again.tobytes()
    assert (params.tobytes() == other.tobytes()) == (not optimizer_has_memory(case))


def optimizer_has_memory(case: str) -> bool:
    return case not in ("sgd", "sgd weight decay", "tally")


def test_the_state_of_something_else_is_refused() -> None:
    eight, nine, optimizer = np.zeros(8, np.float32), np.zeros(9, np.float32), make("adam", 8)
    with pytest.raises(ValueError, match="has step, sum instead of mean, square, step"):
        optimizer.load_state({"step": 1, "sum": eight})
    with pytest.raises(ValueError, match=re.escape("square is (9,), not (8,)")):
        optimizer.load_state({"step": 1, "mean": eight, "square": nine})
    assert optimizer.steps == 0


@pytest.mark.parametrize(
    ("name", "fields", "message"),
    [
        ("sdg", {}, "name=sdg: must be one of sgd, adagrad, adam, adamw, tally, or the path of a class"),
        ("sgd", {"momentun": 0.9}, "momentun: is no field of sgd (it has momentum, nesterov, weight_decay)"),
        ("sgd", {"momentum": 1.0}, "momentum=1.0: must be a number, at least 0 and less than 1"),
        ("sgd", {"nesterov": True}, "nesterov=true: needs a momentum above 0"),
        ("sgd", {"nesterov": 1, "momentum": 0.9}, "nesterov=1: must be true or false"),
        ("adam", {"eps": 0}, "eps=0: must be a number, at least 1e-30"),
    ],
)
def test_fields_are_checked(name: str, fields: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=re.escape(message)):
        make_optimizer(name, 8, **fields)


@pytest.mark.parametrize(
    ("params", "grads", "weights"),
    [
        (np.zeros(8, np.float32), [np.zeros(8, np.float32)], [0.5, 0.5]),
        (np.zeros(8, np.float32), [np.zeros(9, np.float32)], [1.0]),
        (np.zeros(8, np.float64), [np.zeros(8, np.float32)], [1.0]),
    ],
)
def test_what_does_not_fit_is_refused_and_changes_nothing(params: Any, grads: list[Any], weights: list[float]) -> None:
    optimizer = make("sgd momentum", 8)
    with pytest.raises(ValueError, match="grads: "):
        optimizer.step(params, grads, weights, 0.1, 1)
    assert optimizer.steps == 0
