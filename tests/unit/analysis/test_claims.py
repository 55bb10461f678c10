"""The ledger of claims, what runs answer to one, and the verdict: with a wrong number for every right one."""

from __future__ import annotations

from math import comb, inf, nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.claims.answers import Answer, answer
from analysis.claims.judge import judge
from analysis.claims.ledger import FOLDER, Claim, LedgerError, load_ledger
from analysis.claims.pages import load_pages
from analysis.claims.shapes import SHAPES


def claim(**given: Any) -> Claim:
    return Claim(**{"id": "x.y", "where": "Table I", "check": "number", "value": 100.0, "unit": "s", **given})


def runs(times: dict[str, list[float]], **columns: Any) -> pd.DataFrame:
    """JCTs by system, one per seed."""
    rows = [
        {"system": name, "seed": seed, "jct_s": value, "completed": value != inf, **columns}
        for name, values in times.items()
        for seed, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_table_3_agrees_with_itself() -> None:
    """Every speed-up is what the two times of its row give (not what is printed)."""
    found = load_ledger("antdt")
    rows = [name.removesuffix(".speedup") for name in found if name.startswith("antdt.table3.") and "speedup" in name]
    assert len(rows) == 8
    for row in rows:
        times = [found[f"{row}.{system}"].value for system in ("bsp", "nd")]
        assert times[0] is not None
        assert times[1] is not None
        assert found[f"{row}.speedup"].value == pytest.approx(100 * (times[0] / times[1] - 1), abs=0.1)
        assert found[f"{row}.speedup".replace("antdt.", "antdt.live.")].value == found[f"{row}.speedup"].value


@pytest.mark.parametrize(
    ("entry", "said"),
    [
        ("a.b: {where: x, check: numbers}", "a.b: Invalid enum value 'numbers'"),
        ("a.b: {where: x, check: number, valeu: 3}", "unknown field `valeu`"),
        ("a.b: {check: number}", "missing required field `where`"),
        ("a.b: {where: x, check: number, experiment: e}", "there is nothing to compare with"),
        ("a.b: {where: x, check: ratio, value: 2, experiment: e, how: lower}", "needs something to compare with"),
        ("a.b: {where: x, check: ratio, accept: [2, 1], experiment: e}", "the lower end comes first"),
        ("a.b: {where: x, check: ratio, accept: [0, null], magnitude: [2, 1], experiment: e}", "[2.0, 1.0]: the lower"),
        ("a.b: {where: x, check: ratio, accept: [0, 1], magnitude: [1, 2], experiment: e}", "belongs to accept"),
        ("a.b: {where: x, check: ratio, value: 1, magnitude: [1, 2], experiment: e}", "belongs to accept"),
        ("a.b: {where: x, check: ratio, value: 1, calibrated: a, arithmetic: true, experiment: e}", "only one of them"),
    ],
)
def test_a_bad_entry_is_refused(entry: str, said: str, tmp_path: Path) -> None:
    (tmp_path / "a.yaml").write_text(entry)
    with pytest.raises(LedgerError, match=r"a\.yaml: a\.b: ") as caught:
        load_ledger("a", tmp_path)
    assert said in str(caught.value)
    with pytest.raises(LedgerError, match="other: no ledger of that name"):
        load_ledger("other", tmp_path)


def test_a_number_is_the_median_over_the_seeds_and_of_runs_of_one_seed_the_median_counts() -> None:
    """One of three repetitions never ended."""
    again = runs({"bsp": [90.0]}).assign(jct_s=[110.0]), runs({"bsp": [inf]})
    frame = runs({"bsp": [90.0, 100.0, 120.0], "nd": [1.0, 2.0, 3.0]})
    found = answer(claim(subject={"system": "bsp"}), frame)
    assert (found.value, found.seeds) == (100.0, 3)
    assert (found.low, found.high) == pytest.approx((310 / 3 - 37.946, 310 / 3 + 37.946), abs=0.001)  # 4.3 s / sqrt 3
    found = answer(claim(subject={"system": "bsp"}), pd.concat([frame, *again]))
    assert (found.value, found.seeds) == (110.0, 3)


def test_a_job_that_was_cut_off_took_for_ever() -> None:
    frame = runs({"bsp": [10.0, inf, inf]}).assign(jct_s=[10.0, 120.0, 120.0])
    found = answer(claim(subject={"system": "bsp"}), frame)
    assert found.value == inf
    assert judge(claim(value=120.0), found).size == "inconclusive"
    never = answer(claim(subject={"system": "bsp"}), runs({"bsp": [inf, inf, inf]}))
    assert judge(claim(value=120.0), never).size == "missed"


def test_what_was_not_run_has_no_answer_and_no_verdict() -> None:
    frame = runs({"bsp": [10.0]})
    for given in ({"subject": {"system": "nd"}}, {"subject": {"role": "worker"}}, {"of": "wait_frac"}):
        assert answer(claim(**{"subject": {"system": "bsp"}, **given}), frame) is None
    assert answer(claim(how="lower", subject={"system": "bsp"}, against=({"system": "nd"},)), frame) is None
    assert judge(claim(), None) == ("", "not run")
    assert judge(claim(check="ratio", how="lower", unit="%"), None) == ("not run", "not run")
    assert judge(claim(check="context"), None) == ("context", "")


def test_levels_of_an_axis_are_cases_of_which_the_least_favourable_counts() -> None:
    mlp, cnn = {"bsp": [10.0, 12.0], "asp": [20.0, 24.0]}, {"bsp": [10.0, 10.0], "asp": [9.0, 9.0]}
    frame = pd.concat([runs(mlp, model="mlp"), runs(cnn, model="cnn")])
    about = {"how": "longer", "unit": "%", "accept": (0.0, None), "value": None, "subject": {"system": "asp"}}
    about |= {"check": "ratio", "over": "model", "against": ({"system": "bsp"},)}
    every, some = claim(**about), claim(best=True, **about)
    worst, best = answer(every, frame), answer(some, frame)
    assert (round(worst.value, 6), judge(every, worst).side) == (-10.0, "missed")
    assert (round(best.value, 6), judge(some, best).side) == (100.0, "met")
    assert worst.text == best.text == "model mlp 100 [100, 100], model cnn -10 [-10, -10] %"
    assert answer(every, frame.drop(columns="model")) is None


def test_of_what_must_stay_below_a_bound_the_largest_is_the_least_favourable() -> None:
    """The CSV and the ratio on the page are of that one."""
    frame = pd.concat([runs({"nd": [value] * 2}, bound=bound) for bound, value in (("1", 0.2), ("2", 0.9), ("3", 0.4))])
    about = {"unit": "", "accept": (None, 1.0), "value": None, "over": "bound", "subject": {"system": "nd"}}
    every, some = answer(claim(**about), frame), answer(claim(best=True, **about), frame)
    assert (every.value, some.value) == (0.9, 0.2)
    assert every.text == some.text == "bound 1 0.2 [0.2, 0.2], bound 2 0.9 [0.9, 0.9], bound 3 0.4 [0.4, 0.4]"
    assert judge(claim(**about), every).size == "met"


def test_throttling_is_to_raise_one_more_than_the_other_with_every_model() -> None:
    given = {"subject": {"system": "asp"}, "against": ({"system": "bsp"},)}
    about = claim(check="shape", value=None, shape="grows_less_when_throttled", **given)

    def seen(asp_at_5: float) -> Answer:
        shares = {"100": {"bsp": [10.0] * 5, "asp": [12.0] * 5}, "5": {"bsp": [30.0] * 5, "asp": [asp_at_5] * 5}}
        return answer(about, pd.concat([runs(times, left=left, model="mlp") for left, times in shares.items()]))

    flat, steep = seen(13.2), seen(60.0)
    assert flat.text == "mlp +10% against +200%"
    assert (judge(about, flat).side, judge(about, steep).side) == ("met", "missed")
    assert answer(about, runs({"bsp": [1.0], "asp": [2.0]}, left="100")) is None


def test_an_order_holds_or_does_not() -> None:
    order = claim(how="order", **shape_of("jct_s", {"system": "nd"}, {"system": "lb"}, {"system": "bsp"}))
    good = answer(order, runs({"nd": [1.0, 1.1, 1.2], "lb": [3.0, 3.1, 3.1], "bsp": [4.0, 4.2, 4.1]}))
    bad = answer(order, runs({"nd": [1.0, 1.1, 1.2], "lb": [6.0, 6.1, 6.1], "bsp": [4.0, 4.2, 4.1]}))
    noisy = answer(order, runs({"nd": [1.0, 1.1, 1.2], "lb": [3.0, 3.1, 3.1], "bsp": [3.0, 9.0, 3.2]}))
    assert good.text.startswith("nd 1.1 < lb 3.1 < bsp 4.1; least step 1 [")
    assert bad.text.startswith("not nd")
    assert [judge(order, each).side for each in (good, bad, noisy)] == ["met", "missed", "inconclusive"]


@pytest.mark.parametrize(
    ("given", "ours", "side", "size"),
    [
        ({}, 114.9, "", "met"),
        ({}, 115.1, "", "missed"),
        ({}, 84.9, "", "missed"),
        ({}, nan, "", "missed"),
        ({"check": "ratio", "how": "lower", "unit": "%", "value": 60.0}, 79.9, "met", "met"),
        ({"check": "ratio", "how": "lower", "unit": "%", "value": 60.0}, 80.1, "met", "larger"),
        ({"check": "ratio", "how": "lower", "unit": "%", "value": 24.0}, 16.1, "met", "met"),
        ({"check": "ratio", "how": "lower", "unit": "%", "value": 24.0}, 15.9, "met", "missed"),
        ({"check": "ratio", "how": "lower", "unit": "%", "value": 10.0}, -1.0, "missed", "missed"),
        ({"check": "ratio", "how": "times", "unit": "x", "value": 2.0}, 1.7, "met", "met"),
        ({"check": "ratio", "how": "times", "unit": "x", "value": 2.0}, 2.4, "met", "larger"),
        ({"check": "ratio", "how": "times", "unit": "x", "value": 2.0, "accept": (2.0, None)}, 7.0, "met", "met"),
        ({"check": "ratio", "how": "times", "unit": "x", "value": 2.0, "accept": (2.0, None)}, 1.99, "met", "missed"),
        ({"check": "ratio", "how": "longer", "unit": "%", "value": 0.0, "accept": (-5.0, 5.0)}, 4.9, "met", ""),
        ({"check": "ratio", "how": "longer", "unit": "%", "value": 0.0, "accept": (-5.0, 5.0)}, 5.1, "missed", ""),
        ({"check": "shape", "unit": "%", "value": 3.0, "accept": (0.0, None)}, 1.0, "met", "missed"),
        ({"check": "number", "unit": "%", "value": 0.46, "accept": (0.0, 0.46)}, 0.01, "", "met"),
        ({"check": "number", "unit": "%", "value": 0.46, "accept": (0.0, 0.46)}, 0.47, "", "missed"),
        ({"check": "context"}, 3.0, "context", ""),
    ],
)
def test_the_rules(given: dict[str, Any], ours: float, side: str, size: str) -> None:
    assert judge(claim(**given), Answer(ours, ours, ours, 5)) == (side, size)


PAIR: dict[str, Any] = {"subject": {"system": "nd"}, "against": ({"system": "bsp"},), "check": "shape", "value": None}


def shape_of(of: str, subject: dict[str, str], *against: dict[str, str]) -> dict[str, Any]:
    return {"check": "shape", "value": None, "of": of, "subject": subject, "against": against}


def saw(name: str, frame: pd.DataFrame, **given: Any) -> bool | None:
    found = SHAPES[name](frame, claim(shape=name, **given))
    return None if found is None else found.holds


def intensities(nd: list[float], bsp: list[float]) -> pd.DataFrame:
    frames = [runs({"nd": [a], "bsp": [b]}, intensity=f"0.{i}") for i, (a, b) in enumerate(zip(nd, bsp, strict=True))]
    return pd.concat(frames, ignore_index=True)


def test_the_certainty_of_a_shape_is_that_of_as_many_seeds() -> None:
    """It holds for four of five seeds, so for the median of five drawn ones with the probability of three or more."""
    first = runs({"nd": [10.0] * 5, "bsp": [10.0] * 5}, intensity="0.1")
    last = runs({"nd": [11.0] * 4 + [30.0], "bsp": [20.0] * 5}, intensity="0.8")
    found = answer(claim(shape="grows_less", **PAIR), pd.concat([first, last]))
    assert found.holds
    assert found.share == pytest.approx(sum(comb(5, k) * 0.8**k * 0.2 ** (5 - k) for k in (3, 4, 5)), abs=0.04)


@pytest.mark.parametrize(("nd", "bsp", "met"), [(12, inf, True), (inf, 30, False), (inf, inf, False)])
def test_who_may_never_end_is_the_least_steady(
    nd: float, bsp: float, met: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Resamples of one seed alone have no deviation, and do not count."""
    monkeypatch.setattr("analysis.claims.answers.RESAMPLES", 30)
    frame = runs({"nd": [10, 11, nd], "bsp": [10, 20, bsp]}).replace({"jct_s": {inf: 60.0}})
    found = answer(claim(shape="steadier", **PAIR), frame)
    assert (found.holds, found.share == 1.0) == (met, met)


def delays(checkpoint: list[float], shards: list[float]) -> pd.DataFrame:
    rows = [
        {"failover": name, "interval": f"{5 * (i + 1)}", "seed": 0, "delay_s": value}
        for name, values in (("checkpoint", checkpoint), ("shards", shards))
        for i, value in enumerate(values)
    ]
    return pd.DataFrame(rows)


def test_falling_then_rising_above_what_is_flat() -> None:
    given = shape_of("delay_s", {"failover": "checkpoint"}, {"failover": "shards"})
    assert saw("falls_then_rises", delays([1000, 700, 900], [120, 120, 121]), **given) is True
    assert saw("falls_then_rises", delays([500, 700, 900], [120, 120, 121]), **given) is False, "it never falls"
    assert saw("falls_then_rises", delays([1000, 700, 900], [120, 800, 121]), **given) is False, "above it"
    assert saw("falls_then_rises", delays([1000, 700], [120, 120]), **given) is None


def test_falling_then_rising_with_the_wait() -> None:
    given = shape_of("target_s", {})

    def waits(*values: float) -> pd.DataFrame:
        levels = ["0", "30", "300", "90"]  # as numbers, not as text: 300 is last
        return pd.DataFrame({"wait_ms": levels[: len(values)], "seed": 0, "target_s": values})

    assert saw("dips", waits(10, 9, 11, 9.5), **given) is True
    assert saw("dips", waits(10, 9.95, 11, 10.5), **given) is False, "a hundredth is nothing"
    assert saw("dips", waits(10, 9, 7, 8), **given) is False, "it never rises"
    assert saw("dips", waits(7, 9, 11, 8), **given) is False, "it never falls"
    assert saw("dips", waits(10, 9), **given) is None


def profile(times: list[float], sizes: list[int]) -> pd.DataFrame:
    return pd.DataFrame({"device": "d", "batch": [f"{size}" for size in sizes], "seed": 0, "bpt_s": times})


def test_a_line_and_a_knee() -> None:
    given = shape_of("bpt_s", {"device": "d"})
    sizes = [8, 16, 32, 64, 96, 128, 192]
    line = profile([0.02 + 0.001 * size for size in sizes], sizes)
    knee = profile([max(0.06, 0.001 * size) for size in sizes], sizes)
    assert saw("linear", line, **given) is True
    assert saw("linear", knee, **given) is False
    assert saw("saturates", knee, **given) is True
    assert saw("saturates", line, **given) is False
    assert saw("linear", line[:2], **given) is None
    for name, frame in (("linear", line), ("saturates", knee)):
        assert saw(name, frame.assign(bpt_s=frame["bpt_s"].where(frame["batch"] != "192", inf)), **given) is None


def late(**values: list[float]) -> pd.DataFrame:
    """Of every system the measure at delays 0, 1, 10 and with a fault."""
    rows = [
        {"system": name, "delay": delay, "seed": 0, "update_s": value}
        for name, times in values.items()
        for delay, value in zip(("0", "1", "10", "fault"), times, strict=True)
    ]
    return pd.DataFrame(rows)


def test_what_delays_and_a_fault_do() -> None:
    given = shape_of("update_s", {"system": "ours"})
    frame = late(ours=[2.0, 2.0, 2.1, 2.1], bsp=[3, 4, 13, inf], cyclic=[4, 5, 7, 7.2], worse=[2, 2, 2.05, inf])
    assert saw("flat", frame, **given) is True
    assert saw("grows_and_never_ends", frame, **given) is False
    others = ({"system": "bsp"}, {"system": "cyclic"})
    assert saw("flat_and_lowest", frame, **given | {"against": others}) is True
    more = (*others, {"system": "worse"})
    assert saw("flat_and_lowest", frame, **given | {"against": more}) is False, "above it at 10"
    assert saw("flat_and_lowest", frame, **given | {"against": ({"system": "asp"},)}) is None
    bsp, cyclic, worse = ({**given, "subject": {"system": name}} for name in ("bsp", "cyclic", "worse"))
    assert saw("grows_and_never_ends", frame, **bsp) is True
    assert saw("grows_and_never_ends", frame, **cyclic) is False, "it ends"
    assert saw("levels_off", frame, **cyclic) is True
    assert saw("levels_off", frame, **bsp) is False, "it never ends"
    assert saw("levels_off", frame, **given) is False, "it never grows"
    assert saw("flat", frame, **worse) is False, "a fault counts"
    assert saw("flat", frame[frame["delay"] != "fault"], **given) is None
    growing = late(ours=[2.0, 2.0, 2.0, 2.5], bsp=[3.0, 4.0, 5.0, 6.0])
    assert saw("flat_and_lowest", growing, **given | {"against": others[:1]}) is False, "the lowest, but not flat"
    assert saw("grows_and_never_ends", late(ours=[2.0, 3.0, 3.0, inf]), **given) is False, "it stays at 10"
    assert saw("grows_and_never_ends", late(ours=[2.0, 3.0, 3.1, inf]), **given) is True
    assert saw("levels_off", late(ours=[4.0, 6.0, 5.0, 5.0]), **given) is False, "it falls by a sixth"
    assert saw("levels_off", late(ours=[4.0, 6.0, 5.5, 5.5]), **given) is True


def test_the_same_everywhere() -> None:
    given: dict[str, Any] = {"check": "shape", "value": 1.0, "of": "jct_s", "subject": {"system": "ours"}}
    assert saw("everywhere", runs({"ours": [1.0, 1.0, 1.0], "other": [2.0]}), **given) is True
    assert saw("everywhere", runs({"ours": [1.0, 1.0, 1.01]}), **given) is False, "though the median is right"
    assert saw("everywhere", runs({"ours": [1.0, inf]}), **given) is False
    assert saw("everywhere", runs({"other": [1.0]}), **given) is None


def test_every_ledger_has_a_page_and_the_other_way_round() -> None:
    names = {path.stem for path in FOLDER.glob("*.yaml")}
    assert set(load_pages()) == names
    assert {each.shape for name in names for each in load_ledger(name).values() if each.shape} == set(SHAPES)
    written = {path.stem for path in (FOLDER.parents[1] / "docs" / "paper").glob("*.md")} - {"README"}
    assert sorted(page.name for page in load_pages().values()) == sorted(written)


def test_growing_less_and_being_steadier() -> None:
    assert saw("grows_less", intensities([10, 11, 12], [10, 15, 20]), **PAIR) is True
    assert saw("grows_less", intensities([10, 15, 25], [10, 15, 20]), **PAIR) is False
    assert saw("grows_less", intensities([10, 15], [20, 30]), **PAIR) is False, "as much is not less"
    assert saw("grows_less", runs({"nd": [1.0]}), **PAIR) is None
    assert saw("steadier", runs({"nd": [10, 11, 12], "bsp": [10, 20, 30]}), **PAIR) is True
    assert saw("steadier", runs({"nd": [10.0], "bsp": [10.0]}), **PAIR) is None
    rows = [runs({"nd": [10, 11, 12], "bsp": [10, 20, 30]}, role="worker")]
    rows += [runs({"nd": [10, 40, 80], "bsp": [10, 20, 30]}, role="server")]
    assert saw("steadier", pd.concat(rows, ignore_index=True), **PAIR) is False, "in one of two rows only"
