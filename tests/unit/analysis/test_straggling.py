"""Slow steps, what they cost, and the job that is fitted to them: planted numbers, brute force, closed forms."""

from __future__ import annotations

import numpy as np
import pandas as pd
import pytest

from analysis.fitting.step_times import StepModel, fit_steps, repeated, resampled
from analysis.logs.step_log import StepLog
from analysis.measures.ranking import LOGGED, ranked
from analysis.measures.slow_steps import slow_steps
from analysis.measures.straggling import barrier_s, block_of, episode_lengths, straggling

STEPS = 200


def noisy(ranks: int, sigma: float = 0.02, seed: int = 0) -> np.ndarray:
    draws = np.random.default_rng(seed).standard_normal((STEPS, ranks))
    return np.exp(sigma * draws - sigma**2 / 2)


def as_log(own_s: np.ndarray, **more: object) -> StepLog:
    names = tuple(map(str, range(own_s.shape[1])))
    return StepLog(source="test", ranks=names, steps=tuple(range(len(own_s))), own_s=own_s, **more)  # type: ignore[arg-type]


# ---- slow steps -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("ranks", [2, 4, 16])
@pytest.mark.parametrize("sigma", [0.003, 0.03])
def test_calm_ranks_are_calm(ranks: int, sigma: float) -> None:
    found = slow_steps(0.5 * noisy(ranks, sigma))
    assert found.slow.mean() < 0.015
    assert not found.stragglers.any()
    assert found.base_s == pytest.approx(0.5, rel=0.02)
    assert found.sigma == pytest.approx(sigma, rel=0.2)


def test_planted_steps_are_found_and_no_others() -> None:
    own_s = noisy(4)
    own_s[50:80, 1] *= 1.5
    own_s[60:70, 2] *= 3.0
    own_s[:, 3] *= 2.0
    found = slow_steps(own_s)
    truth = np.zeros((STEPS, 4), bool)
    truth[50:80, 1] = truth[60:70, 2] = truth[:, 3] = True
    assert (found.slow != truth).mean() < 0.005
    assert found.persistent.tolist() == [False, False, False, True]
    assert found.stragglers.tolist() == [False, True, True, True]
    assert found.excess[55, 1] == pytest.approx(0.5, abs=0.1)
    assert found.base_s == pytest.approx(1.0, rel=0.01)
    assert (found.excess[~found.slow] == 0).all()


@pytest.mark.parametrize("ranks", [2, 4, 8])
@pytest.mark.parametrize("factor", [1.3, 1.9, 4.0])
@pytest.mark.parametrize("sigma", [0.003, 0.03])
def test_half_of_the_ranks_may_be_slow_throughout(ranks: int, factor: float, sigma: float) -> None:
    """The median of all steps is then neither usual nor slow."""
    slow = np.arange(ranks) % 2 == 1
    own_s = noisy(ranks, sigma) * np.where(slow, factor, 1.0)
    found = slow_steps(own_s)
    assert found.persistent.tolist() == slow.tolist()
    assert not found.slow[:, ~slow].any(axis=0).all()
    assert found.stragglers.tolist() == slow.tolist()
    assert found.usual_s == pytest.approx(1.0, rel=0.02)


def test_three_of_four_ranks_may_be_slow_throughout() -> None:
    found = slow_steps(noisy(4) * np.array([2.0, 2.0, 1.0, 2.0]))
    assert found.persistent.tolist() == [True, True, False, True]


def test_a_step_a_little_longer_is_not_slow_however_calm_the_others() -> None:
    own_s = noisy(4, 0.001)
    own_s[50:80, 1] *= 1.05
    assert not slow_steps(own_s).slow.any()


def test_what_all_ranks_share_is_nobodys_fault() -> None:
    own_s = noisy(8)
    own_s[100:120] *= 3.0
    found = slow_steps(own_s)
    assert not found.stragglers.any()
    assert found.shared[110] / found.shared[10] == pytest.approx(3.0, rel=0.05)


def test_devices_that_differ_a_little_have_bases_of_their_own() -> None:
    own_s = noisy(4) * np.array([1.0, 1.06, 1.0, 1.0])
    found = slow_steps(own_s)
    assert not found.stragglers.any()
    assert found.base_s[1] / found.usual_s == pytest.approx(1.06, rel=0.01)


def test_memory_of_jitter_is_measured() -> None:
    rng, rho = np.random.default_rng(1), 0.7
    levels = np.zeros((2000, 8))
    for step in range(1, 2000):
        levels[step] = rho * levels[step - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(8)
    found = slow_steps(np.exp(0.02 * levels))
    assert found.rho == pytest.approx(rho, abs=0.1)
    assert found.sigma == pytest.approx(0.02, rel=0.15)


def test_missing_steps_are_not_slow() -> None:
    own_s = noisy(4)
    own_s[20:30, 2] = np.nan
    found = slow_steps(own_s)
    assert not found.slow[20:30, 2].any()
    assert np.isfinite(found.base_s).all()


# ---- their cost -----------------------------------------------------------------------------------------------------


def test_the_cost_is_that_of_brute_force() -> None:
    own_s = noisy(5)
    own_s[30:60, 0] *= 2.0
    own_s[:, 4] *= 1.5
    rounds = own_s.max(axis=1) + 0.1
    found = straggling(as_log(own_s, round_s=rounds), barrier=True, slow_frac=0.1)
    actual, ideal = sum(max(row) + 0.1 for row in own_s), sum(float(np.median(row)) + 0.1 for row in own_s)
    assert found.slowdown == pytest.approx(actual / ideal)
    assert found.low < found.slowdown < found.high
    for rank in range(5):
        mended = [[min(x, float(np.median(row))) if r == rank else x for r, x in enumerate(row)] for row in own_s]
        saved = 1 - sum(max(row) + 0.1 for row in mended) / actual
        assert found.ranks["alone_saves_frac"][rank] == pytest.approx(saved)
    lost = [max(row) - float(np.median(row)) for row in own_s]
    of_4 = sum(each for each, row in zip(lost, own_s, strict=True) if row[4] == max(row))
    assert found.ranks["share"][4] == pytest.approx(of_4 / sum(lost))
    assert found.ranks["share"].sum() == pytest.approx(1.0)
    assert found.ranks["kind"].tolist() == ["transient", "", "", "", "persistent"]


def test_without_barriers_ranks_contribute_by_their_speed() -> None:
    own_s = np.ones((STEPS, 4))
    own_s[:, 0] = 2.0
    found = straggling(as_log(own_s), barrier=False, slow_frac=0.1)
    assert found.slowdown == pytest.approx(4.0 / 3.5)


def test_without_barriers_a_rank_that_is_mended_stays_as_quick_as_it_was() -> None:
    """In half of its steps it is twice as quick as others, in the other half it takes twice as long."""
    own_s = np.ones((STEPS, 4))
    own_s[::2, 0], own_s[1::2, 0] = 0.5, 2.0
    found = straggling(as_log(own_s), barrier=False, slow_frac=0.1)
    quick, slow, calm = 4.0 / 5.0, 4.0 / 3.5, 1.0
    assert found.ranks["alone_saves_frac"][0] == pytest.approx(1 - (quick + calm) / (quick + slow))


def test_what_barriers_cost_is_usual_and_not_the_longest() -> None:
    own_s = np.ones((STEPS, 2))
    rounds = np.full(STEPS, 1.5)
    rounds[7] = 100.0
    assert barrier_s(as_log(own_s, round_s=rounds)) == pytest.approx(0.5)


def test_computing_and_communication_are_told_apart() -> None:
    own_s, comm_s = noisy(4), 0.2 * noisy(4, seed=1)
    own_s[40:80, 0] *= 2.0
    own_s[40:80, 1] *= 1.3
    comm_s[40:80, 1] += 2.0
    found = straggling(as_log(own_s, comm_s=comm_s), barrier=True, slow_frac=0.1)
    assert found.ranks["part"].tolist() == ["computing", "communication", "", ""]


def test_communication_of_all_is_nobody_s() -> None:
    own_s = noisy(4)
    own_s[40:80, 0] *= 2.0
    found = straggling(as_log(own_s, comm_s=np.full((STEPS, 4), 5.0)), barrier=True, slow_frac=0.1)
    assert found.ranks["part"].tolist() == ["computing", "", "", ""]


def test_blocks_are_longer_than_slow_phases() -> None:
    slow = np.zeros((STEPS, 3), bool)
    slow[10:30, 0] = slow[50:60, 1] = slow[60:70, 2] = True
    assert sorted(episode_lengths(slow)) == [10, 10, 20]
    assert block_of(slow) == 20
    ends = np.zeros((STEPS, 2), bool)
    ends[:3, 0] = ends[-4:, 0] = ends[:, 1] = True
    assert sorted(episode_lengths(ends)) == [3, 4, STEPS]
    assert block_of(np.zeros((1000, 3), bool)) == 10
    assert block_of(np.ones((40, 1), bool)) == 4


# ---- the fitted job -------------------------------------------------------------------------------------------------


def fitted(own_s: np.ndarray, **more: object) -> StepModel:
    log = as_log(own_s, **more)
    return fit_steps(log, slow_steps(own_s), barrier=True)


def test_windows_lie_where_slow_steps_did() -> None:
    own_s = np.ones((STEPS, 4))
    own_s[50:60, 1] *= 3.0
    model = fitted(own_s, round_s=own_s.max(axis=1) + 0.5)
    (window,) = model.windows.itertuples()
    assert (window.start_s, window.end_s) == pytest.approx((50 * 1.5, 50 * 1.5 + 10 * 3.5), rel=1e-3)
    assert (window.rank, window.of_machine) == (1, False)
    assert window.excess_frac == pytest.approx(2.0, rel=1e-3)
    assert model.length_s == pytest.approx(190 * 1.5 + 10 * 3.5, rel=1e-3)


def test_a_change_of_the_factor_begins_another_window() -> None:
    own_s = noisy(4, 0.001)
    own_s[50:60, 1] *= 3.0
    own_s[60:70, 1] *= 1.5
    model = fitted(own_s)
    assert model.windows["excess_frac"].tolist() == pytest.approx([2.0, 0.5], abs=0.01)
    assert model.windows["end_s"].iloc[0] == model.windows["start_s"].iloc[1]


def test_a_log_with_barriers_and_one_without_separate_what_both_cost() -> None:
    """A round costs 0.5 s more than its slowest rank, a message 0.2 s."""
    own_s = noisy(4)
    with_barriers = as_log(own_s, round_s=own_s.max(axis=1) + 0.5)
    begins = np.concatenate([np.zeros((1, 4)), np.cumsum(own_s + 0.2, axis=0)[:-1]])
    without = as_log(own_s, begin_s=begins)
    found = slow_steps(own_s)
    model = fit_steps(with_barriers, found, barrier=True, others=[without])
    assert (model.message_s, model.barrier_s) == pytest.approx((0.2, 0.3))
    alone = fit_steps(with_barriers, found, barrier=True)
    assert (alone.message_s, alone.barrier_s) == pytest.approx((0.0, 0.5))
    given = fit_steps(with_barriers, found, barrier=True, round_s=0.1)
    assert given.message_s + given.barrier_s == pytest.approx(0.1)


@pytest.mark.long(like="test_planted_steps_are_found_and_no_others")
def test_resampled_histories_have_the_log_on_average() -> None:
    own_s = noisy(4)
    own_s[20:40, 0] *= 2.0
    own_s[90:120, 3] *= 3.0
    model = fitted(own_s)

    def slow_s(windows: pd.DataFrame) -> float:
        return float((windows["end_s"] - windows["start_s"]).sum())

    logged = slow_s(repeated(model, model.length_s))
    assert logged == pytest.approx(slow_s(model.windows))
    drawn = [slow_s(resampled(model, model.length_s, seed)) for seed in range(300)]
    assert np.mean(drawn) == pytest.approx(logged, rel=0.15)
    assert np.std(drawn) > 0.1 * logged
    again = resampled(model, model.length_s, 7)
    pd.testing.assert_frame_equal(again, resampled(model, model.length_s, 7))
    assert again["end_s"].max() <= model.length_s
    assert (again["end_s"] > again["start_s"]).all()


def test_ranks_that_are_slow_together_remain_so() -> None:
    own_s = noisy(4)
    own_s[50:70, :2] *= 2.0
    windows = resampled(fitted(own_s), 1000.0, 1)
    one, other = (windows[windows["rank"] == rank]["start_s"].tolist() for rank in (0, 1))
    assert one == pytest.approx(other)
    assert len(one) > 2


# ---- ranking --------------------------------------------------------------------------------------------------------


def test_strategies_are_ranked_by_paired_ratios() -> None:
    rows = [
        {"strategy": name, "history": history, "jct_s": seconds * (2 + history), "staleness": 0.0}
        for name, seconds in (("now", 10.0), ("slow", 11.0), ("quick", 8.0), ("never", np.inf))
        for history in range(LOGGED, 5)
    ]
    found = ranked(pd.DataFrame(rows).assign(update_frac=1.0, dropped_frac=0.0), "now")
    assert [one.strategy for one in found] == ["quick", "now", "slow", "never"]
    assert [one.ratio for one in found] == pytest.approx([0.8, 1.0, 1.1, np.inf])
    assert [one.verdict for one in found] == ["faster", "one history only", "slower", "slower"]
    assert found[-1].unfinished == 6


def test_the_interval_is_of_other_histories_and_near_is_the_same() -> None:
    """The logged history is an exception: all others have the same ratio."""
    rows = [
        {"strategy": name, "history": history, "jct_s": seconds if history == LOGGED else usual_s}
        for name, seconds, usual_s in (("now", 10.0, 10.0), ("odd", 30.0, 8.0), ("near", 10.0, 10.05))
        for history in range(LOGGED, 5)
    ]
    found = ranked(pd.DataFrame(rows).assign(staleness=0.0, update_frac=1.0, dropped_frac=0.0), "now")
    by_name = {one.strategy: one for one in found}
    assert (by_name["odd"].ratio, by_name["odd"].low, by_name["odd"].high) == (3.0, 0.8, 0.8)
    assert by_name["near"].verdict == "the same"
