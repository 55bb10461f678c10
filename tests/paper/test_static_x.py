"""Static x-order against its source: STAR, section IV-B."""

from __future__ import annotations

from statistics import fmean

import pytest

from strategies.basic.static_x import StaticX
from tests.support.harness import HeapRun, make_job


def of_four(x: int) -> HeapRun:
    """Workers that need 1, 1, 1 and 4 s, for 40 s."""
    return HeapRun(StaticX(x=x), make_job(), [1, 1, 1, 4]).run()


@pytest.mark.parametrize(
    ("x", "updates", "gradients", "staleness"),
    [(1, 130, 130, 2.954), (2, 50, 100, 0.98), (3, 40, 120, 0.325), (4, 10, 40, 0)],
)
def test_parameters_are_updated_with_x_gradients_each_time(
    x: int, updates: int, gradients: int, staleness: float
) -> None:
    """STAR, section IV-B: "parameters are updated using the gradients from x workers each time", and "more gradients
    being synchronized reduces stale gradients": counts worked by hand. Late gradients are used in the next update; with
    x = 3 ten are three updates old, and nine wait for one more."""
    run = of_four(x)
    assert (run.updates, len(run.used), run.dropped) == (updates, gradients, [])
    assert {len(order.grads) for _, order, _ in run.applied} == {x}
    assert fmean(run.staleness) == pytest.approx(staleness, abs=1e-3)
