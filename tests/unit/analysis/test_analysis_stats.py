"""Comparisons across seeds: labels, medians, intervals, pairs, misses."""

from __future__ import annotations

from collections.abc import Sequence
from math import exp, inf, isnan, nan
from typing import Any

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from analysis.measures import run_rows, small_samples, stats
from analysis.measures.distinguishing import MOST_SEEDS, distinguish, power_of, seeds_needed
from analysis.measures.labels import case_labels, strategy_labels
from analysis.measures.profiles import profile_scores
from tests.support.records import Story


def meta(strategy: str = "bsp", *, runtime: str = "live", fields: dict[str, Any] | None = None, **job: Any) -> Any:
    return Story(strategy, runtime=runtime, fields=fields, **job).meta


def test_a_strategy_is_its_name_and_the_fields_that_vary() -> None:
    ssp = (meta("ssp", fields={"bound": bound, "lr_rule": "unit"}) for bound in (3, None))
    metas = [meta("bsp", fields={"data": "dynamic"}), *ssp]
    assert strategy_labels(metas) == ["bsp", "ssp bound=3", "ssp bound=none"]


def test_runs_that_differ_only_in_fitted_files_are_told_apart() -> None:
    """Where nothing else tells them apart; records from before these were written down do not say."""
    one, other = ({**meta("star_h"), "fitted": [f"resources {digest}"]} for digest in ("aaaa0000", "bbbb1111"))
    assert strategy_labels([one, other]) == ["star_h fitted=resources aaaa0000", "star_h fitted=resources bbbb1111"]
    assert strategy_labels([one, meta("star_h")])[1] == "star_h fitted=unknown"
    assert strategy_labels([one, one]) == ["star_h", "star_h"]
    assert strategy_labels([meta("bsp"), {**meta("bsp"), "fitted": []}]) == ["bsp", "bsp"]
    assert case_labels([one, other]) == ["", ""]


def test_what_varies_besides_the_strategy_names_the_case() -> None:
    metas = [meta("bsp", data="dynamic", num_shards=45), meta("asp", data="even", num_shards=4)]
    assert case_labels(metas) == ["", ""]
    metas = [meta(straggler=name, num_workers=n) for name in ("none", "transient") for n in (4, 8)]
    assert case_labels(metas)[1] == "straggler=none, num_workers=8"
    assert len(set(case_labels(metas))) == 4
    metas = [meta(workload="digits", num_samples=1437), meta(workload="ledger", num_samples=2000)]
    assert case_labels(metas) == ["workload=digits", "workload=ledger"]
    metas = [meta(straggler_fields={"delay_s": 0.1}), meta(straggler_fields={"delay_s": 0.2})]
    assert case_labels(metas) == ["straggler.delay_s=0.1", "straggler.delay_s=0.2"]
    metas = [meta(straggler_fields={"targets": targets}) for targets in (["worker:0"], ["worker:1", "worker:2"])]
    assert case_labels(metas) == ["straggler.targets=[worker:0]", "straggler.targets=[worker:1,worker:2]"]
    assert case_labels([meta(task_fields={"seed": seed}) for seed in (0, 1)]) == ["workload.seed=0", "workload.seed=1"]
    assert len(set(case_labels([meta(), meta(runtime="virtual")]))) == 2


def test_a_median_and_its_interval_count_misses() -> None:
    assert small_samples.median([1.0, 2.0, inf]) == 2.0
    assert small_samples.median([1.0, 2.0, inf, inf]) == inf
    assert all(map(isnan, (small_samples.median([]), small_samples.median([nan]))))
    assert stats.interval([3.0, 1.0, 2.0, 5.0, 4.0]) == (1.0, 5.0)
    assert stats.interval([1.0, 2.0, inf]) == (1.0, inf)
    assert all(map(isnan, stats.interval([1.0])))
    many = np.random.default_rng(1).normal(10.0, 1.0, 200)
    low, high = stats.interval(many)
    assert 9.6 < low < np.median(many) < high < 10.4
    assert stats.interval(many) == (low, high)


def rows(strategy: str, values: list[float], plans: str = "abcde", said: Sequence[Any] = ()) -> list[dict[str, Any]]:
    about = {"strategy": strategy, "case": "", "warnings": said}
    return [{"seed": seed, "plan_sha256": plans[seed], "jct_s": value, **about} for seed, value in enumerate(values)]


def test_ratios_are_paired_by_seed_and_plan_after_repeated_seeds_are_merged() -> None:
    ours, base = rows("asp", [1.0, 4.0, inf, 3.0, inf]), rows("bsp", [2.0, 4.0, 2.0, inf, inf])
    assert run_rows.paired_ratios(ours, base, "jct_s") == [0.5, 1.0, inf, 0.0]
    other = rows("bsp", [2.0, 4.0], plans="ax")
    assert run_rows.paired_ratios(ours, other, "jct_s") == [0.5], "seed 1 faced another plan"
    ours = rows("asp", [1.0]) + rows("asp", [3.0])
    assert run_rows.paired_ratios(ours, rows("bsp", [4.0]), "jct_s") == [0.5]


def summary(strategy: str, seed: int, jct_s: float, tta_s: float | None, **other: Any) -> dict[str, Any]:
    zero = dict.fromkeys(run_rows.MEANS, 0.0)
    spent = {"time_spent_s": {"wait_s": 1.0, "compute_s": 3.0}, "bpt_s": {"median": 0.06}}
    ends = {"status": "done", "completed": True, "jct_s": jct_s, "tta_s": tta_s, "tta_missed": tta_s is None}
    about = {"run_id": f"{strategy}{seed}", "seed": seed, "plan_sha256": f"{seed}", "metric": "accuracy"}
    return {**about, "higher_is_better": True, "target": 0.9, **zero, **spent, **ends, **other}


def compared(*summaries: dict[str, Any]) -> pd.DataFrame:
    metas = [meta(item["run_id"][:3]) for item in summaries]
    return stats.compare_runs(run_rows.run_rows(metas, summaries, ["x"] * len(metas)), "bsp").set_index("strategy")


def test_a_comparison() -> None:
    table = compared(
        *(summary("bsp", seed, 10.0 + seed, 5.0) for seed in range(3)),
        *(summary("asp", seed, 5.0 + seed, None if seed else 4.0) for seed in range(3)),
    )
    assert list(table.index) == ["bsp", "asp"]
    assert table.loc["asp", "jct_s"] == 6.0
    assert table.loc["asp", "jct_ratio"] == pytest.approx(6.0 / 11.0)
    assert (table.loc["asp", "tta_s"], table.loc["asp", "tta_missed"], table.loc["asp", "runs"]) == (inf, 2, 3)
    told = distinguish([5.0 / 10.0, 6.0 / 11.0, 7.0 / 12.0])
    assert table.loc["asp", ["jct_ratio_low", "jct_ratio_high"]].tolist() == [told.low, told.high], "as the verdict's"
    logs = np.log([5.0, 6.0, 7.0])
    spread = scipy_stats.t.interval(0.95, 2, logs.mean(), logs.std(ddof=1) / np.sqrt(3))
    assert table.loc["asp", ["jct_low_s", "jct_high_s"]].tolist() == pytest.approx(list(np.exp(spread)))
    assert (table.loc["bsp", "jct_ratio"], table.loc["bsp", "tta_s"]) == (1.0, 5.0)
    assert table.loc["asp", "bpt_median_s"] == 0.06
    shares = stats.time_shares(stats.run_table([meta()], [summary("bsp", 0, 1.0, None)], ["x"])).iloc[0]
    assert (shares["wait"], shares["compute"]) == (0.25, 0.75)


def test_a_run_that_was_cut_off_never_completed_and_one_without_a_target_has_no_time_to_it() -> None:
    table = compared(
        summary("bsp", 0, 10.0, 5.0),
        summary("bsp", 1, 2.0, None, completed=False, status="killed"),
        summary("bsp", 2, 12.0, 5.0),
    )
    assert (table.loc["bsp", "jct_s"], table.loc["bsp", "jct_missed"]) == (12.0, 1)
    table = compared(summary("bsp", 0, 10.0, None, tta_missed=None, target=None))
    assert isnan(table.loc["bsp", "tta_s"])
    assert table.loc["bsp", "tta_missed"] == 0


def test_unfair_comparisons_are_warned_of() -> None:
    fair = rows("bsp", [1.0] * 5) + rows("asp", [1.0] * 5)
    assert run_rows.warnings_of(fair) == []
    assert "2 different plans" in run_rows.warnings_of(fair + rows("ssp", [1.0] * 5, plans="xbcde"))[0]
    assert "different numbers of seeds (3 to 5)" in run_rows.warnings_of(fair + rows("ssp", [1.0] * 3))[0]
    assert "4 seeds only: intervals are wide; five or more" in run_rows.warnings_of(rows("bsp", [1.0] * 4))[0]
    assert run_rows.warnings_of(rows("bsp", [1.0])) == []
    said = rows("bsp", [1.0] * 5) + rows("nd", [1.0] * 5, said=[{"what": "too short"}])
    assert run_rows.warnings_of(said) == ["nd, 5 of its runs: too short"]


def scored(times: list[float], values: list[float]) -> pd.DataFrame:
    return pd.DataFrame({"asked_s": times, "value": values})


def test_several_curves_are_interpolated_begin_where_all_have_a_value_and_hold_their_last_one() -> None:
    frames = [scored([0.0, 2.0], [0.0, 1.0]), scored([0.0, 1.0], [0.0, 0.2]), scored([0.0, 2.0], [0.0, 0.6])]
    curve = stats.curves(frames, ["bsp"] * 3, points=3).set_index("t_s")
    assert curve.loc[1.0, ["low", "median", "high"]].tolist() == pytest.approx([0.2, 0.3, 0.5])
    assert curve.loc[2.0, ["low", "median", "high"]].tolist() == pytest.approx([0.2, 0.6, 1.0])
    frames = [scored([0.0, 4.0], [0.0, 1.0]), scored([2.0, 6.0], [0.4, 0.8])]
    curve = stats.curves(frames, ["bsp"] * 2, points=5)
    assert list(curve["t_s"]) == [2.0, 3.0, 4.0, 5.0, 6.0]
    assert curve.loc[0, ["low", "high"]].tolist() == pytest.approx([0.4, 0.5])
    curve = stats.curves([scored([0.0, 1.0], [0.1, 0.3])], ["bsp"])
    assert list(curve["median"]) == list(curve["low"]) == [0.1, 0.3], "as it was measured"
    assert len(stats.curves([scored([], [])], ["bsp"])) == 0


@pytest.mark.parametrize("seed", range(12))
def test_a_verdict_is_that_of_the_t_test_of_logarithms(seed: int) -> None:
    rng = np.random.default_rng(seed)
    ratios = np.exp(rng.normal(rng.choice([-0.3, 0.0, 0.3]), 0.2, size=rng.integers(3, 9)))
    found = distinguish(ratios)
    if scipy_stats.ttest_1samp(np.log(ratios), 0.0).pvalue >= 0.05:
        assert found.verdict == "not distinguishable"
    else:  # the interval is extended to the median, which can only make a verdict rarer
        assert found.verdict in ("faster" if np.log(ratios).mean() < 0 else "slower", "not distinguishable")
    assert found.low <= found.ratio <= found.high


def test_what_is_certain_but_tiny_is_the_same_and_one_seed_says_nothing() -> None:
    assert distinguish([0.998, 0.9979, 0.9981]).verdict == "the same"
    assert distinguish([0.98, 0.9799, 0.9801]).verdict == "faster"
    assert distinguish([1.02, 1.0199, 1.0201]).verdict == "slower"
    found = distinguish([0.1])
    assert (found.verdict, found.pairs, found.seeds_needed) == ("too few seeds", 1, 0)
    assert isnan(found.low)
    assert isnan(distinguish([]).ratio)


def test_runs_that_never_ended_need_six_seeds() -> None:
    """Of five medians' order statistics no interval is bounded at 95 %; with six, the extremes are one (binomial)."""
    assert distinguish([inf] * 4 + [1.5]).verdict == "not distinguishable"
    assert distinguish([inf] * 5 + [1.5]).verdict == "slower"
    assert distinguish([0.0] * 5 + [0.5]).verdict == "faster"


@pytest.mark.parametrize(("effect", "pairs"), [(0.2, 199), (0.5, 34), (0.8, 15), (1.0, 10)])
def test_seeds_needed_are_those_of_the_tables(effect: float, pairs: int) -> None:
    """Paired t test, two-sided, 5 %, power 80 %: the numbers that G*Power gives (Faul et al. 2007)."""
    differences = np.array([effect - 1.0, effect, effect + 1.0])  # standard deviation 1
    assert seeds_needed(differences) == pairs
    assert power_of(effect, pairs) >= 0.8 > power_of(effect, pairs - 1)


def test_seeds_needed_where_there_is_nothing_to_find_and_either_way_round() -> None:
    assert seeds_needed(np.array([0.0, 0.0])) == MOST_SEEDS
    assert seeds_needed(np.array([-1e-9, 0.0, 1.01e-9])) == MOST_SEEDS
    assert seeds_needed(np.array([0.3, 0.3])) == 2
    assert seeds_needed(np.array([0.3])) == seeds_needed(np.array([0.3, inf])) == 0
    ratios = np.array([0.5, 0.9, 0.6, 1.2])
    one, other = distinguish(ratios), distinguish(1.0 / ratios)
    assert one.seeds_needed == other.seeds_needed == seeds_needed(np.log(ratios)) > 2


@pytest.mark.parametrize("pairs", [2, 3, 10])
def test_without_an_effect_the_power_is_the_significance(pairs: int) -> None:
    """Rejections are false ones then, on both sides."""
    assert power_of(0.0, pairs) == pytest.approx(0.05)
    assert power_of(0.0, pairs, 0.2) == pytest.approx(0.2)


def test_a_profile_score_is_the_area_below_the_profile() -> None:
    rng = np.random.default_rng(1)
    times = np.exp(rng.normal(0.0, 0.6, size=(7, 5)))
    times[2, 3] = inf
    ratios = times / times.min(axis=1, keepdims=True)
    factors = np.linspace(1.0, 4.0, 20_001)
    areas = [
        np.trapezoid([(ratios[:, one] <= r).mean() for r in factors[::200]], factors[::200]) / 3 for one in range(5)
    ]
    assert profile_scores(times) == pytest.approx(areas, abs=2e-3)
    # Best, 2.5 times as long, five times as long: 1, (4 - 2.5) / 3 and 0; who lacks a case has no score.
    assert profile_scores(np.array([[1.0, 2.5, 5.0, nan], [4.0, 10.0, inf, 1.0 * exp(9)]])).tolist()[:3] == [1, 0.5, 0]
    assert isnan(profile_scores(np.array([[1.0, nan], [1.0, 1.0]]))[1])


def test_times_that_are_only_known_to_a_step() -> None:
    """At 0.9 by a whole step: one was there at an evaluation at which the other was not."""
    unclear = dict.fromkeys([(0.95, 0.1), (1.05, 0.1), (1.0, 0.1)], "not distinguishable")
    faster = dict.fromkeys([(0.85, 0.1), (0.9, 0.1)], "faster")
    for case, verdict in {**unclear, **faster, (1.0, 0.005): "the same", (1.0, nan): "the same"}.items():
        found = distinguish([case[0]] * 5, case[1])
        assert (found.verdict, found.coarse) == (verdict, verdict == "not distinguishable")
        assert not found.coarse or found.seeds_needed == 0
