"""What hogs take of a device: how many it needs, and that each takes its share."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from injectors.actuators.gpu_duty import CREDIT_S, MOST_HOGS, Duty, hogs_for, least_left


@given(left=st.floats(0.02, 0.99), sharers=st.integers(1, 8))
def test_so_many_hogs_suffice_and_no_fewer_do(left: float, sharers: int) -> None:
    """By round robin: a hog and each of those that compute always have work, so each has one turn of m + k."""
    hogs = hogs_for(left, sharers)
    assert sharers / (sharers + hogs) <= left + 1e-6
    assert hogs == 1 or sharers / (sharers + hogs - 1) > left


def test_the_papers_levels_need_few() -> None:
    assert [hogs_for(left, 1) for left in (0.75, 0.5, 0.25, 0.2, 0.1, 0.05)] == [1, 1, 3, 4, 9, 19]
    assert hogs_for(0.05, 1) <= MOST_HOGS
    assert least_left(4) == pytest.approx(4 / (4 + MOST_HOGS))


def run(share: float, turns_s: list[float], until_s: float) -> tuple[Duty, float]:
    """Kernels of 1 ms, of which each waits for others' turns first (as long as listed, in turn)."""
    now, duty, number = 0.0, Duty(share, 0.0), 0
    while now < until_s:
        now += turns_s[number % len(turns_s)] + 1e-3
        now += duty.spent(now, 1e-3)
        number += 1
    return duty, now


@given(share=st.floats(0.01, 0.9), others_s=st.lists(st.floats(0.0, 2e-3), min_size=1, max_size=5))
def test_a_hog_takes_its_share_unless_others_have_more_turns(share: float, others_s: list[float]) -> None:
    duty, now = run(share, others_s, 20.0)
    most = len(others_s) * 1e-3 / (sum(others_s) + len(others_s) * 1e-3)
    if most > 1.05 * share:
        assert duty.taken_frac(now) == pytest.approx(share, rel=0.01, abs=2e-4)
    else:
        assert duty.taken_frac(now) <= share * 1.01 + 2e-4


def test_what_was_missed_for_too_long_is_not_taken_later() -> None:
    duty = Duty(0.5, 0.0)
    duty.spent(100.0, 1e-3)
    now, taken = 100.0, 0
    while not (wait_s := duty.spent(now, 1e-3)):
        now, taken = now + 1e-3, taken + 1
    assert taken * 1e-3 == pytest.approx(CREDIT_S, rel=0.02), "half of it is earned meanwhile"
    assert wait_s == pytest.approx(1e-3, abs=1.1e-3)


def test_nothing_is_taken_without_a_share() -> None:
    assert Duty(0.0, 0.0).spent(1.0, 1e-3) == math.inf
    assert Duty(0.5, 1.0).taken_frac(1.0) == 0.0
