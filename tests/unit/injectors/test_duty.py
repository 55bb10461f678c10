"""Budgets and the governor, on a machine of our own, the hogs of a GPU, cpulimit's loop: exact shares, no escape."""

from __future__ import annotations

import math
from random import Random

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from injectors.actuators.cpulimit_grants import TOLERANCE_FRAC, granted_cores, percent_for
from injectors.actuators.duty import DENIED_S, LONGEST_STOP_S, TICK_S, Budget
from injectors.actuators.gpu_duty import CREDIT_S, Duty, hogs_for
from tests.support.examples import examples
from tests.support.throttled_machine import Machine


def used_by(cores: float, threads: int, late_s: float, for_s: float = 30.0) -> float:
    """CPU seconds of a busy process under a budget whose ticks come late."""
    budget, chance, now, used_s, last_s = Budget(cores), Random(1), 0.0, 0.0, 0.0
    while now < for_s:
        held = budget.settle(now, used_s - last_s)
        last_s = used_s
        step_s = budget.wait_s(now) + chance.uniform(0, late_s)
        now, used_s = now + step_s, used_s + (0 if held else threads * step_s)
    return used_s


def least_cores(threads: int, late_s: float) -> float:
    """What a group uses at least: a tick, as late as it may come, after every longest stop."""
    return threads * (TICK_S + late_s) / LONGEST_STOP_S


LATE_S = st.sampled_from([0.0, 0.001, 0.02])


@examples(20)
@given(part=st.floats(0.0, 1.0), threads=st.integers(1, 4), late_s=LATE_S)
@example(part=0.0, threads=3, late_s=0.02)
def test_the_share_is_exact_in_the_long_run(part: float, threads: int, late_s: float) -> None:
    least = least_cores(threads, late_s)
    cores = least + part * (4.0 - least)
    last_ticks_s = threads * 3 * (TICK_S + late_s)
    assert used_by(cores, threads, late_s) == pytest.approx(min(cores, threads) * 30, abs=last_ticks_s)


@given(part=st.floats(0.1, 1.0), threads=st.integers(1, 4), late_s=LATE_S)
@example(part=0.5, threads=3, late_s=0.02)
def test_a_smaller_quota_is_exceeded_by_no_more_than_the_ticks(part: float, threads: int, late_s: float) -> None:
    """A group in debt runs for a tick after every longest stop: its debt grows, but its share does not."""
    least, last_ticks_s = least_cores(threads, late_s), threads * 3 * (TICK_S + late_s)
    used_s = used_by(part * least, threads, late_s)
    assert part * least * 30 - last_ticks_s <= used_s <= least * 30 + last_ticks_s


def test_what_we_denied_by_coming_late_is_given_back_within_bounds() -> None:
    for late_s, kept_s in ((0.05, 0.05), (60.0, DENIED_S)):
        budget = Budget(0.5)
        budget.settle(0.0, 0.0)
        assert budget.settle(TICK_S, TICK_S)
        owed_s = -budget.balance_s
        assert not budget.settle(TICK_S + owed_s / 0.5 + late_s, 0.0)
        assert budget.balance_s == pytest.approx(0.5 * kept_s)


def test_a_large_debt_is_paid_with_breaths_in_between() -> None:
    """No process is paused for longer than a lease, and the debt is paid all the same."""
    budget, now, stop_s, runs = Budget(0.05), 0.0, 0.0, 0
    budget.settle(now, 0.0)
    budget.settle(now, 1.0)
    while budget.balance_s < 0:
        wait_s = budget.wait_s(now)
        stop_s = max(stop_s, wait_s if budget.held else 0.0)
        runs += not budget.held
        now += wait_s
        budget.settle(now, 0.0 if budget.held else wait_s)
    assert stop_s <= LONGEST_STOP_S + TICK_S
    assert now == pytest.approx((1.0 + runs * TICK_S) / 0.05, abs=0.1)
    assert runs >= 20


def limited(cores: float) -> Machine:
    """One process, alone in a group with this quota."""
    machine = Machine(1)
    machine.governor.add(1, ("a",))
    machine.governor.set_quota("a", cores)
    return machine


def test_quotas_nest() -> None:
    machine = Machine(1, 2, 3)
    for pid, groups in ((1, ("a", "h")), (2, ("b", "h")), (3, ("c",))):
        machine.governor.add(pid, groups)
    machine.governor.set_quota("h", 0.5)
    machine.governor.set_quota("a", 0.1)
    machine.run(20.0)
    assert machine.cpu_s[1] == pytest.approx(0.1 * 20, rel=0.02)
    assert machine.cpu_s[1] + machine.cpu_s[2] == pytest.approx(0.5 * 20, rel=0.02)
    assert machine.cpu_s[3] == pytest.approx(20, abs=0.01)


def test_nobody_escapes_a_quota() -> None:
    machine = limited(0.1)
    for _ in range(1000):
        machine.governor.set_quota("a", 0.1)
        machine.run(0.02)
    assert machine.cpu_s[1] == pytest.approx(0.1 * 20, rel=0.02)
    machine = limited(0.1)
    for _ in range(20):
        machine.run(1.71)
        machine.stopped.discard(1)
    assert machine.cpu_s[1] == pytest.approx(0.1 * 20 * 1.71, rel=0.05)


def test_a_share_is_what_was_used_since_it_was_last_asked_for() -> None:
    machine = Machine(1, 2)
    for pid in (1, 2):
        machine.governor.add(pid, ("a",))
    assert math.isnan(machine.governor.share("a", machine.now))
    machine.pass_(10.0)
    assert machine.governor.share("a", machine.now) == pytest.approx(2.0)
    machine.idle.add(1)
    machine.pass_(10.0)
    assert machine.governor.share("a", machine.now) == pytest.approx(1.0)


@pytest.mark.parametrize("cores", [0.0, -1.0, 0.009, math.nan, math.inf])
def test_a_quota_that_cannot_be_kept_is_refused(cores: float) -> None:
    machine = Machine()
    with pytest.raises(ValueError, match="cannot be held"):
        machine.throttles.set_cpu("worker:0", cores)
    assert machine.throttles.state().cpu == {}


@given(left=st.floats(0.02, 0.99), sharers=st.integers(1, 8))
def test_so_many_hogs_suffice_and_no_fewer_do(left: float, sharers: int) -> None:
    """By round robin: a hog and each of those that compute always have work, so each has one turn of m + k."""
    hogs = hogs_for(left, sharers)
    assert sharers / (sharers + hogs) <= left + 1e-6
    assert hogs == 1 or sharers / (sharers + hogs - 1) > left


def run(share: float, turns_s: list[float], until_s: float) -> tuple[Duty, float]:
    """Kernels of 1 ms, of which each waits for others' turns first (as long as listed, in turn)."""
    now, duty, number = 0.0, Duty(share, 0.0), 0
    while now < until_s:
        now += turns_s[number % len(turns_s)] + 1e-3
        now += duty.spent(now, 1e-3)
        number += 1
    return duty, now


@examples(20)
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


MEASURED = {75: 0.719, 50: 0.536, 25: 0.295, 10: 0.133, 5: 0.069}
"""Share of a core that a busy process had under cpulimit 2.8, by percent: five or more iterations of 1 s."""


@pytest.mark.parametrize(("percent", "share"), MEASURED.items())
def test_the_loop_grants_what_the_program_was_measured_to_grant(percent: int, share: float) -> None:
    assert granted_cores(percent) == pytest.approx(share, rel=0.04)


@pytest.mark.parametrize(("left", "running_cores"), [(0.75, 0.4), (0.5, 1.0), (0.1, 2.0)])
def test_the_percent_grants_what_is_asked_for(left: float, running_cores: float) -> None:
    percent, granted = percent_for(left * running_cores, running_cores)
    assert granted == granted_cores(percent, running_cores)
    assert granted == pytest.approx(left * running_cores, rel=TOLERANCE_FRAC)


def test_a_neighbouring_percent_is_no_better() -> None:
    for cores in (0.07, 0.3):
        percent, granted = percent_for(cores)
        for other in (percent - 1, percent + 1):
            assert abs(granted_cores(other) - cores) >= abs(granted - cores)


@pytest.mark.parametrize("cores", [0.005, 0.03, 0.0, -1.0, math.nan])
def test_what_no_percent_grants_is_refused(cores: float) -> None:
    with pytest.raises(ValueError, match=r"cores: cpulimit"):
        percent_for(cores)


def test_more_than_the_target_can_use_is_no_limit() -> None:
    assert percent_for(1.5, 1.0) == (150, 1.5)
