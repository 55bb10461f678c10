"""The table of the board of detectors follows from the scores next to its figure."""

from __future__ import annotations

from math import nan

import pandas as pd
import pytest

from analysis.experiments.spec import TUNED, load_spec
from runtime.house import ROOT
from scripts.docs.detector_tables import BESIDE, CHOSEN, board_table, mean_score, setting_of

SPEC = load_spec(ROOT / "conf" / "experiment" / "detectors.yaml")
PAGE = ROOT / "docs" / "detectors.md"
SCORES, LIVE = (ROOT / "docs" / "images" / f"{name}.csv" for name in ("detectors", "detectors-live"))
BEGIN, END = "<!-- drawn from docs/images/detectors.csv by pytest --rewrite -->", "<!-- end of the board -->"


def test_the_page_has_what_the_scores_say(pytestconfig: pytest.Config) -> None:
    head, _, rest = PAGE.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    lines = board_table(SPEC, pd.read_csv(SCORES, dtype={"ranks": str}), pd.read_csv(LIVE))
    wanted = "\n".join([f"{head}{BEGIN}", "", *lines, "", f"{END}{tail}"])
    if pytestconfig.getoption("--rewrite"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted


def test_live_jobs_have_the_settings_that_virtual_ones_have_chosen() -> None:
    live = load_spec(ROOT / "conf" / "experiment" / "detectors-live.yaml").predictors
    chosen = pd.read_csv(SCORES).dropna(subset="setting").groupby("predictor")["setting"].first()
    assert len(chosen) == 12
    for level, said in chosen.items():
        ((setting, value),) = live[CHOSEN + str(level).removesuffix(TUNED)].settings.items()
        assert f"{setting}={value:g}" == said


def test_the_order_of_live_scores_is_compared_with_that_of_virtual_ones() -> None:
    """By hand: two of twelve rules that change places by one cost 12 / (12 * 143) = 0.007."""
    rules = [name for name in SPEC.predictors if name not in BESIDE]
    virtual = pd.DataFrame({"ranks": "4", "straggler": "none", "predictor": rules, "score": range(12)})
    virtual = virtual.assign(setting="x=1", score_low=nan, score_high=nan, located_frac=nan, abstained_frac=nan)
    live = pd.DataFrame({"predictor": rules, "score": [1, 0, *range(2, 12)]})
    assert board_table(SPEC, virtual, live)[-1].endswith(": 0.99.")
    assert board_table(SPEC, virtual, live.assign(score=range(12, 0, -1)))[-1].endswith(": -1.00.")


def test_a_score_is_the_mean_over_kinds_with_half_of_its_interval() -> None:
    """By hand: halves 0.06 and 0.08 make 0.1, for a mean of two 0.05."""
    rows = pd.DataFrame({"score": [0.2, 0.7], "score_low": [0.14, 0.62], "score_high": [0.26, 0.78]})
    assert mean_score(rows) == "0.45 ± 0.05"
    assert mean_score(rows.assign(score_low=[0.14, nan])) == "0.45"
    assert mean_score(rows.assign(score=nan)) == "\N{EN DASH}"


def test_a_setting_is_shown_in_words() -> None:
    assert [setting_of(said) for said in (["tolerance_frac=1", "tolerance_frac=1"], ["as published"], [])] == [
        *("tolerance 1", "as published", "\N{EN DASH}")
    ]
    with pytest.raises(ValueError, match="too many values"):
        setting_of(["mads=10", "mads=20"])
