"""Gradient coding: parts, matrices, groups, decode weights, draws: by equations, brute force, least squares."""

from __future__ import annotations

from itertools import combinations
from math import comb, inf, sqrt
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from strategies.gradient_coding import SCHEMES, GradientCoding, build, rounding_error, straggler_sets
from strategies.gradient_coding.decoding import Code, Group, Mask
from strategies.gradient_coding.group import CodedGroup, Recipe
from strategies.gradient_coding.matrices import (
    copies_of,
    cyclic,
    cyclic_of,
    find_groups,
    fractional_repetition,
    group_based,
    heter_aware,
    heter_aware_of,
    naive,
    pack_groups,
    prune_groups,
)
from strategies.gradient_coding.partitions import counts, counts_by_time, default_parts, quotas, support
from strategies.gradient_coding.schemes import Rated, best_of, rate
from tests.support.examples import examples


@st.composite
def clusters(draw: st.DrawFn) -> tuple[list[int], int, int]:
    """(throughputs, k, s), throughputs often equal or far apart."""
    throughputs = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8, 12, 16, 100, 1000]), min_size=1, max_size=12))
    return throughputs, draw(st.integers(1, 60)), draw(st.integers(0, len(throughputs) - 1))


@pytest.mark.parametrize(
    ("throughputs", "k", "s", "held"),
    [
        ([1, 1, 10], 6, 1, [3, 3, 6]),
        ([1, 1, 100, 100], 6, 2, [3, 3, 6, 6]),
        ([1, 1, 1], 4, 1, [3, 3, 2]),
    ],
)
def test_whoever_has_everything_leaves_the_rest_to_the_others(
    throughputs: list[float], k: int, s: int, held: list[int]
) -> None:
    """Capped at k first, then the largest remainders, the lower id first."""
    assert counts(throughputs, k, s) == held


@examples(20)
@given(clusters(), st.sampled_from([0.25, 4.0, 2.0**900, 2.0**-900]))
def test_shares_follow_the_throughputs(cluster: tuple[list[int], int, int], factor: float) -> None:
    """Every part has a holder more than stragglers, nobody is a whole part away from his quota, ratios alone matter."""
    throughputs, k, s = cluster
    held, wanted = counts(throughputs, k, s), quotas(throughputs, k, s)
    mask = support(held, k)
    assert (mask.sum(axis=0) == s + 1).all()
    assert [int(count) for count in mask.sum(axis=1)] == held
    assert sum(wanted) == pytest.approx(k * (s + 1))
    assert all(0 <= count <= k and abs(count - quota) < 1 - 1e-9 for count, quota in zip(held, wanted, strict=True))
    assert counts([throughput * factor for throughput in throughputs], k, s) == held


@pytest.mark.parametrize(
    ("throughputs", "s", "k"),
    [
        ([1, 2, 3, 4, 4], 1, 7),
        ([0.1, 0.2, 0.3], 0, 6),
        ([1.0, 10.0], 0, 11),
        ([1, sqrt(2), sqrt(3)], 1, 12),
    ],
)
def test_the_fewest_parts_that_suit_or_four_per_worker(throughputs: list[float], s: int, k: int) -> None:
    assert default_parts(throughputs, s) == k


@pytest.mark.parametrize(
    ("throughputs", "k", "s", "why"),
    [
        ([1, 0, 1], 4, 1, "throughput 0 of worker 1: must be positive"),
        ([1, inf], 4, 1, "throughput inf of worker 1: must be positive"),
        ([1, 1], 4, 2, "s=2: must be below the number of workers, 2"),
        ([1, 1], 0, 1, "k=0: must be a whole number, 1 or more"),
    ],
)
def test_what_has_no_answer_is_refused_by_name(throughputs: list[float], k: int, s: int, why: str) -> None:
    with pytest.raises(ValueError, match=why):
        counts(throughputs, k, s)


def test_a_worker_however_slow_has_a_part_where_there_are_enough() -> None:
    assert counts_by_time([lambda n: float(n), lambda n: 1000.0 * n], 4, 0) == [3, 1]


def chance(seed: int = 0) -> np.random.Generator:
    return np.random.default_rng(seed)


def test_fractional_repetition_repeats_blocks() -> None:
    assert fractional_repetition(4, 1).tolist() == [[1, 1, 0, 0], [0, 0, 1, 1], [1, 1, 0, 0], [0, 0, 1, 1]]
    assert (fractional_repetition(3, 2) == 1).all()
    for scheme in (fractional_repetition, lambda m, s: cyclic(m, s, chance())):
        with pytest.raises(ValueError, match="s=4: must be below the number of workers, 4"):
            scheme(4, 4)


@given(st.integers(1, 9), st.data())
def test_cyclic_rows_are_in_the_null_space_on_their_support(m: int, data: st.DataObject) -> None:
    s = data.draw(st.integers(1, m - 1)) if m > 1 else 0
    if s == 0:
        assert (cyclic(m, s, chance()) == np.eye(m)).all()
        return
    others = chance(m).standard_normal((s, m - 1))
    h = np.column_stack([others, -others.sum(axis=1)])
    matrix = cyclic_of(h)
    np.testing.assert_allclose(h @ matrix.T, 0, atol=1e-9 * np.abs(matrix).max())
    held = [set(np.flatnonzero(row)) for row in matrix]
    assert held == [{(worker + step) % m for step in range(s + 1)} for worker in range(m)]
    assert (np.diag(matrix) == 1).all()


@examples(20)
@given(st.lists(st.integers(1, 16), min_size=2, max_size=9), st.integers(1, 30), st.data())
def test_heter_aware_solves_its_equation_on_the_support(throughputs: list[int], k: int, data: st.DataObject) -> None:
    s = data.draw(st.integers(0, len(throughputs) - 1))
    mask = support(counts(throughputs, k, s), k)
    c = chance(k).random((s + 1, len(throughputs)))
    matrix = heter_aware_of(mask, c)
    np.testing.assert_allclose(c @ matrix, 1, atol=1e-9 * np.abs(matrix).max())
    assert ((matrix != 0) == mask).all()


def test_a_part_with_a_holder_too_few_is_refused() -> None:
    """One entry of a good support is removed: no code on it tolerates what it promises."""
    mask = support([1, 2, 3, 4, 4], 7)
    assert copies_of(mask) == 2
    mask[2, 4] = False
    with pytest.raises(ValueError, match="part 4 has 1 holders, part 0 has 2: every part needs the same number"):
        heter_aware(mask, chance())


SIX_EQUAL = support(counts([1] * 6, 6, 2), 6)


@st.composite
def supports(draw: st.DrawFn) -> tuple[Mask, int]:
    """(support, s) of up to eight workers; few parts, so that groups are frequent."""
    throughputs = draw(st.lists(st.sampled_from([1, 2, 4]), min_size=2, max_size=8))
    k, s = draw(st.integers(1, 12)), draw(st.integers(0, len(throughputs) - 1))
    return support(counts(throughputs, k, s), k), s


def by_trying_everything(mask: Mask) -> list[Group]:
    """Every set of workers that hold something and hold every part once."""
    busy = [worker for worker in range(len(mask)) if mask[worker].any()]
    sets = (group for size in range(1, len(busy) + 1) for group in combinations(busy, size))
    return [group for group in sets if (mask[list(group)].sum(axis=0) == 1).all()]


@examples(20)
@given(supports())
def test_all_groups_are_found_once(case: tuple[Mask, int]) -> None:
    mask, s = case
    found = find_groups(mask)
    assert sorted(found) == sorted(by_trying_everything(mask))
    assert all(len(group) <= len(mask) - s for group in found)


@examples(20)
@given(supports())
def test_packing_keeps_the_smallest_that_are_disjoint(case: tuple[Mask, int]) -> None:
    """Searching again among those that are left is the same as going through the whole list once."""
    mask, s = case
    kept: list[Group] = []
    for group in sorted(by_trying_everything(mask), key=lambda group: (len(group), group)):
        if all(set(group).isdisjoint(other) for other in kept):
            kept.append(group)
    assert pack_groups(mask) == kept
    assert len(kept) <= s + 1


def test_groups_are_searched_within_bounds() -> None:
    """58 equal workers have 2^29 groups at s = 1; cut off after ten, the second group is still found."""
    mask = support(counts([1] * 58, 58, 1), 58)
    assert len(find_groups(mask, at_most=10)) == 10
    first, second = pack_groups(mask, at_most=10)
    assert len(first) == len(second) == 29
    assert set(first).isdisjoint(second)
    # Forty pairs of equal workers and a part that nobody holds: 2^40 ways to find out that there is no group
    mask = np.zeros((80, 81), dtype=np.bool_)
    for worker in range(80):
        first = worker // 2 * 2
        mask[worker, first : first + 2] = True
    assert find_groups(mask) == []
    # Six equal workers, s = 2: nine groups, each of one even and one odd worker, each meeting four others. The
    # last of those that meet most goes, by hand: (4,5), (2,3), (0,1), (3,4), (2,5), (1,4), (0,5)
    assert prune_groups(find_groups(SIX_EQUAL)) == [(0, 3), (1, 2)]
    assert len(pack_groups(SIX_EQUAL)) == 3


@pytest.mark.parametrize("groups", [[(0, 1), (1, 2)], [(0,)], [(0, 1, 2)]])
def test_what_is_no_group_is_refused(groups: list[Group]) -> None:
    """A worker in two groups; missing parts; duplicate parts."""
    with pytest.raises(ValueError, match="must be disjoint, and each must hold every part exactly once"):
        group_based(SIX_EQUAL, groups, chance())


FIVE = support([1, 2, 3, 4, 4], 7)


@st.composite
def coded(draw: st.DrawFn) -> tuple[Code, list[int]]:
    """A code of three to eight workers, and any of them in any order."""
    throughputs = draw(st.lists(st.sampled_from([1, 2, 3, 4, 8]), min_size=3, max_size=8))
    m, seed = len(throughputs), draw(st.integers(0, 1000))
    s, k = draw(st.integers(0, min(3, m - 1))), draw(st.integers(1, 12))
    mask = support(counts(throughputs, k, s), k)
    matrix = {
        "cyclic": lambda: cyclic(m, s, chance(seed)),
        "heter_aware": lambda: heter_aware(mask, chance(seed)),
        "group_based": lambda: group_based(mask, pack_groups(mask), chance(seed)),
        "naive": lambda: naive(m),
    }[draw(st.sampled_from(["cyclic", "heter_aware", "group_based", "naive"]))]()
    arrived = draw(st.lists(st.sampled_from(range(m)), unique=True, max_size=m))
    return Code(matrix), arrived


@examples(20)
@given(coded())
def test_least_squares_on_the_rows_that_arrived(case: tuple[Code, list[int]]) -> None:
    """The same sets can be decoded, and the weights are the shortest that do it or those of a plain sum."""
    code, arrived = case
    found = code.decode(arrived)
    rows = code.matrix[arrived]
    weights = np.linalg.lstsq(rows.T, np.ones(code.matrix.shape[1]), rcond=1e-12)[0] if arrived else np.zeros(0)
    residual = np.abs(weights @ rows - 1).max()
    assert found.ok == (residual <= 1e-6)
    assert set(np.flatnonzero(found.weights)) <= set(arrived)
    if found.ok and set(found.weights) - {0.0, 1.0}:
        np.testing.assert_allclose(found.weights[arrived], weights, rtol=1e-5, atol=1e-6 * np.abs(weights).max())


def test_the_first_complete_group_is_enough() -> None:
    """Groups (2, 3) and (0, 1, 4): whichever is complete, alone; the smaller if both are."""
    groups = pack_groups(FIVE)
    code = Code(group_based(FIVE, groups, chance()), tuple(groups))
    assert code.decode([3, 2]).weights.tolist() == [0, 0, 1, 1, 0]
    assert code.decode([4, 0, 1]).weights.tolist() == [1, 1, 0, 0, 1]
    assert code.decode(range(5)).weights.tolist() == [0, 0, 1, 1, 0]


@pytest.mark.parametrize("stranger", [-1, 5])
def test_a_worker_that_the_code_does_not_know(stranger: int) -> None:
    with pytest.raises(ValueError, match=f"worker {stranger}: the code has workers 0 to 4"):
        Code(heter_aware(FIVE, chance())).decode([0, 1, stranger])


SPEEDS = (2, 4, 8, 8, 12, 2, 4, 8)
"""Of unequal workers, again and again."""


def speeds(m: int) -> list[float]:
    return [float(SPEEDS[worker % len(SPEEDS)]) for worker in range(m)]


def decode_errors(matrix: np.ndarray, weights: np.ndarray, precision: str) -> np.ndarray:
    """Relative error of the decoded gradient for each row of ``weights``, with everything in ``precision``."""
    parts = chance(1).standard_normal((matrix.shape[1], 50)).astype(precision)
    full = parts.sum(axis=0, dtype=np.float64)
    sent = matrix.astype(precision) @ parts
    decoded = weights.astype(precision) @ sent
    return np.linalg.norm(decoded - full, axis=1) / np.linalg.norm(full)


SIZES = [(2, 1), (5, 1), (6, 2), (12, 2), (30, 1), (58, 1)]
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


def test_the_best_of_several_codes_by_its_amplification() -> None:
    """H = (1, 2, -3): without worker 1 the weights are -2 and 1, and part 0 has entries 1 and 3: 2 + 3 = 5. Without
    worker 2: part 1 gets 1/2 and 3/2, without worker 0 part 2 gets 2/3 and 1/3."""
    code = Code(cyclic_of(np.array([[1.0, 2.0, -3.0]])))
    each = [rate(code, np.array([[dead]])).amplification for dead in range(3)]
    assert each == pytest.approx([1, 5, 2])
    assert rate(code, straggler_sets(3, 1, chance())).amplification == pytest.approx(5)
    dead = straggler_sets(4, 1, chance())
    good, bad = Code(cyclic(4, 1, chance())), Code(naive(4))
    assert rate(bad, dead).amplification == inf
    assert best_of([bad, good], dead).code is good
    again = Code(good.matrix.copy())
    assert best_of([good, again], dead).code is good, "of equally good codes the first"
    plain = iter([bad] * 3)
    assert best_of(plain, straggler_sets(4, 0, chance())).amplification == 1
    assert len(list(plain)) == 2, "plain sums end the search"


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
        ("cyclic", [1, 0, 1], 1, {}, "throughput 0 of worker 1: must be positive and finite; measure it"),
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


@pytest.mark.parametrize("scheme", ["cyclic", "group_based"])
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


@pytest.mark.parametrize(("max_amplification", "enough"), [(6.9, False), (7.1, True)])
def test_a_few_rows_count_only_if_they_amplify_little(max_amplification: float, enough: bool) -> None:
    """Rows (1, 2) and (1, 3) cover both parts and make (1, 1) with weights 2 and -1, which multiply the rounding
    errors of part 1 by 2 x 2 + 1 x 3 = 7. All but one of the four workers are enough in any case."""
    code = Code(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 1.0], [1.0, 1.0]]))
    group = CodedGroup(range(4), Rated(code, 1.0, 0.0), 1, max_amplification)
    found = group.decode([0, 1], eager=True)
    assert (found is not None) is enough
    if found is not None:
        assert found.weights == pytest.approx({0: 2.0, 1: -1.0})
    assert group.decode([0, 1], eager=False) is None
    assert group.decode([0, 1, 2], eager=False) is not None


def test_equal_shares_come_before_a_smaller_s() -> None:
    """For speeds 1 to 8 and s = 3 the best of five draws amplifies 15 times; shares of one size are plain sums."""
    recipe, speeds = Recipe("heter_aware", 3, None, 5, 10.0, "packing", 0), [float(1 + worker) for worker in range(8)]
    with pytest.raises(ValueError, match="max_amplification=10"):
        recipe.rate(speeds, 3)
    group = CodedGroup.of(recipe, dict(enumerate(speeds)), 0)
    assert group.s == 3
    assert {len(row) for row in group.rows.values()} == {group.num_parts // 2}
