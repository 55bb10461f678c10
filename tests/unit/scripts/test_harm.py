"""The grid of harm and gain: what is timed is what ``run.py`` would record, and no harm passes without its reason."""

from __future__ import annotations

import re
from argparse import Namespace
from collections.abc import Sequence
from itertools import product
from pathlib import Path

import pandas as pd
import pytest
from rich.console import Console

from analysis.figures.experiment.map import doublings
from analysis.measures import harm
from analysis.measures.metrics import jct_s
from analysis.records.load import load_run
from analysis.reports.harm import cell_text, reason_lines, tables
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.parse import Config, parse
from runtime.errors import ConfigError
from runtime.run.checks.job import check_job
from runtime.run.job import run_job
from runtime.run.timing import outcome_of_job
from stragglab.commands import harm as script
from stragglab.grids.harm import COLUMNS, merge, report, whole

pytestmark = pytest.mark.usefixtures("same_code")
PAGE_CSV = script.ROOT / "docs" / "harm.csv"
WORKERS = [int(count) for count in whole().axes["workers"]]
SMALL = ("--workers", "4", "--jobs", "1", "workload.epochs=3")
HARMFUL = ("--strategies", "first_k", "strategy.k=1", "--stragglers", "none")
"""An update of one gradient of four: whoever is a moment late has computed for nothing."""


def run(out: Path, *words: str) -> int:
    return script.main(["-o", str(out), *SMALL, *words])


def config_of(*words: str) -> Config:
    with composing(parse_arguments([])) as composer:
        return parse(composer.raw(words))


@pytest.mark.parametrize("strategy", ["bsp", "backup_workers"])
def test_a_job_takes_as_long_as_its_record_says(strategy: str, tmp_path: Path) -> None:
    words = ["runtime=virtual", "backend=none", "workload.target=null", "workload.epochs=3", "view=none"]
    config = config_of(*words, f"strategy={strategy}", "straggler=slowdown")
    assert run_job(check_job(config), tmp_path / "run").exit_code == 0
    outcome, record = outcome_of_job(check_job(config)), load_run(tmp_path / "run")
    assert outcome.t == jct_s(record)
    assert (outcome.status, outcome.version) == ("done", len(record.tables.updates))
    with pytest.raises(ConfigError, match="runtime=live: is not virtual"):
        outcome_of_job(check_job(config_of()))


def test_a_strategy_that_gains(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """Under a persistent straggler of four ASP is faster, BSP's row is its own measure; a second call runs nothing."""
    words = ("--strategies", "asp", "--stragglers", "persistent")
    assert run(tmp_path, *words) == 0
    (ratio,) = re.findall(r"\| asp \| ([\d.]+) \|", capsys.readouterr().out)
    assert float(ratio) < 1
    before = {path: path.stat().st_mtime_ns for path in (tmp_path / "times").iterdir()}
    assert run(tmp_path, *words) == 0
    assert "2 of 2 jobs exist already" in capsys.readouterr().out
    assert {path: path.stat().st_mtime_ns for path in (tmp_path / "times").iterdir()} == before


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (["--strategies", "bsp,bps"], "--strategies bps: unknown; there are ad_psgd"),
        (["--stragglers", ","], "--stragglers ',': names none; give some"),
        (["--strategies", "bsp"], "--strategies bsp: is what the others are compared with; name another one"),
        (["--workers", "4,x"], "--workers x: must be a whole number, 1 or more"),
        (["--workers", "4,0"], "--workers 0: must be a whole number, 1 or more"),
        (["--jobs", "1,2"], "--jobs 1,2: must be a whole number, 1 or more"),
        (["--report", "page.txt"], "--report page.txt: must end in .md"),
        (["--report", "page.md"], "workload.epochs=3: a page uses the shipped settings"),
        (["--reasons", "nowhere.yaml"], "nowhere.yaml: no such file or directory"),
        (["strategy._target_=os.system"], "_target_ cannot be set on the command line"),
    ],
)
def test_what_is_of_no_use_is_refused(
    words: list[str], said: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run(tmp_path, *words) == 2
    assert said in capsys.readouterr().err


def reasons_file(folder: Path, text: str) -> tuple[str, str]:
    path = folder.with_name(f"{folder.name}_given") / "reasons.yaml"  # the folder itself is for results
    path.parent.mkdir(exist_ok=True)
    path.write_text(text)
    return "--reasons", str(path)


def test_harm_without_a_reason_fails(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert run(tmp_path, *HARMFUL, *reasons_file(tmp_path, "")) == 1
    assert "no reason: first_k none 4 workers" in capsys.readouterr().out
    reason = "first_k: [{stragglers: [none], up_to: 9.0, why: it is the control}]"
    assert run(tmp_path, *HARMFUL, *reasons_file(tmp_path, reason)) == 0


@pytest.mark.parametrize(
    ("line", "explains"),
    [
        ("{stragglers: [none], up_to: 9.0, why: it is the control}", True),
        ("{stragglers: [all], workers: [4, 16], up_to: 9.0, why: it is the control}", True),
        ("{stragglers: [none], up_to: 1.04, why: it used to be less}", False),
        ("{stragglers: [kill], up_to: 9.0, why: of another pattern}", False),
        ("{stragglers: [none], workers: [16], up_to: 9.0, why: of another size}", False),
    ],
)
def test_a_reason_is_one_for_its_cells_and_up_to_its_ratio(line: str, explains: bool) -> None:
    """A failed job has none."""
    reasons = harm.read_reasons(f"asp:\n- {line}\n".encode(), "reasons.yaml")
    slow, failed = (cells_of(jobs_of([("asp", 0, outcome, 11.0)])) for outcome in ("done", "failed"))
    assert harm.cells_without_reason(slow, reasons) == ([] if explains else slow)
    assert harm.cells_without_reason(failed, reasons) == failed


def test_reasons_that_cannot_be_read_are_refused(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for text, said in (
        ("lgc: {stragglers: [none]}", "array"),
        ("lgc: [{stragglers: [none], up_to: 1.5}]", "why"),
        ("lgc: [{stragglers: [none], up_to: 1.0, why: a}]", "up_to"),
        ("lgc: [{stragglers: [none], up_to: 1.5, why: a, because: b}]", "because"),
        ("lgc: [", "reasons.yaml: "),
    ):
        assert run(tmp_path, *HARMFUL, *reasons_file(tmp_path, text)) == 2
        assert said in capsys.readouterr().err


def jobs_of(rows: Sequence[tuple[str, int, str, float]]) -> pd.DataFrame:
    """Of (strategy, seed, outcome, jct_s) under one pattern, over 10 s of BSP."""
    full = [(4, "none", strategy, seed, outcome, jct_s, 10.0, outcome) for strategy, seed, outcome, jct_s in rows]
    return pd.DataFrame(full, columns=COLUMNS)


def cells_of(jobs: pd.DataFrame) -> list[harm.Cell]:
    return harm.cells_of(harm.pair_with_bsp(jobs))


def test_a_cell_is_the_median_over_the_seeds_and_bsp_is_none() -> None:
    """Reasons that nobody needs are named."""
    rows = [("bsp", 0, "done", 10.0)] + [("asp", seed, "done", taken) for seed, taken in enumerate((9.0, 30.0, 10.2))]
    (cell,) = cells_of(jobs_of(rows))
    assert (cell.strategy, cell.ratio, cell.is_harmful) == ("asp", pytest.approx(1.02), False)
    cells = cells_of(jobs_of([("asp", 0, "done", 11.0), ("ssp", 0, "done", 9.0)]))
    needed, idle = harm.Reason(("none",), 1.2, "it is slow"), harm.Reason(("none",), 1.2, "it was slow")
    assert harm.idle_reasons(cells, {"asp": (needed,), "ssp": (idle,)}) == ["ssp: none: it was slow"]


@pytest.mark.parametrize(
    ("outcome", "jct_s", "harmed", "text"),
    [
        ("done", 10.3, False, "1.03"),
        ("done", 10.4, True, "**1.04** ?"),
        ("cut", 9.0, True, "**> 0.90** ?"),
        ("cut", float("nan"), True, "**cut** ?"),
        ("failed", float("nan"), True, "**failed** ?"),
        ("refused", float("nan"), False, "refused"),
    ],
)
def test_what_counts_as_harm(outcome: str, jct_s: float, harmed: bool, text: str) -> None:
    """Nobody may hide behind a job that came to no end."""
    (cell,) = cells_of(jobs_of([("asp", 0, outcome, jct_s)]))
    assert (cell.is_harmful, cell_text(cell, {})) == (harmed, text)
    assert bool(harm.cells_without_reason([cell], {})) == harmed


def test_a_page_shows_the_table_of_one_number_of_workers_and_counts_all_that_were_tried() -> None:
    """One slower, one that failed, one as fast and one cut off where BSP failed; who was refused was not tried."""
    rows = [("asp", "done", 11.0), ("ssp", "failed", float("nan")), ("lgc", "refused", 1.0), ("lb_bsp", "done", 10.0)]
    rows.append(("sync_switch", "cut", float("nan")))
    cells = cells_of(jobs_of([(name, 0, outcome, jct_s) for name, outcome, jct_s in rows]))
    text = "2 of 4 cells are more than 3% slower than BSP; 1 failed; the best is `lb_bsp` under `none`, 1.00."
    assert list(tables(cells, {}))[-1] == text
    few, many = cells_of(jobs_of([("asp", 0, "done", 11.0)]))[0], 16
    cells = [few, few._replace(workers=many)]
    line = "1 of 1 cells are more than 3% slower than BSP; the best is `asp` under `none`, 1.10."
    shown = list(tables(cells, {}, many))
    assert shown[:3] == ["## 4 workers", line, "## 16 workers"]
    assert shown[3].endswith("| asp | **1.10** ? |")
    assert len(list(tables(cells, {}))) == len(list(tables(cells, {}, 64))) == 6, "without such a number all are shown"


def test_the_page_says_why() -> None:
    rows = [("asp", 11.0), ("lb_bsp", 12.0), ("first_k", 13.0), ("ssp", 9.0)]
    cells = cells_of(jobs_of([*((name, 0, "done", jct_s) for name, jct_s in rows), ("lgc", 0, "refused", 1.0)]))
    slow = harm.Reason(("none",), 1.25, "It is slow.")
    reasons = {"lb_bsp": (slow,), "asp": (slow,)}
    text = "\n".join([*tables(cells, reasons), *reason_lines(cells, reasons)])
    assert "| asp | **1.10** |" in text
    assert "\n- **lb_bsp, asp** under none (1.10 to 1.20): It is slow.\n" in text
    assert "\n- **first_k** under none (1.30): **No reason known.**\n" in text
    assert "3 of 4 cells are more than 3% slower than BSP; the best is `ssp` under `none`, 0.90." in text
    assert text.endswith("\n- `lgc` is refused with 4 workers: refused")


def test_the_map_tells_slower_from_faster() -> None:
    """A doubling is one step of the scale, a halving one back; who is refused has no colour."""
    cells = cells_of(jobs_of([("asp", 0, "done", 20.0), ("ssp", 0, "done", 5.0), ("lgc", 0, "refused", 1.0)]))
    found = doublings(cells, ["ssp", "lgc", "asp"], ["none"])
    assert found[:, 0].tolist() == [-1.0, pytest.approx(float("nan"), nan_ok=True), 1.0]
    nothing = [one._replace(ratio=0.0) for one in cells if one.strategy == "asp"]
    assert doublings(nothing, ["asp"], ["none"]) == -2.0, "the end of the scale, such as an F1 of 0"


def test_a_page_shows_the_map_that_was_drawn_for_it(tmp_path: Path) -> None:
    page = tmp_path / "slow.md"
    jobs = jobs_of([("bsp", 0, "done", 10.0), ("asp", 0, "done", 9.0)])
    asked = Namespace(report=page, whole=False, redraw=False)
    assert report(jobs, {}, asked, Console(quiet=True)) == 0
    (picture,) = re.findall(r"!\[.*\]\((.+)\)", page.read_text())
    assert pd.read_csv((tmp_path / picture).with_suffix(".csv"))["jct_ratio"].tolist() == [0.9]
    assert pd.read_csv(page.with_suffix(".csv"))["jct_s"].tolist() == [10.0, 9.0]


def test_the_page_is_drawn_again_without_a_job(tmp_path: Path) -> None:
    page = tmp_path / "grid.md"
    with pytest.raises(ConfigError, match="--redraw: needs --report PAGE"):
        script.parse(["--redraw", "--report", str(page)])
    rows = [(name, 0, "done", jct_s) for name, jct_s in (("bsp", 10.0), ("asp", 5.0), ("ssp", 9.0), ("first_k", 9.5))]
    jobs_of(rows).assign(workers=16).to_csv(page.with_suffix(".csv"), index=False)
    assert script.main(["--redraw", "--report", str(page), "-o", str(tmp_path / "out")]) == 0
    assert "| asp | 0.50 |" in page.read_text()
    again = merge(jobs_of([("asp", 0, "done", 8.0)]).assign(workers=16), page.with_suffix(".csv"))
    assert again.set_index("strategy")["jct_s"].to_dict() == {"bsp": 10.0, "asp": 8.0, "ssp": 9.0, "first_k": 9.5}
    front = pd.read_csv(tmp_path / "images" / "grid_front.csv")
    assert dict(zip(front["strategy"], front["jct_ratio"], strict=True)) == {"asp": 0.5, "ssp": 0.9}, (
        "some strategies alone"
    )


@pytest.fixture(scope="module")
def page_cells() -> list[harm.Cell]:
    return cells_of(pd.read_csv(PAGE_CSV))


def test_no_cell_of_the_page_harms_without_a_reason_and_no_reason_is_idle(page_cells: list[harm.Cell]) -> None:
    """docs/harm.csv as `make harm` left it, and docs/harm_reasons.yaml."""
    reasons = harm.read_reasons(script.REASONS.read_bytes(), "harm_reasons.yaml")
    assert page_cells
    assert [str(cell) for cell in harm.cells_without_reason(page_cells, reasons)] == []
    assert harm.idle_reasons(page_cells, reasons) == []


def test_the_page_has_all_cells_of_every_strategy(page_cells: list[harm.Cell]) -> None:
    cells = {(cell.strategy, cell.straggler, cell.workers) for cell in page_cells}
    assert cells == set(product({*whole().axes["strategy"]} - {harm.REFERENCE}, whole().axes["straggler"], WORKERS))
