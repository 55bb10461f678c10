"""Performance profiles: the share of the cases within a factor of the best, and their figure."""

from __future__ import annotations

from dataclasses import replace
from io import StringIO
from math import inf, nan
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from scipy import stats

from analysis.experiments.results import Results
from analysis.figures.experiment import profile
from analysis.measures.profiles import MOST, profile_scores, ratios_to_best, within
from analysis.records.load import RecordError
from tests.unit.analysis.test_experiments import spec_of

HAND = np.array(
    [
        [2.0, 3.0, inf],
        [4.0, 2.0, 8.0],
        [6.0, 6.0, 6.0],
        [5.0, inf, 1.0],
    ]
)
"""Four cases, three strategies: the ratios are (1, 1.5, never), (2, 1, 4), (1, 1, 1) and (5, never, 1)."""

ALGOPERF = """\
submission,criteo1tb,fastmri,finewebedu_lm,imagenet_resnet,imagenet_vit,conformer,deepspeech,ogbg,wmt,score
ademamix,7839.19,1517.73,18025.90,inf,inf,48894.85,inf,6329.97,17399.64,0.5067340067340069
cautious_nadamw,inf,1608.19,25738.98,inf,inf,inf,inf,4992.69,14232.46,0.2951739618406281
lion,inf,1394.18,23172.04,inf,inf,inf,inf,7223.99,15475.55,0.2626262626262625
muon,inf,1869.77,20594.04,inf,77162.92,inf,inf,inf,inf,0.269921436588103
muon_torch,7141.60,inf,15471.92,inf,inf,inf,inf,1833.47,14214.78,0.41189674523007774
muon_torch_jax_hps,inf,inf,inf,inf,inf,inf,inf,inf,inf,0.0
muon_torch_jax_hps_achandr,inf,1357.47,10338.73,inf,inf,inf,inf,inf,inf,0.21492704826038114
muon_torch_jax_hps_lr_fix,inf,1482.86,15474.61,inf,inf,inf,inf,1848.26,inf,0.30246913580246876
nadamw,7492.69,1800.77,25733.85,inf,72015.58,inf,inf,inf,inf,0.36531986531986466
nadamw_baselinev05,8206.10,1620.52,20589.91,inf,inf,inf,inf,4089.78,14865.79,0.4360269360269367
nadamw_resnet,inf,1920.55,23163.02,inf,inf,inf,inf,6349.51,inf,0.17003367003367006
schedule_free_adamw,10337.67,1188.91,inf,inf,inf,inf,40463.39,3640.15,19957.72,0.466891133557801
schedule_free_adamw_jax,inf,2397.40,12875.28,inf,87468.86,inf,inf,5446.97,16161.20,0.40123456790123456
schedule_free_adamw_jax_v2,8204.54,1850.63,15451.99,inf,84891.76,inf,inf,5444.02,inf,0.42929292929292967
schedule_free_adamw_v2,7480.57,1128.84,inf,inf,inf,55846.44,41911.18,6325.43,10325.46,0.5679012345679016
single_worker_diloco,inf,2379.34,28314.82,inf,inf,inf,inf,inf,inf,0.11672278338944997
"""
"""AlgoPerf's self-tuning leaderboard, seconds of the wall clock to the target by workload and the score, as published
in github.com/mlcommons/submissions_algorithms (``analysis/data``, commit 0007993e); times are rounded to hundredths."""


def test_profiles_are_those_of_algoperfs_leaderboard() -> None:
    """Its published scores are the trapezoidal areas over 100 factors from 1 to 4; ours are exact ones."""
    table = pd.read_csv(StringIO(ALGOPERF))
    times, published = table.iloc[:, 1:-1].to_numpy("float64").T, table["score"].to_numpy()
    factors = np.linspace(1.0, MOST, 100)
    areas = np.trapezoid([within(times, factor) for factor in factors], factors, axis=0) / (MOST - 1.0)
    assert areas == pytest.approx(published, abs=1e-12)
    assert profile_scores(times) == pytest.approx(published, abs=0.01)


@pytest.mark.parametrize(
    ("factor", "shares"),
    [(1.0, [0.5, 0.5, 0.5]), (1.5, [0.5, 0.75, 0.5]), (2.0, [0.75, 0.75, 0.5]), (4.0, [0.75, 0.75, 0.75]),
     (5.0, [1.0, 0.75, 0.75]), (1e9, [1.0, 0.75, 0.75])],
)  # fmt: skip
def test_a_table_worked_by_hand(factor: float, shares: list[float]) -> None:
    assert within(HAND, factor).tolist() == shares


def test_a_profile_is_the_distribution_of_the_ratios_as_scipy_computes_it() -> None:
    """Of 40 cases with ties; a strategy that never got there counts as slower than any factor."""
    rng = np.random.default_rng(3)
    times = rng.integers(1, 9, size=(40, 5)).astype(float)
    times[rng.random(times.shape) < 0.1] = inf
    times[:, 4] = np.where(np.isinf(times).all(axis=1), 1.0, times[:, 4])  # somebody gets there
    best = [min(row) for row in times.tolist()]
    for one in range(times.shape[1]):
        ratios = [time / least for time, least in zip(times[:, one].tolist(), best, strict=True)]
        theirs = stats.ecdf([min(ratio, 1e6) for ratio in ratios]).cdf
        for factor in (1.0, 1.2, 1.5, 2.0, 3.0, 7.5):
            assert within(times, factor)[one] == pytest.approx(theirs.evaluate(factor))


def test_where_nobody_gets_there_nobody_is_the_best_and_who_lacks_a_case_has_no_profile() -> None:
    assert ratios_to_best(np.array([[inf, inf]])).tolist() == [[inf, inf]]
    assert within(np.array([[inf, inf], [1.0, 2.0]]), 1.0).tolist() == [0.5, 0.0]
    lacking = np.array([[1.0, nan, 3.0], [2.0, 1.0, 2.0]])
    assert within(lacking, 2.0).tolist() == pytest.approx([1.0, nan, 0.5], nan_ok=True)


def results(folder: Path, times: dict[str, list[float]], **drawing: Any) -> Results:
    """Of systems that were run with four seeds each, on workers and on servers alike; NaN: not run."""
    axes: dict[str, Any] = {"role": {"worker": [], "server": []}, "system": {name: [] for name in times}}
    figure = {"kind": "profile", "by": "system", "panels": "role", "fixed": [next(iter(times))], **drawing}
    rows = [
        {"role": role, "system": name, "seed": seed, "jct_s": time, "completed": time < inf, "runtime": "virtual"}
        for role in axes["role"]
        for name, several in times.items()
        for seed, time in enumerate(several)
        if time == time
    ]
    return Results(spec=spec_of(folder, settings=[], axes=axes, figure=figure), runs=pd.DataFrame(rows), metas=[])


def named(times: np.ndarray) -> dict[str, list[float]]:
    return {name: times[:, place].tolist() for place, name in enumerate(("bsp", "asp", "ssp"))}


def test_a_panel_compares_those_that_were_run_in_all_of_its_cases(tmp_path: Path) -> None:
    """The largest area first. A job that was cut off took infinitely long, whatever its last second was."""
    found = results(tmp_path, {**named(HAND), "lgc": [1.0, 1.0, nan, 1.0]})
    cut = found.runs["completed"] | (found.runs["jct_s"] < inf)
    found.runs.loc[~cut, "jct_s"] = 0.5
    table = profile.profiles(found, "worker").set_index("system")
    assert "lgc" not in table.index
    assert table["cases"].tolist() == [4, 4, 4]
    for place, name in enumerate(("bsp", "asp", "ssp")):
        shares = [within(HAND, factor)[place] for factor in profile.FACTORS]
        assert table.loc[name, [f"within_{factor:g}" for factor in profile.FACTORS]].tolist() == shares
        assert table.loc[name, "score"] == pytest.approx(profile_scores(HAND)[place], abs=1e-4)
    assert table["score"].is_monotonic_decreasing
    assert table["ever"].to_dict() == {"bsp": 1.0, "asp": 0.75, "ssp": 0.75}


@pytest.mark.parametrize("column", [0, 1, 2])
def test_a_line_is_the_profile_at_every_factor(column: int) -> None:
    x, y = profile.steps(ratios_to_best(HAND)[:, column])
    assert (x[0], x[-1]) == (1.0, MOST)
    for factor in np.linspace(1.0, MOST, 61):
        assert y[np.searchsorted(x, factor, side="right") - 1] == within(HAND, factor)[column]


def test_the_best_and_the_reference_have_a_colour(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of ten systems; the reference is the worst of all. Titles count who is compared, in how many cases."""
    names = ("bsp", "asp", "ssp", "lgc", "lb_bsp", "first_k", "static_x", "dynamic_x", "mlfabric", "zeno_pp")
    times = {name: [20.0 - place] * 4 for place, name in enumerate(names)}
    pages: list[Figure] = []
    monkeypatch.setattr(profile, "save", lambda page, *_: pages.append(page))
    found = results(tmp_path, times, names={"worker": "Slow worker", "server": "Slow server"})
    profile.draw(tmp_path / "x.png", found)
    first, second = pages[0].axes
    assert first.get_title(loc="left") == "Slow worker: 10 compared in 4 cases"
    assert second.get_title(loc="left") == "Slow server: 10 compared in 4 cases"
    assert legend(first)[0].startswith("Zeno++ 1.00")
    assert legend(first)[-1].startswith("BSP ")
    assert len(legend(first)) == profile.BEST + 1
    assert sum(line.get_color() == profile.REST for line in first.lines) == len(names) - profile.BEST - 1


def test_a_panel_without_runs_is_left_out(tmp_path: Path) -> None:
    """As of a part of an experiment that was asked for."""
    whole = results(tmp_path, named(HAND))
    part = replace(whole, runs=whole.runs[whole.runs["role"] == "worker"])
    assert set(pd.read_csv(profile.draw(tmp_path / "x.png", part).with_suffix(".csv"))["role"]) == {"worker"}
    with pytest.raises(RecordError, match="no system was run in all cases of a panel"):
        profile.draw(tmp_path / "x.png", replace(whole, runs=whole.runs[:0]))


def legend(axes: Axes) -> list[str]:
    there = axes.get_legend()
    assert there is not None
    return [text.get_text() for text in there.get_texts()]
