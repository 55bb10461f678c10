"""From a name to the best code of several draws; how exact what it decodes is; what is refused."""

from __future__ import annotations

from math import comb, inf
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.gradient_coding import SCHEMES, Code, GradientCoding, Rated, build, rounding_error, straggler_sets
from strategies.gradient_coding.matrices import cyclic, cyclic_of, naive
from strategies.gradient_coding.schemes import best_of, rate

SPEEDS = (2, 4, 8, 8, 12, 2, 4, 8)
"""Of unequal workers, again and again."""


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def speeds(m: int) -> list[float]:
    return [float(SPEEDS[worker % len(SPEEDS)]) for worker in range(m)]


def decode_errors(matrix: np.ndarray, weights: np.ndarray, precision: str) -> np.ndarray:
    """Relative error of the decoded gradient for each row of ``weights``, with everything in ``precision``."""
    parts = chance(1).standard_normal((matrix.shape[1], 50)).astype(precision)
    full = parts.sum(axis=0, dtype=np.float64)
    sent = matrix.astype(precision) @ parts
    decoded = weights.astype(precision) @ sent
    return np.linalg.norm(decoded - full, axis=1) / np.linalg.norm(full)


SIZES = [(2, 1), (4, 1), (5, 1), (6, 2), (8, 1), (8, 2), (9, 2), (12, 1), (12, 2), (16, 1), (30, 1), (58, 1)]
CODES = [
    pytest.param(scheme, m, s, marks=[pytest.mark.long] if m > 30 else [])
    for scheme in SCHEMES[1:]
    for m, s in SIZES
    if scheme != "fractional_repetition" or m % (s + 1) == 0
]


@pytest.mark.parametrize(("scheme", "m", "s"), CODES)
def test_decoded_is_full_for_every_straggler_set(scheme: str, m: int, s: int) -> None:
    """All sets up to 12 workers, here also above: float64 to 1e-9, float32 to 1e-5 and to the predicted error."""
    rated = build(scheme, speeds(m), s, chance())
    dead = straggler_sets(m, s, chance())
    assert len(dead) == comb(m, s)
    assert rated.residual <= 1e-9
    matrix, weights = rated.code.matrix, rated.code.weights(dead)
    assert decode_errors(matrix, weights, "float64").max() <= 1e-9
    error = decode_errors(matrix, weights, "float32").max()
    assert error <= 1e-5
    assert error <= 4 * rounding_error(rated.amplification)


@settings(max_examples=30)
@given(st.lists(st.integers(1, 20), min_size=2, max_size=7), st.integers(0, 1000), st.data())
def test_any_throughputs(throughputs: list[int], seed: int, data: st.DataObject) -> None:
    """Every set of s and of fewer stragglers, with schemes that follow the throughputs."""
    s = data.draw(st.integers(0, min(3, len(throughputs) - 1)))
    scheme = data.draw(st.sampled_from(["heter_aware", "group_based"]))
    rated = build(scheme, throughputs, s, chance(seed), draws=10, max_amplification=1e8)
    for size in range(s + 1):
        dead = straggler_sets(len(throughputs), size, chance())
        assert rate(rated.code, dead).residual <= 1e-6


def test_a_worker_that_sends_something_else_shows_in_the_gradient() -> None:
    """The measure itself: with one entry wrong by a hundredth the decoded gradient is off."""
    code = build("heter_aware", speeds(5), 1, chance()).code
    weights = code.weights(straggler_sets(5, 1, chance()))
    sent = code.matrix.copy()
    sent[4, -1] *= 1.01
    assert decode_errors(sent, weights, "float64").max() > 1e-4


def test_amplification_by_hand() -> None:
    """H = (1, 2, -3): without worker 1 the weights are -2 and 1, and part 0 has entries 1 and 3: 2 + 3 = 5. Without
    worker 2: part 1 gets 1/2 and 3/2, without worker 0 part 2 gets 2/3 and 1/3."""
    code = Code(cyclic_of(np.array([[1.0, 2.0, -3.0]])))
    each = [rate(code, np.array([[dead]])).amplification for dead in range(3)]
    assert each == pytest.approx([1, 5, 2])
    assert rate(code, straggler_sets(3, 1, chance())).amplification == pytest.approx(5)


def test_a_code_that_fails_one_set_is_not_chosen() -> None:
    dead = straggler_sets(4, 1, chance())
    good, bad = Code(cyclic(4, 1, chance())), Code(naive(4))
    assert rate(bad, dead).amplification == inf
    assert best_of([bad, good], dead).code is good


def test_plain_sums_end_the_search() -> None:
    """Naive, fractional repetition and groups that use up all holders are not drawn fifty times."""
    codes = iter([Code(naive(4))] * 3)
    best = best_of(codes, straggler_sets(4, 0, chance()))
    assert isinstance(best, Rated)
    assert best.amplification == 1
    assert len(list(codes)) == 2


def test_of_equally_good_codes_the_first_is_taken() -> None:
    """Otherwise the draw that a job uses would depend on how many came after it."""
    matrix, dead = cyclic(6, 2, chance()), straggler_sets(6, 2, chance())
    first, again = Code(matrix), Code(matrix.copy())
    assert rate(first, dead).amplification == rate(again, dead).amplification > 1
    assert best_of([first, again], dead).code is first


def test_many_sets_are_sampled() -> None:
    """Different, ascending, and everybody is a straggler somewhere about equally often (s / m of the sets)."""
    sets = straggler_sets(58, 3, chance())
    assert 950 <= len(sets) <= 1000
    assert len({tuple(dead) for dead in sets}) == len(sets)
    assert (np.diff(sets, axis=1) > 0).all()
    share = np.bincount(sets.ravel(), minlength=58) / len(sets)
    assert np.abs(share - 3 / 58).max() < 0.03


@pytest.mark.parametrize(
    ("scheme", "throughputs", "s", "options", "why"),
    [
        ("coded", [1, 1], 1, {}, "scheme=coded: must be naive, fractional_repetition, cyclic, heter_aware or group_ba"),
        ("cyclic", [1, 1, 1], 3, {}, "s=3: must be below the number of workers, 3"),
        ("group_based", [1, 1, 1], 4, {}, "s=4: must be below the number of workers, 3"),
        ("cyclic", [1, 0, 1], 1, {}, "throughput 0 of worker 1: must be positive and finite; measure it"),
        ("naive", [1, 1], 1, {}, "s=1: naive tolerates no straggler; take s=0 or another scheme"),
        ("fractional_repetition", [1] * 5, 1, {}, r"s=1: fractional repetition needs s \+ 1 = 2 to divide"),
        ("cyclic", [1, 1], 1, {"k": 3}, "k=3: cyclic has one part per worker, 2; leave k out"),
        ("heter_aware", [1, 1], 1, {"k": 0}, "k=0: must be a whole number, 1 or more"),
        ("heter_aware", [1, 1], 1, {"draws": 0}, "draws=0: must be a whole number, 1 or more"),
        ("group_based", [1, 1], 1, {"prune": "none"}, "prune=none: must be packing or paper"),
        ("cyclic", [1] * 4, 1, {"max_amplification": 0.5}, "max_amplification=0.5: must be 1 or more"),
    ],
)
def test_one_line_names_the_value_and_the_cure(
    scheme: str, throughputs: list[float], s: int, options: dict[str, object], why: str
) -> None:
    with pytest.raises(ValueError, match=why) as caught:
        build(scheme, throughputs, s, chance(), **options)
    assert "\n" not in str(caught.value)


def test_rounding_errors_that_grow_too_much_are_refused_with_the_number() -> None:
    """Cyclic, 16 workers, s = 5: some straggler sets leave nearly dependent rows whatever is drawn."""
    why = r"max_amplification=1000: the best of 3 draws of cyclic with s=5 multiplies rounding errors by \d"
    with pytest.raises(ValueError, match=why):
        build("cyclic", [1] * 16, 5, chance(), draws=3)


@pytest.mark.parametrize("prune", ["packing", "paper"])
def test_group_based_takes_its_groups_along(prune: str) -> None:
    code = build("group_based", [1] * 6, 2, chance(), k=6, prune=prune).code
    assert code.groups == {"packing": ((0, 1), (2, 3), (4, 5)), "paper": ((0, 3), (1, 2))}[prune]


@pytest.mark.parametrize("scheme", SCHEMES)
def test_more_workers_than_codes_are_built_for_are_refused_before_anything_is_built(scheme: str) -> None:
    """Matrices of 10,000 x 10,000 would take gigabytes and hours."""
    strategy = GradientCoding(scheme=scheme, s=2)
    with pytest.raises(ValueError, match=r"s=2: a code for 10000 workers .* at most 1000 workers, or s=0"):
        strategy.validate(10_000)


@pytest.mark.parametrize("scheme", SCHEMES)
def test_nothing_is_built_where_nothing_is_coded(scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("strategies.gradient_coding.group.build", None)
    strategy = GradientCoding(scheme=scheme, s=0)
    strategy.validate(10_000)
    strategy.validate_batch(10_000, 80_000)


def test_a_choice_that_would_take_minutes_is_refused_after_the_first_matrix(monkeypatch: pytest.MonkeyPatch) -> None:
    """Were the first one of plain sums, it would be the last."""
    monkeypatch.setattr("strategies.gradient_coding.schemes.MAX_WORK", 30 * 12**3)
    made: list[int] = []

    def counted(*about: Any) -> Any:
        made.append(1)
        return cyclic(*about)

    monkeypatch.setattr("strategies.gradient_coding.matrices.cyclic", counted)
    with pytest.raises(ValueError, match=r"draws=31: .* \(12 workers, 12 parts\) .* take at most 30, or fewer workers"):
        build("cyclic", [1.0] * 12, 2, chance(), draws=31)
    assert len(made) == 1
    build("cyclic", [1.0] * 12, 2, chance(), draws=30)
    build("fractional_repetition", [1.0] * 12, 2, chance(), draws=31)
