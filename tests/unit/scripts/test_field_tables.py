"""The comparison of all methods: its tables and picture follow from the rows that its runs left."""

from __future__ import annotations

from math import inf, nan

import pandas as pd
import pytest

from analysis.experiments.results import Results
from analysis.experiments.rows import read_rows
from analysis.experiments.spec import cells, load_spec
from analysis.figures.experiment.profile import profiles
from runtime.house import ROOT
from scripts.docs.field_tables import (
    KINDS,
    against_reference,
    live_ratio,
    most_telling,
    number,
    page_tables,
    results_kept,
    table,
)

SPEC = load_spec(ROOT / "conf" / "experiment" / "field.yaml")
ROWS = ROOT / "docs" / "paper" / "rows" / "field.csv"
PAGE = ROOT / "docs" / "field.md"
LIVE = ROOT / "docs" / "images" / "fidelity_field_time_to_the_target.csv"
PICTURE = ROOT / "docs" / "images" / "field.csv"
BEGIN, END = "<!-- drawn from docs/paper/rows/field.csv by pytest --rewrite -->", "<!-- end of tables -->"


@pytest.fixture(scope="module")
def kept() -> Results:
    return results_kept(SPEC, read_rows(ROWS))


def test_the_page_has_what_the_rows_say(kept: Results, pytestconfig: pytest.Config) -> None:
    head, _, rest = PAGE.read_text().partition(BEGIN)
    tail = rest.partition(END)[2]
    wanted = "\n".join([f"{head}{BEGIN}", *page_tables(kept, pd.read_csv(LIVE)), "", f"{END}{tail}"])
    if pytestconfig.getoption("--rewrite"):
        PAGE.write_text(wanted)
    assert PAGE.read_text() == wanted


def test_the_picture_shows_what_the_rows_say(kept: Results) -> None:
    drawn = pd.concat([profiles(kept, topology) for topology in SPEC.axes["topology"]], ignore_index=True)
    pd.testing.assert_frame_equal(pd.read_csv(PICTURE), drawn)


def test_every_pattern_is_in_one_column() -> None:
    assert sorted(name for names in KINDS.values() for name in names) == sorted(SPEC.axes["straggler"])


def test_a_seed_counts_when_all_of_its_runs_have_rows() -> None:
    rows = read_rows(ROWS)
    there = {cell.name for cell in cells(SPEC) if cell.seed == 0}
    assert len(results_kept(SPEC, rows).runs) % len(there) == 0
    whole = [row for row in rows if row["seed"] == "0"]
    assert set(results_kept(SPEC, whole).runs["seed"]) == {0}
    with pytest.raises(ValueError, match="field: with no seed all runs have a row"):
        results_kept(SPEC, whole[1:])


def frame(*rows: tuple[str, str, float]) -> pd.DataFrame:
    """Of strategy, straggler and ratio to BSP."""
    there = pd.DataFrame(rows, columns=["strategy", "straggler", "ratio"])
    return there.assign(samples=1.1, dropped_frac=0.25, topology="ps")


def test_ratios_are_to_bsp_under_the_same_plan_and_medians_over_the_seeds(kept: Results) -> None:
    """By hand for one cell: a sum over the rows of the file, without a join."""
    rows = [row for row in read_rows(ROWS) if (row["topology"], row["straggler"]) == ("ps", "persistent")]
    seeds = sorted(set(kept.runs["seed"]))
    by = {(row["strategy"], int(row["seed"])): float(row["target_s"]) for row in rows}
    found = against_reference(kept).set_index(["topology", "straggler", "strategy"])["ratio"]
    ratios = sorted(by["asp", seed] / by["bsp", seed] for seed in seeds)
    middle = (ratios[(len(ratios) - 1) // 2] + ratios[len(ratios) // 2]) / 2
    assert found["ps", "persistent", "asp"] == pytest.approx(middle)
    assert (found.loc[:, :, "bsp"].dropna() == 1.0).all()


def test_a_column_is_the_median_of_its_patterns_and_the_shortest_times_are_bold() -> None:
    there = frame(
        *(("bsp", name, 1.0) for name in ("none", "transient", "pause", "kill")),
        *(("asp", name, ratio) for name, ratio in (("none", 1.04), ("transient", 0.4), ("pause", 0.6), ("kill", inf))),
    )
    lines = table(there, ["asp", "bsp"])
    assert lines[0] == "| method | no straggler | slow at times | workers die | samples | dropped (%) |"
    assert lines[2] == "| [ASP](methods/asp.md) | **1.04** | **0.50** | never | 1.10 | 25 |"
    assert lines[3] == "| [BSP](methods/bsp.md) | **1.00** | 1.00 | **1.00** | 1.10 | 25 |"
    assert table(there, ["bsp"], ["asp"])[2:] == [
        "| [BSP](methods/bsp.md) | **1.00** | **1.00** | **1.00** | 1.10 | 25 |",
        "| [ASP](methods/asp.md) | 1.04 | 0.50 | never | 1.10 | 25 |",
    ]
    assert [number(value) for value in (0.996, inf, nan)] == ["1.00", "never", "\N{EN DASH}"]


def test_the_extremes_are_confirmed_a_cell_for_each_method() -> None:
    """Not ASP's other cells, a third cell of one pattern, or BSP; nor cells on hosts or replicas."""
    there = frame(
        *(("bsp", "kill", 1.0), ("asp", "kill", 0.1), ("asp", "pause", 9.0), ("ssp", "pause", inf)),
        *(("lgc", "pause", 5.0), ("lb_bsp", "pause", 8.0), ("static_x", "kill", 0.2), ("first_k", "kill", 0.3)),
        *(("first_k", "none", nan), ("zeno_pp", "link_throttle", 0.01)),
    )
    replicas = frame(("diloco", "none", 0.01)).assign(topology="allreduce")
    chosen = most_telling(pd.concat([there, replicas]))
    assert list(zip(chosen["strategy"], chosen["straggler"], strict=True)) == [
        *(("asp", "kill"), ("static_x", "kill"), ("lb_bsp", "pause"), ("ssp", "pause"))
    ]


def test_a_live_time_is_over_bsps_under_the_same_pattern() -> None:
    rows = [("kill", "bsp", "40.0"), ("kill", "asp", "30.0"), ("kill", "ssp", "2/3 missed"), ("none", "bsp", "10.0")]
    live = pd.DataFrame(rows, columns=["straggler", "strategy", "live (s)"])
    cells = frame(("asp", "kill", nan), ("ssp", "kill", nan), ("lgc", "kill", nan), ("asp", "pause", nan))
    found = [live_ratio(live, cell) for cell in cells.itertuples()]
    assert found == pytest.approx([0.75, inf, nan, nan], nan_ok=True)


def test_there_are_as_many_cells_as_the_rule_says(kept: Results) -> None:
    chosen = most_telling(against_reference(kept))
    assert len(chosen) == 10
    assert chosen["strategy"].is_unique
    assert chosen["straggler"].value_counts().max() <= 2
