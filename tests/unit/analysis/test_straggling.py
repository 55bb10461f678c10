"""Slow steps, what they cost, and the job that is fitted to them: planted numbers, brute force, closed forms."""

from __future__ import annotations

import numpy as np
import pytest

from analysis.fitting.step_times import StepModel, fit_steps, part_of, repeated
from analysis.fitting.thinning import thinned
from analysis.logs.step_log import StepLog
from analysis.measures.block_intervals import in_blocks, ratio_interval
from analysis.measures.lateness import lateness
from analysis.measures.ranking import Repeated, rank_strategies, ranked_cure, work_in_blocks
from analysis.measures.slow_steps import slow_steps
from analysis.measures.straggling import straggling

STEPS = 200


def noisy(ranks: int, sigma: float = 0.02, seed: int = 0) -> np.ndarray:
    draws = np.random.default_rng(seed).standard_normal((STEPS, ranks))
    return np.exp(sigma * draws - sigma**2 / 2)


def as_log(own_s: np.ndarray, **more: object) -> StepLog:
    names = tuple(map(str, range(own_s.shape[1])))
    return StepLog(source="test", ranks=names, steps=tuple(range(len(own_s))), own_s=own_s, **more)  # type: ignore[arg-type]


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


def test_a_rank_that_is_slow_throughout_and_varies_has_no_usual_steps_of_its_own() -> None:
    """A published job has this form: rank 1 of 6 pauses at random in every step, and its means of 20 steps vary."""
    own_s = noisy(6, sigma=0.001)
    own_s[:, 1] *= 1.17 * np.exp(0.035 * np.random.default_rng(1).standard_normal(STEPS))
    found = slow_steps(own_s)
    assert found.persistent.tolist() == [False, True, False, False, False, False]
    assert float(np.median(found.excess[found.slow[:, 1], 1])) == pytest.approx(0.17, abs=0.02)


def test_memory_of_jitter_is_measured() -> None:
    rng, rho = np.random.default_rng(1), 0.7
    levels = np.zeros((2000, 8))
    for step in range(1, 2000):
        levels[step] = rho * levels[step - 1] + np.sqrt(1 - rho**2) * rng.standard_normal(8)
    found = slow_steps(np.exp(0.02 * levels))
    assert found.rho == pytest.approx(rho, abs=0.1)
    assert found.sigma == pytest.approx(0.02, rel=0.15)


def test_what_is_missing_shared_a_little_longer_or_usual_for_a_device_is_not_slow() -> None:
    missing, shared, longer = noisy(4), noisy(8), noisy(4, 0.001)
    missing[20:30, 2] = np.nan
    shared[100:120] *= 3.0
    longer[50:80, 1] *= 1.05
    found = slow_steps(missing)
    assert not found.slow[20:30, 2].any()
    assert np.isfinite(found.base_s).all()
    found = slow_steps(shared)
    assert not found.stragglers.any()
    assert found.shared[110] / found.shared[10] == pytest.approx(3.0, rel=0.05)
    assert not slow_steps(longer).slow.any()
    found = slow_steps(noisy(4) * np.array([1.0, 1.06, 1.0, 1.0]))
    assert not found.stragglers.any()
    assert found.base_s[1] / found.usual_s == pytest.approx(1.06, rel=0.01)
    found = slow_steps(noisy(4) * np.array([2.0, 2.0, 1.0, 2.0]))
    assert found.persistent.tolist() == [True, True, False, True]


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
    assert found.ranks["kind"].tolist() == ["once", "", "", "", "persistent"]


@pytest.mark.parametrize(("ranks", "slow"), [(2, 1), (4, 3)])
def test_half_of_the_ranks_slow_leave_a_healthy_median(ranks: int, slow: int) -> None:
    """The job without slow steps is never faster than one of median ranks; one slow rank of two costs what it adds."""
    own_s = noisy(ranks)
    own_s[50:, :slow] *= 1.5
    found = straggling(as_log(own_s), barrier=True, slow_frac=0.1)
    healthy_s = noisy(ranks).max(axis=1).sum()
    assert 1.0 < found.without_slow < 1.04
    assert found.slowdown / found.without_slow == pytest.approx(own_s.max(axis=1).sum() / healthy_s, rel=0.03)
    if slow == 1:
        saves_frac = 1.0 - healthy_s / own_s.max(axis=1).sum()
        assert found.ranks["alone_saves_frac"][0] == pytest.approx(saves_frac, rel=0.05)


def test_without_barriers_ranks_contribute_by_their_speed_and_a_mended_one_stays_as_quick_as_it_was() -> None:
    """In half of its steps it is twice as quick as others, in the other half it takes twice as long."""
    own_s = np.ones((STEPS, 4))
    own_s[:, 0] = 2.0
    assert straggling(as_log(own_s), barrier=False, slow_frac=0.1).slowdown == pytest.approx(4.0 / 3.5)
    own_s[::2, 0], own_s[1::2, 0] = 0.5, 2.0
    found = straggling(as_log(own_s), barrier=False, slow_frac=0.1)
    quick, slow, calm = 4.0 / 5.0, 4.0 / 3.5, 1.0
    assert found.ranks["alone_saves_frac"][0] == pytest.approx(1 - (quick + calm) / (quick + slow))


def test_what_barriers_cost_is_usual_and_not_the_longest() -> None:
    own_s = np.ones((STEPS, 2))
    rounds = np.full(STEPS, 1.5)
    rounds[7] = 100.0
    divided = lateness(as_log(own_s, round_s=rounds), barrier=True, slow_frac=0.1)
    assert divided.barrier_s == pytest.approx(0.5)
    assert (divided.pause_s[7], divided.pause_s.sum()) == pytest.approx((98.5, 98.5))


def test_computing_and_communication_are_told_apart() -> None:
    own_s, comm_s = noisy(4), 0.2 * noisy(4, seed=1)
    own_s[40:80, 0] *= 2.0
    own_s[40:80, 1] *= 1.3
    comm_s[40:80, 1] += 2.0
    found = straggling(as_log(own_s, comm_s=comm_s), barrier=True, slow_frac=0.1)
    assert found.ranks["part"].tolist() == ["computing", "communication", "", ""]
    of_all = straggling(as_log(own_s, comm_s=np.full((STEPS, 4), 5.0)), barrier=True, slow_frac=0.1)
    assert of_all.ranks["part"].tolist() == ["computing", "computing", "", ""], "communication of all is nobody's"


def fitted(own_s: np.ndarray, **more: object) -> StepModel:
    log = as_log(own_s, **more)
    return fit_steps(log, slow_steps(own_s), barrier=True)


def test_windows_lie_where_slow_steps_did_and_a_change_of_the_factor_begins_another() -> None:
    own_s = np.ones((STEPS, 4))
    own_s[50:60, 1] *= 3.0
    model = fitted(own_s, round_s=own_s.max(axis=1) + 0.5)
    (window,) = model.windows.itertuples()
    assert (window.start_s, window.end_s) == pytest.approx((50 * 1.5, 50 * 1.5 + 10 * 3.5), rel=1e-3)
    assert (window.rank, window.of_machine) == (1, False)
    assert window.excess_frac == pytest.approx(2.0, rel=1e-3)
    assert model.length_s == pytest.approx(190 * 1.5 + 10 * 3.5, rel=1e-3)
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


@pytest.mark.parametrize(("one_in", "first"), [(1, 0), (2, STEPS), (8, 0)])
def test_a_part_of_a_log_costs_its_share(one_in: int, first: int) -> None:
    """A rank is slow in either half of the log, another one now and then."""
    own_s = np.concatenate([noisy(4), noisy(4, seed=1)])
    own_s[first : first + STEPS, 1] *= 2.0
    own_s[np.random.default_rng(3).random(2 * STEPS) < 0.1, 2] *= 3.0
    log = as_log(own_s)
    found = slow_steps(own_s)
    model = fit_steps(log, found, barrier=True)
    excess_s = np.where(found.slow, found.excess * found.base_s, 0.0)
    pieces = thinned(np.column_stack([own_s.max(axis=1), excess_s]), one_in, 4)
    part = part_of(model, pieces)
    assert part.steps == sum(end - start for start, end in pieces)
    assert part.steps == pytest.approx(2 * STEPS / one_in, rel=0.15)
    share = part.steps / model.steps
    assert part.length_s == pytest.approx(share * model.length_s, rel=0.02)
    assert part.rank_steps.sum() == part.steps * 4
    for rank in (1, 2):
        slow_s = [
            float(((one["end_s"] - one["start_s"]) * one["excess_frac"])[one["rank"] == rank].sum())
            for one in (part.windows, model.windows)
        ]
        assert slow_s[0] == pytest.approx(share * slow_s[1], abs=4.0)  # two steps of 3 s
    mine = part.windows[part.windows["rank"] == 1]
    middle_s = float((mine["start_s"] + mine["end_s"]).mean()) / 2
    assert (middle_s > part.length_s / 2) == (first > 0)
    assert part.windows["end_s"].max() <= part.length_s + 1e-9
    assert (part.windows["end_s"] > part.windows["start_s"]).all()


def test_the_logged_windows_begin_again() -> None:
    own_s = noisy(4)
    own_s[50:70, :2] *= 2.0
    model = fitted(own_s)
    twice = repeated(model, 2 * model.length_s)
    assert len(twice) == 2 * len(model.windows)
    assert twice["end_s"].max() <= 2 * model.length_s
    one, other = (twice[twice["rank"] == rank]["start_s"].tolist() for rank in (0, 1))
    assert one == pytest.approx(other)


def done(*work: float) -> Repeated:
    return Repeated(np.array(work), sum(work), 0.0, 1.0, 0.0)


def test_strategies_are_ranked_by_the_work_that_they_do_in_the_same_history_and_pauses_remain() -> None:
    some = [(1.0, 1.1, 0.9, 1.0), (0.5, 0.55, 0.45, 0.5), (2.0, 2.2, 1.8, 2.0), (0.0, 0.0, 0.0, 0.0)]
    jobs = {name: done(*work) for name, work in zip(("now", "slow", "quick", "never"), some, strict=True)}
    found = rank_strategies(jobs, "now", logged_s=100.0)
    assert [one.strategy for one in found] == ["quick", "now", "slow", "never"]
    assert [one.ratio for one in found] == pytest.approx([0.5, 1.0, 2.0, np.inf])
    assert [one.jct_s for one in found] == pytest.approx([50.0, 100.0, 200.0, np.inf])
    assert [one.verdict for one in found if one.strategy != "now"] == ["faster", "slower", "slower"]
    quick = rank_strategies(jobs, "now", logged_s=100.0, paused_s=20.0)[0]
    assert (quick.ratio, quick.jct_s) == pytest.approx((0.2 + 0.8 * 0.5, 60.0))


def test_intervals_have_the_ratio_as_often_as_they_say() -> None:
    """Independent blocks with a known ratio: 95 of 100; a change in the middle of the log widens nothing."""
    rng = np.random.default_rng(0)
    hits, widths = 0, []
    for _ in range(200):
        bottoms = 1.0 + 0.2 * rng.standard_normal(40)
        level = np.repeat([1.0, 3.0], 20)
        tops = level + 0.2 * rng.standard_normal(40)
        low, high = ratio_interval(tops, bottoms)
        hits += low < 2.0 < high
        widths.append(high - low)
    assert 0.92 <= hits / 200 <= 0.99
    assert np.median(widths) < 0.4  # 0.65 if blocks were drawn from all over the log


def test_too_few_blocks_and_damaged_logs_have_no_interval() -> None:
    assert all(np.isnan(ratio_interval(np.ones(3), np.ones(3))))
    assert len(in_blocks(np.ones(1000), 1)) == 40
    late = work_in_blocks(np.array([1.0]), np.array([4.0]), 4.0, 2)
    assert late.tolist() == [4.0, 0.0]
    # Of damaged logs parts may be less than nothing, so that a sum is small and its parts are not.
    assert ratio_interval(np.array([1e9, 1.0, 1e9, -2e9 + 1.0]), np.ones(4)) == (0.0, np.inf)


def test_a_cure_costs_its_restart() -> None:
    row = ranked_cure("replace", np.full(40, 2.0), np.full(40, 0.5), 10.0, 4)
    assert (row.ratio, row.jct_s) == pytest.approx((1 - 0.25 + 0.125, 70.0))
    assert row.low <= row.ratio <= row.high
    assert row.verdict == "faster"
    assert ranked_cure("replace", np.full(40, 2.0), np.full(40, 0.5), 30.0, 4).verdict == "slower"
