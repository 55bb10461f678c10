"""Compiled updates: the bits of the twin in Python, whoever shares the work."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from numpy.typing import NDArray

from runtime import native
from runtime.training.optimizers import SHARED_FLOATS, Optimizer, make_optimizer
from tests.support.examples import examples

Vector = NDArray[np.float32]
compiled = native.native(native.UPDATES)
pytestmark = pytest.mark.skipif(
    compiled is None, reason="needs the compiled module: python setup.py build_ext --inplace"
)

LARGE = SHARED_FLOATS + 1025
SPECIAL = np.array([0.0, -0.0, np.inf, -np.inf, 1e-45, -1e-40, 3e38, -3e38], np.float32)


def vectors(count: int, num_elements: int, seed: int) -> list[Vector]:
    """Of very different sizes, and with some extreme values, one of them by chance in the place of each."""
    rng = np.random.default_rng(seed)
    made = rng.standard_normal((count, num_elements), dtype=np.float32)
    made *= np.float32(10) ** rng.integers(-4, 4, (count, 1)).astype(np.float32)
    odd = rng.random(made.shape) < 0.05
    made[odd] = rng.choice(SPECIAL, int(odd.sum()))
    return list(made)


def python_twin(name: str, num_elements: int) -> Optimizer:
    optimizer = make_optimizer(name, num_elements)
    optimizer._compiled = None
    return optimizer


sizes = st.one_of(st.integers(1, 40), st.sampled_from([1023, 1024, 1025, 32768, 32769, 40000, LARGE]))


@examples(20)
@given(
    name=st.sampled_from(["sgd", "tally"]),
    num_elements=sizes,
    weights=st.lists(st.sampled_from([0.25, 0.1, 1 / 3, 0.0]), min_size=1, max_size=5),
    threads=st.integers(1, 3),
    in_place=st.booleans(),
    seed=st.integers(0, 99),
)
@example(name="sgd", num_elements=LARGE, weights=[0.25] * 4, threads=2, in_place=True, seed=0)
@example(name="sgd", num_elements=LARGE, weights=[0.1, 0.2], threads=2, in_place=False, seed=1)
@pytest.mark.filterwarnings("ignore:overflow", "ignore:invalid")
def test_the_bits_of_the_twin(
    name: str, num_elements: int, weights: list[float], threads: int, in_place: bool, seed: int
) -> None:
    params, *grads = vectors(len(weights) + 1, num_elements, seed)
    results = []
    for optimizer in (python_twin(name, num_elements), make_optimizer(name, num_elements, threads)):
        assert (optimizer._compiled is None) == (not results)
        start = params.copy()
        out = start if in_place else np.empty_like(start)
        for _ in range(2):
            optimizer.step(start, grads, weights, 0.01, 128, out=out)
        results.append(out)
        assert in_place or start.tobytes() == params.tobytes()
    python, c = results
    numbers = ~np.isnan(python)  # of an infinity less an infinity, the sign of the NaN depends on the order of operands
    assert np.array_equal(numbers, ~np.isnan(c))
    assert python[numbers].tobytes() == c[numbers].tobytes()


def test_threads_share_an_update_and_nobody_does_a_part_twice() -> None:
    """In place, so that a part done twice, or not at all, would show."""
    grad = np.ones(LARGE, np.float32)
    with ThreadPoolExecutor(3) as pool:
        for _ in range(20):
            params, counts = np.zeros(LARGE, np.float32), np.zeros(2, np.int64)
            update = (params, params, [grad, grad], np.float32([1, 1]), True, counts)
            others = [pool.submit(compiled.add, *update, False) for _ in range(3)]
            compiled.add(*update, True)
            assert (params == 2).all(), "all is done when the one that waits returns"
            assert [other.result() for other in others] == [None] * 3


def test_a_thread_without_a_processor_holds_nobody_up() -> None:
    optimizer = make_optimizer("tally", LARGE, 2)

    class Never:
        def submit(self, *_: object) -> None: ...

    optimizer._pool = Never()  # type: ignore[assignment]
    params = np.zeros(LARGE, np.float32)
    optimizer.step(params, [np.ones(LARGE, np.float32)], [0.5], 1.0, 2)
    assert (params == 1).all()


def refuse(out: Any, params: Any, grads: Any, factors: Any, counts: Any) -> None:
    compiled.add(out, params, grads, factors, True, counts, True)


def test_what_does_not_fit_is_refused() -> None:
    four, five, counts, one = (np.zeros(4, np.float32), np.zeros(5, np.float32), np.zeros(2, np.int64), np.float32([1]))
    fixed = four.copy()
    fixed.flags.writeable = False
    with pytest.raises(ValueError, match="different lengths"):
        refuse(four, four, [five], one, counts)
    with pytest.raises(ValueError, match="one factor per gradient"):
        refuse(four, four, [four, four], one, counts)
    with pytest.raises(ValueError, match="no gradients"):
        refuse(four, four, [], one[:0], counts)
    with pytest.raises(ValueError, match="no counts"):
        refuse(four, four, [four], one, counts[:1])
    with pytest.raises((ValueError, BufferError)):
        refuse(fixed, four, [four], one, counts)
    with pytest.raises((ValueError, BufferError)):
        refuse(four[::2], four[::2], [four[::2]], one, counts)
