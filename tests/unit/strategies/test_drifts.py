"""Who turns out to be of another speed than its profile said."""

from __future__ import annotations

import pytest

from strategies.antdt.profiling import Drifts

PROFILE = {0: [(10.0, 1.0), (20.0, 2.0)], 1: [(10.0, 1.0)]}


@pytest.mark.parametrize(("factor", "found"), [(0.7, True), (0.9, False), (1.0, False), (1.19, False), (1.3, True)])
def test_the_median_of_so_many_times_over_the_profile_decides(factor: float, found: bool) -> None:
    drifts = Drifts(num_iters=3, ratio=1.2)
    drifts.begin(PROFILE)
    for seconds in (1.5 * factor, 9.0, 1.5 * factor):
        assert not drifts.found()
        drifts.tell(0, 15.0, seconds)
    assert drifts.found() is found


def test_every_check_begins_with_nothing() -> None:
    drifts = Drifts(num_iters=2, ratio=1.2)
    drifts.begin(PROFILE)
    for _ in range(2):
        for seconds in (1.0, 1.0):
            drifts.tell(1, 10.0, seconds)
        assert not drifts.found()
    for seconds in (2.0, 2.0):
        drifts.tell(1, 10.0, seconds)
    assert drifts.found()
