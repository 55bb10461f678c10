"""Verdicts by hand-made numbers: what an interval makes of each, with a wrong one for every right one."""

from __future__ import annotations

from math import inf, isnan, nan
from typing import Any

import msgspec
import numpy as np
import pandas as pd
import pytest
from scipy import stats

from analysis.claims.answers import Answer, answer
from analysis.claims.judge import Verdict, judge, of_group
from analysis.claims.ledger import Claim
from analysis.experiments.numbers import DASH
from analysis.experiments.page import (
    front,
    line_of_alike,
    many_alike,
    ours_text,
    overview,
    paper_text,
    remarks,
    varying,
)
from analysis.measures.small_samples import interval
from tests.unit.analysis.test_claims import PAIR, claim, runs


def test_an_interval_of_finite_values_is_student_s() -> None:
    values = [3.1, 2.9, 3.4, 3.0, 3.2]
    expected = stats.t.interval(0.95, 4, loc=np.mean(values), scale=stats.sem(values))
    assert interval(values) == pytest.approx(expected)
    assert interval(values, 0.9) == pytest.approx(
        stats.t.interval(0.9, 4, loc=np.mean(values), scale=stats.sem(values))
    )


def test_intervals_of_what_never_ended_of_one_value_and_of_the_same_values() -> None:
    """Of six values the least and the largest cover 1 - 2 / 2^6 = 97 %; of nine the second ones 96 %."""
    assert interval([5.0, 1.0, inf, 3.0, 4.0, 2.0]) == (1.0, inf)
    assert interval([1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, inf]) == (2.0, 8.0)
    assert interval([1.0, 2.0, 3.0, 4.0, inf]) == (-inf, inf), "five cannot tell"
    assert interval([inf, inf, inf]) == (inf, inf)
    assert all(map(isnan, interval([3.0])))
    assert all(map(isnan, interval([])))
    assert interval([3.0, 3.0]) == (3.0, 3.0)
    assert interval([0.0] * 60 + [1.0] * 40) == (0.0, pytest.approx(0.4977, abs=1e-3)), "the median lies within"
    assert interval([0.0] * 40 + [1.0] * 60)[1] == 1.0


SIDE: dict[str, Any] = {"check": "ratio", "unit": "%", "how": "lower", "value": None, "accept": (0.0, None)}
RATIO: dict[str, Any] = {"check": "ratio", "unit": "%", "how": "lower"}


@pytest.mark.parametrize(
    ("given", "ours", "verdict"),
    [
        (SIDE, (5.0, 1.0, 9.0), ("met", "")),
        (SIDE, (5.0, -1.0, 9.0), ("inconclusive", "")),
        (SIDE, (5.0, 0.0, 9.0), ("inconclusive", "")),
        (SIDE, (-5.0, -9.0, -1.0), ("missed", "")),
        (SIDE, (-5.0, -9.0, 0.0), ("missed", "")),
        (SIDE, (5.0, nan, nan), ("inconclusive", "")),
        ({**SIDE, "value": 250.0, "accept": (225.0, 325.0)}, (248.0, 227.0, 268.0), ("met", "met")),
        ({**SIDE, "value": 250.0, "accept": (225.0, 325.0)}, (248.0, 220.0, 268.0), ("met", "inconclusive")),
        ({}, (110.0, 100.0, 120.0), ("", "inconclusive")),
        ({}, (90.0, 84.0, 94.0), ("", "inconclusive")),
        ({}, (90.0, 86.0, 94.0), ("", "met")),
        ({}, (100.0, 92.0, 108.0), ("", "inconclusive")),
        ({}, (120.0, 116.0, 124.0), ("", "missed")),
        ({}, (100.0, nan, nan), ("", "inconclusive")),
        ({**RATIO, "value": 24.0}, (10.2, 1.7, 11.8), ("met", "missed")),
        ({**RATIO, "value": 24.0}, (22.0, 12.0, 31.0), ("met", "inconclusive")),
        ({**RATIO, "value": 24.0}, (22.0, -1.0, 31.0), ("inconclusive", "inconclusive")),
        ({**RATIO, "value": 24.0}, (31.0, 17.0, 40.0), ("met", "larger")),
        ({**RATIO, "how": "times", "unit": "x", "value": 1.3}, (1.25, 1.24, 1.26), ("met", "met")),
        ({**RATIO, "how": "times", "unit": "x", "value": 1.3}, (1.19, 1.18, 1.195), ("met", "missed")),
        ({**SIDE, "magnitude": (9.0, 127.0)}, (36.0, 7.0, 150.0), ("met", "met")),
        ({**SIDE, "magnitude": (9.0, 127.0)}, (36.0, 2.0, 70.0), ("met", "inconclusive")),
        ({**SIDE, "magnitude": (1.0, 4.0)}, (36.0, 20.0, 52.0), ("met", "larger")),
        ({**SIDE, "check": "shape", "value": 0.64}, (1.34, 1.2, 1.5), ("met", "larger")),
        ({**SIDE, "check": "context", "magnitude": (1.0, 4.0)}, (2.0, 2.0, 2.0), ("context", "")),
    ],
)
def test_an_interval_decides(given: dict[str, Any], ours: tuple[float, float, float], verdict: tuple[str, str]) -> None:
    assert judge(claim(**given), Answer(*ours, 5)) == verdict


def test_what_was_fitted_defined_built_in_or_departs_confirms_nothing_and_can_be_missed() -> None:
    fitted = {"calibrated": "the cost model was fitted to it"}
    for ours in ((100.0, 99.0, 101.0), (100.0, 60.0, 140.0), (100.0, nan, nan)):
        assert judge(claim(**fitted), Answer(*ours, 5)).size == "calibrated"
    assert judge(claim(**fitted, value=200.0), Answer(100.0, 99.0, 101.0, 5)).size == "missed"
    exact = {"value": 8.0, "accept": (8.0, 8.0), "unit": "", "arithmetic": True}
    assert judge(claim(**exact), Answer(8.0, seeds=1)).size == "by arithmetic"
    assert judge(claim(**exact), Answer(7.0, 6.7, 8.1, seeds=5)).size == "inconclusive", "seeds differ: nothing exact"
    assert judge(claim(**exact), Answer(7.0, seeds=1)).size == "missed"
    built = claim(**SIDE, construction="a pull queue cannot do otherwise")
    assert judge(built, Answer(5.0, 4.0, 6.0, 5)).side == "by construction"
    assert judge(built, Answer(-5.0, -6.0, -4.0, 5)).side == "missed"
    other = claim(**{**RATIO, "value": 24.0}, departure="another baseline than the paper's")
    assert judge(other, Answer(22.0, 18.0, 26.0, 5)) == ("context", "context")
    assert judge(other, Answer(5.0, 4.0, 6.0, 5)) == ("context", "missed")
    assert remarks([other]) == ["- `y`: context: another baseline than the paper's."]


EQUAL: dict[str, Any] = {
    **{"check": "ratio", "unit": "%", "how": "longer", "value": 0.0, "accept": (-1.0, 1.0)},
    **{"subject": {"system": "star"}, "against": ({"system": "bsp"},)},
    "controls": ({"system": "lb"}, {"system": "lgc"}),
}


@pytest.mark.parametrize(
    ("lgc", "star", "verdict"),
    [
        ([1.001, 1.0, 0.999], [1.0, 1.001, 1.0], "by construction"),
        ([1.20, 1.21, 1.19], [1.0, 1.001, 1.0], "met"),
        ([1.3, 0.8, 1.0], [1.0, 1.001, 1.0], "met"),
        ([1.001, 1.0, 0.999], [1.2, 1.21, 1.19], "missed"),
        (None, [1.0, 1.001, 1.0], "met"),
    ],
    ids=["all controls meet it", "one misses it", "one is inconclusive", "missed all the same", "one did not run"],
)
def test_what_systems_without_the_part_meet_too_is_no_evidence(
    lgc: list[float] | None, star: list[float], verdict: str
) -> None:
    systems = {"bsp": [1.0, 1.0, 1.0], "lb": [1.0, 0.999, 1.001], "star": star}
    frame = runs(systems if lgc is None else {**systems, "lgc": lgc})
    assert judge(claim(**EQUAL), answer(claim(**EQUAL), frame)).side == verdict


def test_controls_of_a_measure_of_its_own_take_the_place_of_the_subject() -> None:
    """Accuracy that rises with any system is no result (STAR, Table I); accuracy that rises with one alone is."""
    about: dict[str, Any] = {"check": "shape", "unit": "", "how": "value", "value": None, "accept": (0.0, None)}
    rises = claim(**about, subject={"system": "nd"}, controls=({"system": "bsp"},))
    for bsp, verdict in (([3.0, 3.1, 3.2], "by construction"), ([-3.0, -3.1, -3.2], "met")):
        assert judge(rises, answer(rises, runs({"nd": [1.0, 1.1, 1.2], "bsp": bsp}))).side == verdict
    assert remarks([rises]) == ["- `y`: by construction if bsp would meet it, too."]


def test_a_part_that_never_acted_is_no_result() -> None:
    same = Answer(0.0, 0.0, 0.0, 3)
    assert judge(claim(**{**SIDE, "value": 40.0}), same) == ("not exercised", "not exercised")
    acted = same._replace(value=5.0, low=4.0, high=6.0)
    assert judge(claim(**SIDE), same._replace(cases=(same, acted))).side == "missed", "it acted in one case"
    assert judge(claim(**SIDE), same._replace(seeds=1)).side == "missed", "one seed may be alike by chance"
    times = claim(**{**RATIO, "how": "times", "unit": "x", "value": 3.0})
    assert judge(times, Answer(1.0, 1.0, 1.0, 3)) == ("not exercised", "not exercised")
    equal = claim(**{**SIDE, "value": 0.0, "accept": (-5.0, 5.0)})
    assert judge(equal, same).side == "met", "that two systems do not differ is what the paper says"


def test_claims_of_one_observation_count_as_their_worst() -> None:
    assert of_group(["met", "larger"]) == "larger"
    assert of_group(["met", "", "missed", "inconclusive"]) == "missed"
    assert of_group(["calibrated", "met"]) == "met"
    assert of_group([""]) == ""


def test_what_a_hundred_seeds_would_leave_open_is_too_close() -> None:
    """Ends 4.3 away from the middle of three values have a standard deviation of 1.73: 0.2 needs 290 values, 2 six."""
    seen = {(2.0, 3): "inconclusive", (0.2, 3): "too close", (0.2, 100): "inconclusive", (0.2, 1): "inconclusive"}
    for (value, seeds), verdict in seen.items():
        assert judge(claim(**SIDE), Answer(value, value - 4.3, value + 4.3, seeds)).side == verdict
    assert judge(claim(**SIDE), Answer(0.1, -inf, inf, 3)).side == "inconclusive", "not finite"
    sure, close = Answer(5.0, 4.0, 6.0, 3), Answer(0.1, -9.0, 9.0, 3)
    worst, best = (judge(claim(**SIDE, best=best), sure._replace(cases=(sure, close))).side for best in (False, True))
    assert (worst, best) == ("too close", "met")


def several(best: bool, *cases: tuple[float, float, float]) -> str:
    found = tuple(Answer(*each, 5) for each in cases)
    return judge(claim(**SIDE, best=best), found[0]._replace(cases=found)).side


def test_of_several_cases_the_worst_verdict_counts_or_the_best() -> None:
    sure, unsure, wrong = (5.0, 4.0, 6.0), (9.0, -1.0, 19.0), (-5.0, -6.0, -4.0)
    assert several(False, sure, unsure) == "inconclusive", "though its median is the larger one"
    assert several(False, sure, unsure, wrong) == "missed"
    assert several(False, sure, sure) == "met"
    assert several(True, unsure, sure) == "met"
    assert several(True, wrong, unsure) == "inconclusive"


def test_one_of_many_is_held_to_a_higher_confidence() -> None:
    """Three baselines, of which one will do: 98.3 % each."""
    frame = runs({"nd": [1.0, 1.0, 1.0], "a": [1.1, 1.2, 1.3], "b": [1.0, 1.1, 1.0], "c": [1.0, 1.0, 1.1]})
    against = ({"system": "a"}, {"system": "b"}, {"system": "c"})
    about = {"how": "faster", "unit": "%", "subject": {"system": "nd"}, "against": against}
    best, worst = (answer(claim(**about, best=best), frame) for best in (True, False))
    assert (best.low, best.high) == pytest.approx(by_logarithms([1.1, 1.2, 1.3], 1 - 0.05 / 3))
    assert [round(each.value, 6) for each in worst.cases] == [20.0, 0.0, 0.0]
    assert worst.text.startswith("a 20 [-2.72, 47.3], b 0 [-9.96, 18.3], c 0 ")


def test_one_of_many_levels_is_held_to_a_higher_confidence() -> None:
    """Three models, of which one will do."""
    by_model = {"mlp": [1.1, 1.2, 1.3], "cnn": [1.0, 1.1, 1.0], "lstm": [1.0, 1.0, 1.1]}
    frames = [runs({"nd": [1.0] * 3, "a": times}, model=model) for model, times in by_model.items()]
    about = {"how": "faster", "unit": "%", "subject": {"system": "nd"}, "against": ({"system": "a"},), "over": "model"}
    best, worst = (answer(claim(check="ratio", **about, best=best), pd.concat(frames)) for best in (True, False))
    assert (best.low, best.high) == pytest.approx(by_logarithms([1.1, 1.2, 1.3], 1 - 0.05 / 3))
    assert (worst.cases[0].low, worst.cases[0].high) == pytest.approx(by_logarithms([1.1, 1.2, 1.3]))


def by_logarithms(quotients: list[float], confidence: float = 0.95) -> list[float]:
    """In percent above 1."""
    logs = np.log(quotients)
    ends = stats.t.interval(confidence, len(logs) - 1, loc=logs.mean(), scale=stats.sem(logs))
    return [100 * (np.exp(end) - 1) for end in ends]


@pytest.mark.parametrize(
    ("how", "unit", "expected"),
    [
        ("faster", "%", by_logarithms([2.0, 3.0, 8.0])),
        ("times", "x", [1 + end / 100 for end in by_logarithms([2.0, 3.0, 8.0])]),
        ("longer", "%", by_logarithms([1 / 2, 1 / 3, 1 / 8])),
        ("lower", "%", [-end for end in reversed(by_logarithms([1 / 2, 1 / 3, 1 / 8]))]),
    ],
)
def test_a_quotient_s_interval_is_the_same_whichever_way_it_is_said(how: str, unit: str, expected: list[float]) -> None:
    """Twice, three and eight times as fast; plain t would not rule out that it is slower."""
    frame = runs({"nd": [1.0, 1.0, 1.0], "bsp": [2.0, 3.0, 8.0]})
    found = answer(claim(how=how, unit=unit, subject={"system": "nd"}, against=({"system": "bsp"},)), frame)
    assert (found.low, found.high) == pytest.approx(expected)


def test_a_quotient_of_what_never_ended_keeps_its_order_statistics() -> None:
    frame = runs({"nd": [1.0] * 6, "bsp": [2.0, 3.0, inf, 4.0, 5.0, 6.0]})
    found = answer(claim(how="times", unit="x", subject={"system": "nd"}, against=({"system": "bsp"},)), frame)
    assert (found.value, found.low, found.high) == (4.5, 2.0, inf)


def grown(by_seed: list[float]) -> Answer | None:
    """BSP grows from 10 to 20, with every seed alike; AntDT-ND from 10 to what is given by seed."""
    first = runs({"nd": [10.0] * len(by_seed), "bsp": [10.0] * len(by_seed)}, intensity="0.1")
    last = runs({"nd": by_seed, "bsp": [20.0] * len(by_seed)}, intensity="0.8")
    return answer(claim(shape="grows_less", **PAIR), pd.concat([first, last]))


@pytest.mark.few(1)
@pytest.mark.parametrize(
    ("by_seed", "verdict"),
    [
        ([11.0, 12.0, 13.0, 12.0, 11.0], "met"),
        ([31.0, 32.0, 33.0, 32.0, 31.0], "missed"),
        ([11.0, 12.0, 13.0, 32.0, 31.0], "inconclusive"),
        ([11.0, 12.0, 13.0, 14.0], "inconclusive"),
        ([11.0], "inconclusive"),
        ([12.0, 12.0], "met"),
    ],
)
def test_a_shape_holds_with_other_seeds_too(
    by_seed: list[float], verdict: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("analysis.claims.answers.RESAMPLES", 60)
    assert judge(claim(shape="grows_less", **PAIR), grown(by_seed)).side == verdict


LEDGER = [
    Claim(id="toy.a", where="I", check="number", value=1.0, group="a and d"),
    Claim(id="toy.b", where="I", check="ratio", accept=(0.0, None), magnitude=(1.0, 2.0), unit="%", note="by luck"),
    Claim(id="toy.c", where="I", check="number", value=1.0, calibrated="a model"),
    Claim(id="toy.d", where="I", check="number", value=2.0, group="a and d"),
]
GIVEN = pd.DataFrame(
    {
        "id": ["toy.a", "toy.b", "toy.c", "toy.d"],
        "side": [nan, "met", nan, nan],
        "size": ["inconclusive", "missed", "calibrated", "met"],
        "runtime": ["live", "virtual", "virtual", "live"],
    }
)


def test_totals_are_by_question_and_add_up_over_all_papers() -> None:
    text = "\n".join(overview(GIVEN, LEDGER))
    assert "- **Size** of 4 claims: 1 met, 1 missed, 1 inconclusive, 1 calibrated." in text
    assert "Side missed" not in text
    assert "Side missed: `b`." in "\n".join(overview(GIVEN.replace("met", "missed"), LEDGER))
    assert "- **Size** of 4 claims: 4 not run." in "\n".join(overview(GIVEN.iloc[:0], LEDGER))
    other = [Claim(id="toy.b", where="I", check="ratio", how="lower", value=40.0, unit="%")]
    text = front([("Toy", "toy.md", LEDGER, GIVEN), ("Other", "other.md", other, GIVEN)])
    assert "| [Toy](toy.md): size | 3 | 0 | 0 | 1 | 1 | 0 | 0 | 0 | 1 | 0 | 0 | 0 |" in text
    assert "| **all: size** | **4** | **0** | **0** | **2** | **1** |" in text
    assert "| all, live: size | 1 | 0 | 0 | 0 | 1 |" in text
    assert "**Side** holds in 2 of 2 decided observations (100%); had none of the 2 an effect, 0 would be" in text
    assert "**Size** holds or is larger in 0 of 2 decided observations (0%); 0 of these are larger." in text


def test_what_a_reader_is_told_of_a_claim() -> None:
    assert paper_text(LEDGER[1]) == "1 to 2 %", "the rules say that it must be more than 0"
    assert paper_text(claim(accept=(0.0, None), value=None)) == "(accepted: more than 0)"
    assert paper_text(claim(accept=(1.0, None), value=3.0, unit="%")) == "3 % (accepted: more than 1)"
    assert paper_text(claim(accept=(None, 2.0), value=None)) == "(accepted: less than 2)"
    exact = claim(accept=(8.0, 8.0), value=8.0, unit="")
    assert paper_text(exact) == "8 (accepted: exactly 8)"
    assert paper_text(msgspec.structs.replace(exact, arithmetic=True)) == "8"
    assert remarks(LEDGER) == ["- `b`: by luck.", "- `c`: calibrated: a model."]
    arithmetic, never = Verdict("", "by arithmetic"), Verdict("not exercised", "not exercised")
    mixed = [(f"toy.{n}", arithmetic) for n in range(5)] + [("toy.x", Verdict("met", "by arithmetic"))]
    assert many_alike([*mixed, ("toy.y", never)]) == {"by arithmetic": [f"toy.{n}" for n in range(5)]}
    assert line_of_alike("by arithmetic", ["toy.a", "toy.b"], "toy_fig1") == "- by arithmetic: `a`, `b`."
    assert "13 claims, whose values are in `toy_fig1_claims.csv`" in line_of_alike("met", ["toy.a"] * 13, "toy_fig1")
    cases = tuple(Answer(value, value - 1, value + 1, 3) for value in (3.0, 1.0, 2.0, 5.0, 4.0))
    many = Answer(1.0, 0.0, 2.0, 3, text="all five", cases=cases)
    assert ours_text(claim(unit="%"), many) == "1 [0, 2] to 5 [4, 6] % in 5 cases"
    assert ours_text(claim(unit="%"), many._replace(cases=cases[:4])) == "all five"
    same = [["a", "1", "2", "3", "met", DASH], ["b", "1", "4", "3", DASH, DASH]]
    heads = ["claim", "paper", "ours (3 seeds)", "side"]
    assert varying(same) == (heads, [["a", "1", "2", "met"], ["b", "1", "4", DASH]])


@pytest.mark.parametrize(("share", "verdict"), [(0.0, "missed"), (0.05, "missed"), (0.06, "inconclusive")])
def test_a_shape_is_missed_only_where_hardly_any_seeds_would_show_it(share: float, verdict: str) -> None:
    seen = Answer(seeds=5, holds=False, share=share)
    assert judge(claim(check="shape", value=None, shape="flat"), seen).side == verdict
