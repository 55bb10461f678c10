"""A code for the current workers: what is enough to decode, and what takes its place where it amplifies too much."""

from __future__ import annotations

import numpy as np
import pytest

from strategies.gradient_coding.decoding import Code
from strategies.gradient_coding.group import CodedGroup, Recipe
from strategies.gradient_coding.schemes import Rated


@pytest.mark.parametrize(("max_amplification", "enough"), [(6.9, False), (7.1, True)])
def test_a_few_rows_count_only_if_they_amplify_little(max_amplification: float, enough: bool) -> None:
    """Rows (1, 2) and (1, 3) cover both parts and make (1, 1) with weights 2 and -1, which multiply the rounding
    errors of part 1 by 2 x 2 + 1 x 3 = 7. All but one of the four workers are enough in any case."""
    code = Code(np.array([[1.0, 2.0], [1.0, 3.0], [1.0, 1.0], [1.0, 1.0]]))
    group = CodedGroup(range(4), Rated(code, 1.0, 0.0), 1, max_amplification)
    found = group.decoded([0, 1], eager=True)
    assert (found is not None) is enough
    if found is not None:
        assert found.weights == pytest.approx({0: 2.0, 1: -1.0})
    assert group.decoded([0, 1], eager=False) is None
    assert group.decoded([0, 1, 2], eager=False) is not None


def test_equal_shares_come_before_a_smaller_s() -> None:
    """For speeds 1 to 8 and s = 3 the best of five draws amplifies 15 times; shares of one size are plain sums."""
    recipe, speeds = Recipe("heter_aware", 3, None, 5, 10.0, "packing", 0), [float(1 + worker) for worker in range(8)]
    with pytest.raises(ValueError, match="max_amplification=10"):
        recipe.rated(speeds, 3)
    group = CodedGroup.of(recipe, dict(enumerate(speeds)), 0)
    assert group.s == 3
    assert {len(row) for row in group.rows.values()} == {group.num_parts // 2}
