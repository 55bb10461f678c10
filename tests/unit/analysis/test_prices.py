"""Prices of cures that are no strategies: closed forms, recomputed step times, and all ends of a wait."""

from __future__ import annotations

from dataclasses import replace
from math import inf
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.logs.gathering import gather
from analysis.logs.run_record import read_record
from analysis.logs.step_log import PER_ROW, RELATIVE, RESTARTED, StepLog
from analysis.measures.ranking import saved_per_step
from analysis.measures.rent_or_buy import restart_after
from analysis.measures.straggling import Straggling, straggling
from analysis.records.load import load_run
from analysis.reports.cures import ALIGN, BALANCE, RULE, cures, price_sheet, restart_lines, unpriced_lines
from tests.support.cli import run_cli

C, L, P = 0.5, 2.0, 40
"""Seconds of a usual step and of a pause, and steps from one pause of a rank to its next."""
STEPS = 400


def log_of(own_s: np.ndarray) -> StepLog:
    steps, ranks = own_s.shape
    names = tuple(map(str, range(ranks)))
    return StepLog(source="", ranks=names, steps=tuple(range(steps)), own_s=own_s, round_s=own_s.max(axis=1), job={})


def found_in(own_s: np.ndarray) -> Straggling:
    return straggling(log_of(own_s), barrier=True, slow_frac=0.1)


def usual(ranks: int, sigma: float = 0.005) -> np.ndarray:
    return C * np.exp(sigma * np.random.default_rng(7).standard_normal((STEPS, ranks)))


def paused(phases: list[int], clean_s: np.ndarray, lengths_s: np.ndarray | float = L) -> np.ndarray:
    """Every rank pauses from its phase on, every P steps; ``lengths_s``: of its pauses, in turn."""
    own_s = clean_s.copy()
    for rank, phase in enumerate(phases):
        own_s[phase::P, rank] += np.broadcast_to(lengths_s, STEPS)[: len(own_s[phase::P])]
    return own_s


def price_of(own_s: np.ndarray, name: str) -> float:
    log = log_of(own_s)
    (one,) = [cure for cure in cures(log, found_in(own_s), 0.0) if cure.row.strategy == name]
    return one.saved.step_s


@pytest.mark.parametrize("ranks", [2, 8, 32])
def test_pauses_at_independent_phases_cost_the_closed_form_and_aligned_one_per_period(ranks: int) -> None:
    """A step has none with probability (1 - 1 / P)^N: a step costs L times the rest; aligned L / P."""
    phases = np.random.default_rng(ranks).integers(P, size=ranks).tolist()
    found = found_in(paused(phases, usual(ranks)))
    assert found.staggered is not None
    assert found.staggered.members == tuple(range(ranks))
    assert found.staggered.length_s == pytest.approx(L, rel=0.02)
    assert found.staggered.period_steps == P
    assert not found.units
    distinct = len(set(phases))
    assert found.staggered.cost_s.mean() == pytest.approx(L * distinct / P, rel=0.02)
    assert found.staggered.saved_s.mean() == pytest.approx(L * (distinct - 1) / P, rel=0.03)
    many = np.random.default_rng(1).integers(P, size=(400, ranks))
    mean = float(np.mean([len(set(row)) for row in many.tolist()])) / P
    assert mean == pytest.approx(1 - (1 - 1 / P) ** ranks, rel=0.03), "the phases of this test are independent"


@pytest.mark.parametrize("spread", [0.0, 0.2])
def test_aligning_is_worth_what_the_same_pauses_in_the_same_steps_take(spread: float) -> None:
    """By brute force: the k-th pauses of all ranks in one step, and the maxima of all steps once more."""
    lengths = L * np.exp(spread * np.random.default_rng(3).standard_normal(STEPS))
    clean_s, phases = usual(8), [0, 5, 9, 14, 20, 26, 31, 36]
    own_s = paused(phases, clean_s, lengths)
    aligned_s = paused([0] * 8, clean_s, lengths)
    truth_s = float((own_s.max(axis=1) - aligned_s.max(axis=1)).mean())
    assert price_of(own_s, ALIGN) == pytest.approx(truth_s, rel=0.03)


def test_pauses_are_regular_on_the_clock_that_made_them() -> None:
    """In the second half of the log steps take twice as long: pauses come every P steps, or every P C seconds."""
    clean_s = usual(4)
    clean_s[STEPS // 2 :] *= 2.0
    by_steps = found_in(paused([3, 13, 23, 33], clean_s)).staggered
    assert by_steps is not None
    assert (by_steps.unit, by_steps.period) == ("steps", P)
    own_s, now_s, due_s = clean_s.copy(), 0.0, C * np.array([3.0, 13.0, 23.0, 33.0])
    for step in range(STEPS):
        now = due_s <= now_s
        own_s[step, now] += L
        due_s[now] += P * C + L
        now_s += float(own_s[step].max())
    by_time = found_in(own_s).staggered
    assert by_time is not None
    assert by_time.unit == "s"
    assert by_time.period == pytest.approx(P * C + L, rel=0.02)


def test_pauses_in_the_same_steps_of_one_rank_or_at_random_are_not_staggered() -> None:
    together = paused([5] * 4 + [10**6] * 12, usual(16))
    alone = paused([5] + [10**6] * 15, usual(16))
    rng, at_random = np.random.default_rng(2), usual(16)
    for rank in range(16):
        at_random[rng.choice(STEPS, 10, replace=False), rank] += L
    for own_s in (together, alone, at_random, usual(16)):
        assert found_in(own_s).staggered is None
    assert found_in(alone).units[0].course.kind == "periodic"


def test_a_straggler_among_pausing_ranks_keeps_its_name_and_the_pauses_blame_nobody() -> None:
    own_s = paused([3, 8, 13, 18, 23, 28, 33, 38], usual(8))
    own_s[150:, 6] *= 1.6
    found = found_in(own_s)
    assert [unit.group.members for unit in found.units] == [(6,)]
    assert found.staggered is not None
    assert set(found.ranks["kind"]) == {"pauses", "persistent"}


@pytest.mark.parametrize("slow", [1.0, 1.5])
def test_balancing_is_worth_the_maximum_over_the_mean_of_the_work(slow: float) -> None:
    """By brute force: every rank has the mean of the step's work. A slow device (rank 2) stays slow with even work."""
    work = np.exp(0.4 * np.random.default_rng(5).standard_normal((STEPS, 8)))
    device = np.where(np.arange(8) == 2, slow, 1.0)
    own_s = C * work * device
    even_s = C * work.mean(axis=1, keepdims=True) * device
    truth_s = float((own_s.max(axis=1) - even_s.max(axis=1)).mean())
    assert found_in(own_s).uneven
    assert price_of(own_s, BALANCE) == pytest.approx(truth_s, rel=0.03 if slow == 1.0 else 0.08)  # 400 steps tell 1.5


def test_the_interval_of_a_price_contains_it_and_needs_four_blocks() -> None:
    rng = np.random.default_rng(0)
    length_s, saved_s = rng.uniform(1.0, 2.0, 100), rng.uniform(0.1, 0.3, 100)
    price = saved_per_step(length_s, saved_s, 5)
    assert price.step_s == pytest.approx(saved_s.mean())
    assert price.low_s < price.step_s < price.high_s
    assert price.hour_s == pytest.approx(3600 * saved_s.sum() / length_s.sum())
    assert np.isnan(saved_per_step(length_s[:12], saved_s[:12], 5).low_s)
    narrow = saved_per_step(np.tile(length_s, 16), np.tile(saved_s, 16), 5)
    assert narrow.high_s - narrow.low_s < 0.5 * (price.high_s - price.low_s)


def cost_s(lost_s: list[float], restart_s: float, after: float) -> float:
    """Of one that restarts after so many slow steps, when the straggler would have been slow for these steps."""
    return sum(lost_s) if after >= len(lost_s) else sum(lost_s[: int(after)]) + restart_s


@given(st.lists(st.floats(0.0, 5.0), min_size=1, max_size=20), st.floats(0.1, 40.0))
def test_whatever_the_end_the_rule_costs_at_most_twice_as_much_as_hindsight(
    lost: list[float], restart_s: float
) -> None:
    due = restart_after(np.array(lost), restart_s)
    for end in range(1, len(lost) + 1):
        best_s = min(cost_s(lost[:end], restart_s, after) for after in (*range(end), inf))
        rule_s = cost_s(lost[:end], restart_s, inf if due is None else due)
        assert rule_s <= 2.0 * best_s + max(lost[:end]) + 1e-9


def test_no_other_step_is_as_safe_as_the_rule() -> None:
    """Steps that lose 1 s each, a restart of 20 s: the worst ratio over all ends is 2, else larger."""

    def worst(after: float) -> float:
        ends = range(1, 400)
        return max(cost_s([1.0] * end, 20.0, after) / min(end, 20.0) for end in ends)

    assert restart_after(np.ones(400), 20.0) == 20
    assert worst(20) == pytest.approx(2.0)
    assert all(worst(after) > 2.0 for after in (1, 5, 10, 15, 25, 40, inf))


def slow_since(start: int, factor: float = 2.0) -> tuple[StepLog, Straggling]:
    own_s = usual(8)
    own_s[start:, 3] *= factor
    return log_of(own_s), found_in(own_s)


def test_a_restart_pays_now_or_the_job_waits_for_so_many_steps() -> None:
    """Rank 3 loses 0.5 s in each of 100 steps."""
    log, found = slow_since(300)
    (now, rule) = restart_lines(log, found, 10.0, "assumed")
    assert now.startswith("rank 3: restart now: ")
    assert rule == RULE
    assert int(now.rpartition(" ")[2]) == pytest.approx(300 + 20 - 1, abs=1)
    (wait, _) = restart_lines(log, found, 60.0, "assumed")
    assert "s were lost since step 300, less than a restart costs (60 s, assumed); restart after " in wait
    assert int(wait.rpartition("(")[2].split()[0]) == pytest.approx(20, abs=2)


def test_a_straggler_that_has_ended_is_neither_restarted_nor_priced() -> None:
    own_s = usual(8)
    own_s[100:200, 3] *= 2.0
    log, found = log_of(own_s), found_in(own_s)
    assert restart_lines(log, found, 10.0, "assumed") == []
    assert unpriced_lines(log, found) == [
        "rank 3: cannot be priced, because it was slow once and is not any more",
        "moving a loader: cannot be priced, because the log has no seconds of loading",
    ]
    assert cures(log, found, 10.0) == []


def test_a_row_that_stands_for_ten_steps_has_the_price_of_one() -> None:
    log, found = slow_since(300)
    rows = replace(log, job={PER_ROW: 10})
    one, ten = (cures(each, found, 0.0)[0].saved for each in (log, rows))
    assert (ten.step_s, ten.hour_s) == pytest.approx((one.step_s / 10, one.hour_s))
    (wait, _) = restart_lines(rows, found, 60.0, "assumed")
    assert int(wait.rpartition("(")[2].split()[0]) == pytest.approx(200, abs=20)


def test_times_without_a_unit_are_not_compared_with_a_restart() -> None:
    log, found = slow_since(300)
    (line,) = restart_lines(replace(log, job={RELATIVE: True}), found, 10.0, "assumed")
    assert "cannot be priced" in line
    calm = log_of(usual(8))
    assert restart_lines(replace(calm, job={RELATIVE: True}), found_in(usual(8)), 10.0, "assumed") == []


def test_slow_steps_of_changing_ranks_have_no_price_and_a_calm_job_has_no_line() -> None:
    rng, own_s = np.random.default_rng(2), usual(16)
    for rank in range(16):
        own_s[rng.choice(STEPS, 3, replace=False), rank] += L
    log, found = log_of(own_s), found_in(own_s)
    assert cures(log, found, 10.0) == []
    assert unpriced_lines(log, found) == [
        "slow steps of changing ranks: cannot be priced, because the log does not say what they share"
    ]
    assert unpriced_lines(log_of(usual(16)), found_in(usual(16))) == []


def test_loaders_that_hide_each_other_have_a_price_together() -> None:
    """Two ranks that load for as long as they compute: curing one alone saves nothing."""
    own_s, data_s = usual(8), np.full((STEPS, 8), 0.01)
    data_s[50:, 2] = data_s[50:, 5] = C
    log = replace(log_of(own_s + data_s), data_s=data_s)
    found = straggling(log, barrier=True, slow_frac=0.1)
    together = {one.row.strategy: one for one in cures(log, found, 30.0)}["move the loading of all 2 stragglers"]
    truth_s = float(((own_s + data_s).max(axis=1) - (own_s + 0.01).max(axis=1)).mean())
    assert together.saved.step_s == pytest.approx(truth_s, rel=0.03)
    assert price_sheet([together]).rows[0][0] == "move the loading of all 2 stragglers"
    assert restart_lines(log, found, 1.0, "assumed") == []


def rows_of(restarted: bool) -> pd.DataFrame:
    """Two ranks, ten steps of 1 s; after step 6 the job goes back to step 4, and 30 s pass until that begins."""
    steps = [*range(7), *range(4, 10)] if restarted else list(range(10))
    begins = [float(place + (30 if place >= 7 and restarted else 0)) for place in range(len(steps))]
    return pd.concat([pd.DataFrame({"rank": rank, "step": steps, "own_s": 1.0, "begin_s": begins}) for rank in "ab"])


def test_a_restart_in_the_log_costs_what_passes_until_its_steps_begin_again() -> None:
    assert gather("x", rows_of(restarted=True)).job[RESTARTED] == pytest.approx(33.0)
    assert RESTARTED not in gather("x", rows_of(restarted=False)).job
    assert RESTARTED not in gather("x", rows_of(restarted=True).drop(columns="begin_s")).job
    epochs = rows_of(restarted=True).assign(
        step=lambda rows: rows["step"].where(rows["begin_s"] < 30, rows["step"] - 4)
    )
    assert RESTARTED not in gather("x", epochs).job, "steps that are counted anew are no restart"


def test_a_record_says_what_its_restarts_took(tmp_path: Path) -> None:
    """A killed worker is scheduled after 2 s, and computes as soon as it has joined."""
    words = "runtime=virtual workload=digits backend=none workload.epochs=30 workload.target=null draw=false seed=1"
    kill = "straggler=kill straggler.targets=[worker:1] straggler.duration_s=2"
    result = run_cli(*words.split(), *kill.split(), f"hydra.run.dir={tmp_path / 'run'}")
    assert result.exit_code == 0, result
    restarts = load_run(tmp_path / "run").tables.restarts
    gone_s, back_s = (restarts.loc[restarts["what"] == what, "t"].iloc[0] for what in ("Lost", "Joined"))
    assert read_record(tmp_path / "run").job[RESTARTED] == pytest.approx(back_s - gone_s, abs=0.1)
    assert back_s - gone_s > 2.0
