"""What is said of the injectors, and drawn, from windows whose effects are known."""

from __future__ import annotations

from math import nan
from pathlib import Path
from typing import Any

import pandas as pd
import pytest

from analysis.figures.injectors import draw_injectors
from analysis.measures.injections import COLUMNS, PAYLOAD_FRAC, collect
from analysis.measures.injector_errors import errors
from analysis.reports.injectors import verdict
from stragglab.commands import figures as script
from tests.unit.analysis.test_injections import CORES, LINK, Telling, linked, throttled

PNG = b"\x89PNG"


def window(**given: Any) -> dict[str, Any]:
    row = dict.fromkeys(COLUMNS, nan) | {"run": "a", "seed": 0, "work": "w", "window": 0, "target": "worker:0"}
    row |= {"kind": "cpu", "by": "cgroup", "full": CORES, "iterations": 9, "base_s": 0.055}
    return row | {"slowdown_asked": 1 / given["magnitude"], "work": str(given.get("base_s"))} | given


def judged(*windows: dict[str, Any]) -> pd.DataFrame:
    return errors(pd.DataFrame(windows))


def test_lengths_and_levels_are_told_apart_the_weakest_first() -> None:
    rows = [window(magnitude=level, slowdown=1 / level, base_s=base) for base in (0.21, 0.055) for level in (0.1, 0.75)]
    rows += [window(by="sleep", kind="delay", magnitude=0.05, slowdown=2.0, slowdown_asked=2.0, full=nan)]
    table = judged(*rows)
    found = list(zip(table["by"], table["length_ms"], table["magnitude"], strict=True))
    cgroup = [("cgroup", length, level) for length in (55, 210) for level in (0.75, 0.1)]
    assert found == [("sleep", 55, 0.05), *cgroup]
    row = judged(*(window(magnitude=0.5, slowdown=slow, cpu_share=0.5) for slow in (1.9, 2.0, 2.3))).iloc[0]
    assert (row["windows"], row["iterations"], row["length_ms"]) == (3, 27, 55)
    assert (row["slowdown"], row["error"], row["within"]) == (2.0, pytest.approx(0.0), True), "their median"
    table = judged(*(window(magnitude=0.5, slowdown=2.0, base_s=base) for base in (0.04, 0.02))).set_index("length_ms")
    assert table["promised"].to_dict() == {40.0: True, 20.0: False}, "nearly as long as promised is long enough"


def test_misses_are_named() -> None:
    table = judged(
        window(magnitude=0.5, slowdown=2.2, cpu_share=0.505),
        window(magnitude=0.25, slowdown=4.41, cpu_share=0.235),
        window(magnitude=0.1, slowdown=nan, slowdown_asked=10.0, base_s=0.055),
    )
    lines = verdict(table)
    assert lines[0] == (
        "cgroup: slow-down of iterations of 50 ms and more within 10 %: 1 of 3 levels; "
        "not 0.25 left at 55 ms (+10.3 %), 0.1 left at 55 ms (not measured)"
    )
    assert lines[1] == "cgroup: share of processor time within 1 %: 1 of 2 levels; not 0.25 left at 55 ms (-1.5 %)"


def test_of_cpulimit_nothing_is_promised_for_short_iterations() -> None:
    rows = [
        window(by="cpulimit", magnitude=0.5, slowdown=slow, base_s=base) for slow, base in ((1.1, 0.06), (2.1, 0.5))
    ]
    table = judged(*rows)
    assert list(table["promised"]) == [False, True]
    assert verdict(table) == [
        "cpulimit: slow-down of iterations of 1000 ms under the limit and more within 10 %: 1 of 1 levels",
        "cpulimit: of shorter ones, for which nothing is promised: 0 of 1 levels; not 0.5 left at 60 ms (-45.0 %)",
    ]


def test_circumstances() -> None:
    rows = [window(magnitude=0.5, slowdown=2.0, cpu_cost=cost, readback_s=cost / 1e3) for cost in (0.8, 1.0)]
    rows += [window(by="duty", magnitude=0.5, slowdown=2.0, cpu_cost=1.2, readback_s=2e-3)]
    rows += [window(by="cpulimit", magnitude=0.5, slowdown=2.0, cpu_cost=5.0)]
    table = judged(*rows)
    assert verdict(table)[-3:-1] == [
        "cgroup: read back at most 0.9 ms after the planned moment",
        "duty: read back at most 2.0 ms after the planned moment",
    ]
    assert ": 0.90 to 1.20 times" in verdict(table)[-1], "cpulimit is too uneven to tell"
    assert not any("undisturbed" in line for line in verdict(judged(rows[-1])))


def test_links_are_judged_by_their_payload(tmp_path: Path) -> None:
    lines = verdict(errors(collect([linked("link:0").run(tmp_path)])))[:2]
    rate = LINK / 4 * PAYLOAD_FRAC
    assert lines == [
        "links: payload rate of pushes within 10 %: 1 of 1 levels",
        "links: payload rate of pulls within 10 %: 0 of 1 levels; "
        f"not 0.25 of 100 Mbit/s ({100 * (2.5e6 / rate - 1):+.1f} %)",
    ]


def test_several_runs_say_which_is_which(tmp_path: Path) -> None:
    received = [throttled(), Telling(), throttled(level=0.25, felt_s=0.2, seed=3)]
    runs = [each.run(tmp_path / str(number)) for number, each in enumerate(received)]
    frame = collect(iter(runs))
    assert list(frame.columns) == ["run", "seed", "work", *COLUMNS]
    assert frame["work"].nunique() == 1
    assert list(zip(frame["run"], frame["seed"], frame["magnitude"], strict=True)) == [
        (runs[0].meta["run_id"], 0, 0.5),
        (runs[2].meta["run_id"], 3, 0.25),
    ]


def test_the_figure_has_its_numbers_and_there_is_none_of_nothing(tmp_path: Path) -> None:
    assert draw_injectors(tmp_path / "injectors.png", [], errors(collect([]))) is None
    assert list(tmp_path.iterdir()) == []
    runs = [throttled().run(tmp_path / "a"), linked("link:0").run(tmp_path / "b")]
    path = draw_injectors(tmp_path / "out" / "injectors.png", [run.meta for run in runs], errors(collect(runs)))
    assert path is not None
    shown = pd.read_csv(path.with_suffix(".csv"))
    assert list(shown["panel"]) == ["iterations of 50 ms", "links", "links"]
    assert list(shown["achieved"]) == pytest.approx([2.0, 25.0, 20.0])


@pytest.mark.few(1)
@pytest.mark.parametrize("several", [True, False])
def test_figures_are_drawn_again_where_something_was_throttled(several: bool, tmp_path: Path) -> None:
    throttled().run(tmp_path / "runs" / "a")
    place = tmp_path / "runs" / "a" / "run"
    if several:
        throttled(level=0.25, felt_s=0.2).run(tmp_path / "runs" / "b")
        place = tmp_path / "runs" / "comparison"
    assert script.main([str(tmp_path / "runs")]) == 0
    assert (place / "figures" / "injectors.png").read_bytes().startswith(PNG)
