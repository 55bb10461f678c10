"""Pairs of live and virtual records: what agrees, what does not, and what is no pair. Every judge sees a bad record."""

from __future__ import annotations

from collections.abc import Callable
from math import inf, isnan, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from hypothesis import given
from hypothesis import strategies as st

from analysis.fidelity import Fidelity, fidelity, ranking, relative, total_variation, verdict, within
from analysis.figures.fidelity import draw_fidelity
from analysis.load import RecordError, Run, load_run
from tests.unit.records import Simulation, Story, disturbance

PNG = b"\x89PNG\r\n\x1a\n"
RULES = {"bsp": "bsp", "asp": "asp", "ssp": "asp"}
Change = Callable[[Story], None]


def story(strategy: str = "bsp", *, seed: int = 0, factor: float = 1.0, **given: Any) -> Story:
    """A whole job; ``factor`` stretches its clock, and every seed has losses of its own."""
    told = Story(strategy, **{"seed": seed, "plan": [disturbance(0.1, 0.3, "worker:1", 0.1)], "target": 0.3, **given})
    Simulation(told, RULES[strategy], duration=lambda worker, _: 0.05 + 0.001 * worker + 0.002 * seed).run()
    for line in told.lines:
        event = line.get("event", {})
        line["t"] *= factor
        event |= {key: event[key] * factor for key in ("t", "asked_s") if key in event}
        if event.get("type") == "Arrived":
            event["loss"] = 1.0 / (1 + seed + 3 * event["grad"]["iteration"] + event["grad"]["worker"])
    return told


def write(folder: Path, told: Story, name: str) -> Run:
    return load_run(told.write(folder / name))


class Pairs:
    """Live and virtual records of the same jobs, two seeds each."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.live: list[Run] = []
        self.virtual: list[Run] = []

    def add(self, strategy: str, change: Change = lambda told: None, *, seeds: int = 2, **given: Any) -> Pairs:
        """``given`` and ``change`` are about the virtual one; ``both`` are settings of both."""
        both = given.pop("both", {})
        for seed in range(seeds):
            name = f"{len(self.live)}_{strategy}_{seed}"
            self.live.append(write(self.folder, story(strategy, seed=seed, **both), f"{name}_live"))
            told = story(strategy, seed=seed, runtime="virtual", **both, **given)
            change(told)
            self.virtual.append(write(self.folder, told, f"{name}_virtual"))
        return self

    def compare(self) -> Fidelity:
        return fidelity(self.live, self.virtual)


@pytest.fixture
def pairs(tmp_path: Path) -> Pairs:
    return Pairs(tmp_path)


def row(found: Fidelity, measure: str, strategy: str = "bsp") -> Any:
    rows = found.measures[(found.measures["measure"] == measure) & (found.measures["strategy"] == strategy)]
    assert len(rows) == 1
    return rows.iloc[0]


# ---- times and work -------------------------------------------------------------------------------------------------


def test_the_same_records_agree_in_everything(pairs: Pairs) -> None:
    found = pairs.add("bsp").add("asp").compare()
    assert (found.measures["error"] == 0).all()
    assert found.measures["within"].dropna().all()
    assert found.rankings["same"].all()
    assert found.losses["equal"].tolist() == [True, True]
    assert not any("not" in line for line in verdict(found))


def test_the_error_is_that_of_the_medians(pairs: Pairs) -> None:
    found = pairs.add("bsp", factor=1.04).compare()
    jct = row(found, "jct_s")
    lives = [run.lines[-1].t for run in pairs.live]
    assert (jct.live, jct.virtual) == (pytest.approx(np.median(lives)), pytest.approx(1.04 * np.median(lives)))
    assert jct.error == pytest.approx(0.04)
    assert (jct.within, jct.seeds, jct.worst_seed) == (True, 2, pytest.approx(0.04))
    assert row(found, "tta_s").error == pytest.approx(0.04)
    assert row(found, "bpt_median_s").error == pytest.approx(0.0)


@pytest.mark.parametrize(("factor", "error"), [(1.1, "+10.0 %"), (0.9, "-10.0 %")])
def test_ten_per_cent_off_is_a_miss(pairs: Pairs, factor: float, error: str) -> None:
    found = pairs.add("bsp", factor=factor).add("asp").compare()
    assert row(found, "jct_s").error == pytest.approx(factor - 1)
    assert not row(found, "jct_s").within
    assert row(found, "jct_s", "asp").within
    assert verdict(found)[0] == f"JCT within 5 %: 1 of 2 cases; not bsp under transient ({error})"


def test_one_bad_seed_shows_though_the_median_hides_it(pairs: Pairs) -> None:
    pairs.add("bsp", seeds=3)
    pairs.virtual[2] = write(pairs.folder, story(seed=2, factor=1.2, runtime="virtual"), "bad")
    jct = row(pairs.compare(), "jct_s")
    assert (jct.error, jct.within) == (pytest.approx(0.0), True)
    assert jct.worst_seed == pytest.approx(0.2)


def test_a_target_that_only_one_side_reaches_is_a_miss(pairs: Pairs) -> None:
    def never(told: Story) -> None:
        for line in told.lines:
            if line.get("event", {}).get("type") == "Evaluated":
                line["event"]["metrics"] = {"accuracy": 0.1}

    found = pairs.add("bsp", never).compare()
    tta = row(found, "tta_s")
    assert (tta.error, tta.within, tta.live_missed, tta.virtual_missed) == (inf, False, 0, 2)
    assert "not bsp under transient (one side only)" in verdict(found)[2]


def test_a_target_that_nobody_reaches_proves_nothing(pairs: Pairs) -> None:
    found = pairs.add("bsp", both={"target": 0.999}).compare()
    tta = row(found, "tta_s")
    assert (tta.live, tta.virtual) == (inf, inf)
    assert isnan(tta.error)
    assert pd.isna(tta.within)
    assert verdict(found)[2] == "TTA within 5 %: nothing to compare"


def test_no_target_is_no_measure(pairs: Pairs) -> None:
    found = pairs.add("bsp", both={"target": None}).compare()
    assert isnan(row(found, "tta_s").live)
    assert found.rankings["measure"].tolist() == ["jct_s"]


def test_staleness_is_compared_as_a_distribution(pairs: Pairs) -> None:
    """One arrival in 32 that read an older version: 1/32 of the mass moves."""

    def older(told: Story) -> None:
        arrived = [line["event"] for line in told.lines if line.get("event", {}).get("type") == "Arrived"]
        arrived[-1]["grad"]["version"] -= 7

    found = pairs.add("bsp", older).compare()
    assert row(found, "staleness").error == pytest.approx(1 / 32)
    assert row(found, "staleness_mean").error == pytest.approx(7 / 32)
    assert (row(found, "staleness_max").live, row(found, "staleness_max").virtual) == (0, 7)


@pytest.mark.parametrize(
    ("live", "virtual", "error"),
    [
        (10, 11, 0.1),
        (0, 0, 0.0),
        (0, 1, inf),
        (inf, 5, -1.0),
        (5, inf, inf),
        (inf, inf, nan),
        (nan, 1, nan),
        (1, nan, nan),
    ],
)
def test_relative_errors(live: float, virtual: float, error: float) -> None:
    assert relative(live, virtual) == pytest.approx(error, nan_ok=True)


def test_five_per_cent_are_still_within() -> None:
    assert within(relative(1.0, 1.05))
    assert within(relative(1.0, 0.95))
    assert not within(relative(1.0, 1.0501))


counts = st.dictionaries(st.sampled_from("01234"), st.integers(1, 50), min_size=1)


@given(counts, counts)
def test_total_variation_is_a_distance(one: dict[str, int], other: dict[str, int]) -> None:
    distance = total_variation(one, other)
    assert 0 <= distance <= 1 + 1e-12
    assert distance == pytest.approx(total_variation(other, one))
    assert total_variation(one, {key: 3 * count for key, count in one.items()}) == pytest.approx(0, abs=1e-12)


def test_total_variation_by_hand() -> None:
    assert total_variation({"0": 1}, {"1": 5}) == 1
    assert total_variation({"0": 3, "1": 1}, {"0": 1, "1": 1}) == pytest.approx(0.25)
    assert total_variation({}, {}) == 0
    assert isnan(total_variation({"0": 1}, {}))


# ---- order ----------------------------------------------------------------------------------------------------------


def test_a_swapped_ranking_is_reported(pairs: Pairs) -> None:
    found = pairs.add("bsp").add("asp", factor=1.4).compare()
    jct = found.rankings.iloc[0]
    assert (jct.live_order, jct.virtual_order) == ("asp < bsp", "bsp < asp")
    assert (jct.pairs, jct.swapped, jct.same) == (1, "asp / bsp", False)
    assert verdict(found)[1].endswith("0 of 1 patterns of stragglers; not asp / bsp under transient")


def test_an_order_within_five_per_cent_may_change() -> None:
    found = ranking({"a": 1.0, "b": 1.04, "c": 2.0}, {"a": 1.02, "b": 1.01, "c": 2.0})
    assert found == {
        "live_order": "a < b < c", "virtual_order": "b < a < c", "pairs": 2, "swapped": "", "same": True
    }  # fmt: skip
    assert ranking({"a": 1.0, "b": 1.04}, {"a": 2.0, "b": 1.0})["same"] is None


def test_a_tie_does_not_show_the_order() -> None:
    assert ranking({"a": 1.0, "b": 2.0}, {"a": 1.0, "b": 1.0})["swapped"] == "a / b"


def test_who_never_gets_there_is_last() -> None:
    found = ranking({"a": inf, "b": 2.0, "c": inf}, {"a": 9.0, "b": inf, "c": inf})
    assert found["live_order"] == "b < a (never) = c (never)"
    assert (found["pairs"], found["swapped"]) == (2, "b / a, b / c")


times = st.dictionaries(st.sampled_from("abcde"), st.floats(0.1, 100), min_size=2)


@given(times, st.floats(0.5, 2))
def test_a_common_factor_keeps_the_order(live: dict[str, float], factor: float) -> None:
    assert ranking(live, {name: factor * value for name, value in live.items()})["same"] is not False


@given(times)
def test_the_reverse_order_is_never_the_same(live: dict[str, float]) -> None:
    found = ranking(live, {name: -value for name, value in live.items()})
    assert found["same"] is (False if found["pairs"] else None)


# ---- losses ---------------------------------------------------------------------------------------------------------


def arrivals(told: Story) -> list[dict[str, Any]]:
    return [line["event"] for line in told.lines if line.get("event", {}).get("type") == "Arrived"]


def test_one_bit_of_one_loss_is_seen(pairs: Pairs) -> None:
    def flip(told: Story) -> None:
        last = next(event for event in reversed(arrivals(told)) if event["grad"]["worker"] == 2)
        last["loss"] = float(np.nextafter(last["loss"], 2.0))

    found = pairs.add("bsp", flip).compare()
    assert found.losses["equal"].tolist() == [False, False]
    assert (found.losses["losses"][0], found.losses["different"][0], found.losses["missing"][0]) == (32, 1, 0)
    assert found.losses["first"][0] == "iteration 7 of worker 2"
    assert verdict(found)[-1].endswith("0 of 2 pairs; not seed 0 under transient, seed 1 under transient")


def test_a_loss_that_one_record_lacks_is_seen(pairs: Pairs) -> None:
    def forget(told: Story) -> None:
        arrivals(told)[5]["loss"] = None

    found = pairs.add("bsp", forget, seeds=1).compare()
    assert (found.losses["missing"][0], found.losses["equal"][0]) == (1, False)


def test_no_losses_at_all_are_not_equal(pairs: Pairs) -> None:
    def forget(told: Story) -> None:
        for event in arrivals(told):
            event["loss"] = None

    pairs.add("bsp", forget, seeds=1)
    found = fidelity([relabelled(pairs.virtual[0], "live")], pairs.virtual)
    assert (found.losses["losses"][0], found.losses["equal"][0]) == (0, False)


def relabelled(run: Run, runtime: str) -> Run:
    return Run(run.path, run.meta | {"runtime": runtime}, run.plan, run.lines)


def test_only_the_losses_of_bsp_must_be_equal(pairs: Pairs) -> None:
    assert len(pairs.add("asp").compare().losses) == 0


def test_the_order_of_arrival_does_not_matter(pairs: Pairs) -> None:
    """A round's gradients come in another order in the virtual record; each keeps its loss."""
    pairs.add("bsp", seeds=1)
    told = Story("bsp", seed=0, runtime="virtual", plan=[disturbance(0.1, 0.3, "worker:1", 0.1)], target=0.3)
    Simulation(told, "bsp", duration=lambda worker, _: 0.05 - 0.001 * worker).run()
    for event in arrivals(told):
        event["loss"] = 1.0 / (1 + 3 * event["grad"]["iteration"] + event["grad"]["worker"])
    found = fidelity(pairs.live, [write(pairs.folder, told, "other")])
    assert found.losses["equal"].tolist() == [True]


# ---- what is no pair ------------------------------------------------------------------------------------------------


def test_a_record_without_a_partner_is_refused(pairs: Pairs) -> None:
    pairs.add("bsp")
    with pytest.raises(RecordError, match=r"_live: no virtual record of bsp under transient, seed 1 \(1 without"):
        fidelity(pairs.live, pairs.virtual[:1])
    with pytest.raises(RecordError, match="no live record of bsp under transient, seed 0"):
        fidelity(pairs.live[1:], pairs.virtual)
    with pytest.raises(RecordError, match="no records to compare"):
        fidelity([], [])


def test_a_second_record_of_a_job_is_refused(pairs: Pairs) -> None:
    pairs.add("bsp")
    with pytest.raises(RecordError, match="a second live record of bsp under transient, seed 0"):
        fidelity([*pairs.live, pairs.live[0]], pairs.virtual)


def test_another_job_is_refused(pairs: Pairs) -> None:
    pairs.add("bsp", seeds=1)
    other = write(pairs.folder, story(runtime="virtual", lr=0.5, epochs=2), "other")
    with pytest.raises(RecordError, match=r"other: not the job of .*\(job.lr 0.5, not None\)"):
        fidelity(pairs.live, [other])


def test_other_cases_must_be_of_the_same_job(pairs: Pairs) -> None:
    pairs.add("bsp").add("asp", both={"lr": 0.5})
    with pytest.raises(RecordError, match=r"not the job of .*job.lr 0.5"):
        pairs.compare()


def test_another_plan_is_refused(pairs: Pairs) -> None:
    pairs.add("bsp", seeds=1, plan=[])
    with pytest.raises(RecordError, match="another straggler plan"):
        pairs.compare()


def test_two_cost_models_are_refused(pairs: Pairs) -> None:
    def recalibrate(told: Story) -> None:
        told.meta["calibration"] = "cal-8"

    pairs.add("bsp").add("asp", recalibrate)
    with pytest.raises(RecordError, match=r"several cost models \(cal-7, cal-8\)"):
        pairs.compare()


def test_a_run_that_was_killed_is_refused(pairs: Pairs) -> None:
    pairs.add("bsp", seeds=1)
    killed = load_run(story().write(pairs.folder / "killed", keep=20))
    with pytest.raises(RecordError, match="killed: killed, so there is nothing to compare"):
        fidelity([killed], pairs.virtual)


def test_the_sides_may_not_be_mixed_up(pairs: Pairs) -> None:
    pairs.add("bsp")
    with pytest.raises(RecordError, match="a virtual record where a live one is due"):
        fidelity(pairs.virtual, pairs.live)


def test_variants_of_a_strategy_are_cases_of_their_own(pairs: Pairs) -> None:
    for bound in (1, 3):
        pairs.add("ssp", both={"fields": {"bound": bound}})
    found = pairs.compare()
    assert found.measures["strategy"].unique().tolist() == ["ssp bound=1", "ssp bound=3"]


# ---- the figure -----------------------------------------------------------------------------------------------------


def draw(found: Fidelity, pairs: Pairs, path: Path) -> pd.DataFrame:
    metas = [run.meta for run in (*pairs.live, *pairs.virtual)]
    assert draw_fidelity(path, metas, found.measures, found.runs).read_bytes().startswith(PNG)
    return pd.read_csv(path.with_suffix(".csv"))


def test_the_figure_has_its_numbers_beside_it(pairs: Pairs, tmp_path: Path) -> None:
    found = pairs.add("bsp", factor=1.1).add("asp").add("bsp", both={"straggler": "none"}).compare()
    shown = draw(found, pairs, tmp_path / "jct.png")
    medians = shown[shown["seed"] == "median"]
    assert medians[["straggler", "strategy"]].to_numpy().tolist() == [
        ["transient", "bsp"], ["transient", "asp"], ["none", "bsp"]
    ]  # fmt: skip
    assert medians["error_frac"].tolist() == pytest.approx([0.1, 0.0, 0.0])
    assert len(shown) == 3 + 6


def test_jobs_that_were_cut_off_are_drawn(pairs: Pairs, tmp_path: Path) -> None:
    def cut(told: Story) -> None:
        told.lines[-1]["note"]["epochs_done"] = 1

    found = pairs.add("bsp", cut, both={"max_time_s": 0.1}).add("asp", both={"max_time_s": 0.1}).compare()
    assert row(found, "jct_s").virtual_missed == 2
    assert not row(found, "jct_s").within
    draw(found, pairs, tmp_path / "jct.png")
