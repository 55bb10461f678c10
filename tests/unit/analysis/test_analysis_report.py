"""What is left on disk and on the terminal: summaries, tables, traces, figures, pages."""

from __future__ import annotations

import io
import json
import os
from itertools import pairwise
from pathlib import Path
from typing import Any

import pandas as pd
import pytest
from rich.console import Console

from analysis.records.load import RecordError, load_run
from analysis.reports.console import print_summary
from analysis.reports.report import compare, finish_run, summary_frame
from analysis.reports.sweep import report_end_of_sweep, report_sweep
from stragglab.commands import figures as script
from tests.support.long_tests import long_after
from tests.support.pages import Reader, loaded
from tests.support.records import Story, asp_story, bsp_story, churn_story, disturbance, rollback_story

PNG = b"\x89PNG\r\n\x1a\n"


@pytest.fixture(scope="module")
def sweep(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Two strategies, two seeds; the target is met by one of them."""
    root = tmp_path_factory.mktemp("sweep")
    for seed in (0, 1):
        bsp_story(seed=seed, target=0.5).write(root / f"{seed}_bsp")
        asp_story(seed=seed, target=0.5).write(root / f"{2 + seed}_asp")
    return root


@pytest.fixture(scope="module")
def comparison(sweep: Path, tmp_path_factory: pytest.TempPathFactory) -> tuple[pd.DataFrame, Path]:
    out = tmp_path_factory.mktemp("out")
    return compare(sorted(sweep.iterdir()), out), out


def text(frame: pd.DataFrame, **console: Any) -> str:
    file = io.StringIO()
    print_summary(frame, Console(file=file, **console))
    return file.getvalue()


@pytest.mark.painted
def test_a_finished_run_leaves_what_the_record_promises(tmp_path: Path) -> None:
    path = bsp_story().write(tmp_path / "run")
    summary = finish_run(path)
    assert json.loads((path / "summary.json").read_text()) == summary
    names = {file.stem for file in (path / "figures").glob("*.png")}
    assert names == {"convergence", "timeline", "bpt", "staleness"} == {f.stem for f in path.glob("figures/*.csv")}
    assert all(file.read_bytes().startswith(PNG) for file in path.glob("figures/*.png"))
    stored = pd.read_parquet(path / "tables" / "iterations.parquet")
    assert stored["staleness"].sum() == 0
    assert len(stored) == 32
    assert {file.stem for file in path.glob("tables/*")} == {name for name, _ in load_run(path).tables.items()}
    assert not list(path.rglob("*.tmp"))


def test_finishing_twice_replaces_everything(tmp_path: Path) -> None:
    path = asp_story().write(tmp_path / "run")
    assert finish_run(path, draw=False) == finish_run(path, draw=False)
    assert not (path / "figures").exists()


@pytest.mark.long(like="test_a_finished_run_leaves_what_the_record_promises")
@pytest.mark.parametrize("tell", long_after([rollback_story, churn_story], always=1))
@pytest.mark.painted
def test_runs_with_faults_are_drawn(tell: Any, tmp_path: Path) -> None:
    plan = [disturbance(0.1, 0.3, "server:0", 0.01), disturbance(0.0, 0.2, "link:0-1", 1e6, kind="rate")]
    path = tell(plan=plan).write(tmp_path / "run")
    finish_run(path)
    assert (path / "figures" / "timeline.png").stat().st_size > 10_000


def only_started() -> Story:
    story = Story()
    story.started()
    return story


def one_iteration() -> Story:
    story = Story(num_workers=1, target=None)
    story.started()
    story.arrived(0.1, 0, 0, compute_s=0.1)
    story.evaluated(0.2, None)
    return story


@pytest.mark.parametrize(
    "tell", [*(pytest.param(tell, marks=pytest.mark.painted) for tell in (Story, only_started)), one_iteration]
)
def test_runs_of_almost_nothing_finish(tell: Any, tmp_path: Path) -> None:
    path = tell().write(tmp_path / "run", torn='{"seq":')
    summary = finish_run(path)
    assert summary["torn"] is True
    assert "BSP" in text(summary_frame(summary))


def test_a_job_that_was_cut_off_says_what_lets_it_complete(tmp_path: Path) -> None:
    summary = finish_run(only_started().write(tmp_path / "run"), draw=False)
    assert "max_time_s" in text(summary_frame(summary))
    whole = finish_run(bsp_story().write(tmp_path / "whole"), draw=False)
    assert "max_time_s" not in text(summary_frame(whole))


def test_the_csv_beside_a_figure_holds_what_it_shows(tmp_path: Path) -> None:
    path = bsp_story().write(tmp_path / "run")
    finish_run(path)
    curve = pd.read_csv(path / "figures" / "convergence.csv")
    assert list(curve["median"]) == pytest.approx(list(load_run(path).tables.evaluations["accuracy"]))
    staleness = pd.read_csv(path / "figures" / "staleness.csv")
    assert staleness["grads"].tolist() == [32]


def trace_of(story: Story, path: Path) -> list[dict[str, Any]]:
    finish_run(story.write(path / "run"), draw=False)
    entries: list[dict[str, Any]] = json.loads((path / "run" / "timeline.json").read_text())["traceEvents"]
    return entries


def test_slices_of_a_lane_do_not_overlap(tmp_path: Path) -> None:
    entries = trace_of(rollback_story(), tmp_path)
    lanes: dict[tuple[int, int], list[tuple[float, float]]] = {}
    for entry in entries:
        if entry["ph"] == "X":
            lanes.setdefault((entry["pid"], entry["tid"]), []).append((entry["ts"], entry["ts"] + entry["dur"]))
    assert len([lane for lane in lanes if lane[0] == 1]) == 4
    for spans in lanes.values():
        spans.sort()
        assert all(end <= start + 0.2 for (_, end), (start, _) in pairwise(spans))


def test_the_trace_has_the_plan_the_updates_and_the_scores(tmp_path: Path) -> None:
    entries = trace_of(bsp_story(), tmp_path)
    opened, closed = ([e["ts"] for e in entries if e["ph"] == phase] for phase in "be")
    assert (opened, closed) == ([100_000.0], [300_000.0])
    assert len([e for e in entries if e["ph"] == "X" and e["name"].startswith("update")]) == 8
    injected = sum(e["dur"] for e in entries if e["ph"] == "X" and e["name"] == "injected")
    assert injected == pytest.approx(200_000.0)
    scores = [e["args"]["accuracy"] for e in entries if e["ph"] == "C"]
    assert scores[0] == pytest.approx(0.1)


def test_a_comparison_leaves_tables_figures_and_a_page(comparison: tuple[pd.DataFrame, Path]) -> None:
    table, out = comparison
    assert list(table["strategy"]) == ["bsp", "asp"]
    wide = table.assign(jct_ratio=1.01, jct_ratio_low=0.93, jct_ratio_high=1.13)
    assert text(wide).count("1.01 [0.93, 1.13]") == 2, "a ratio near 1 is no equality"
    files = {"SHA256SUMS", "comparison.csv", "comparison.json", "report.html", "figures"}
    assert {file.name for file in out.glob("*")} == files
    names = {"convergence", "times", "time_spent"}
    assert {Path(figure).stem for figure in table.attrs["figures"]} == names == {f.stem for f in out.glob("figures/*")}
    stored = json.loads((out / "comparison.json").read_text())
    assert [row["tta_s"] for row in stored["strategies"]] == [None, pytest.approx(0.3)]
    assert [row["tta_missed"] for row in stored["strategies"]] == [2, 0]
    assert stored["baseline"] == table.attrs["baseline"] == "bsp"
    assert len(stored["runs"]) == 4


def test_the_baseline_is_one_of_the_strategies_whose_order_is_that_of_the_runs(sweep: Path, tmp_path: Path) -> None:
    table = compare([sweep / "2_asp", sweep / "0_bsp"], tmp_path, baseline="asp")
    assert list(table["strategy"]) == ["asp", "bsp"]
    assert table["jct_ratio"].tolist() == [1.0, pytest.approx(0.648 / 0.535)]
    with pytest.raises(RecordError, match="baseline 'ssp' is not among the strategies: bsp"):
        compare([sweep / "0_bsp"], tmp_path, baseline="ssp")


def test_an_unusable_record_is_left_out_and_named(sweep: Path, tmp_path: Path) -> None:
    broken, unborn = tmp_path / "broken", Story().write(tmp_path / "unborn")
    broken.mkdir()
    table = compare([sweep / "0_bsp", broken, unborn], tmp_path / "out")
    assert table["runs"].tolist() == [1]
    assert ["broken" in table.attrs["skipped"][0], "never started" in table.attrs["skipped"][1]] == [True, True]
    with pytest.raises(RecordError, match="no run to compare"):
        compare([broken, unborn], tmp_path / "out")


def test_the_page_is_whole_self_contained_and_escaped(tmp_path: Path) -> None:
    name = '<script>alert("1")</script> & $x$'
    path = bsp_story().write(tmp_path / "run")
    meta = json.loads((path / "meta.json").read_text())
    meta["job"]["strategy"] = meta["job"]["workload"] = name
    (path / "meta.json").write_text(json.dumps(meta))
    table = compare([path], tmp_path / "out")
    text = Path(table.attrs["report"]).read_text()
    reader = Reader(text)
    assert reader.open == []
    assert "<script>alert" not in text
    assert name in reader.text
    assert [load.partition(",")[0] for load in reader.loads] == ["data:image/png;base64"] * 3
    assert loaded(text) == []


def test_the_table_in_a_file_is_whole(comparison: tuple[pd.DataFrame, Path]) -> None:
    lines = text(comparison[0], width=20).splitlines()
    bsp = next(line for line in lines if line.strip().startswith("BSP"))
    assert " ".join(bsp.split()) == ("BSP 2 0.6 1.00 — 2/2 missed \N{EN DASH} 0.3901 8 0.00 (0) 24.2 0.0 52.5")
    assert "\x1b" not in text(comparison[0])


def test_the_best_is_bold_on_a_terminal(comparison: tuple[pd.DataFrame, Path]) -> None:
    shown = text(comparison[0], width=120, force_terminal=True, color_system="standard", legacy_windows=False)
    bold = [part.partition("\x1b")[0].strip() for part in shown.split("\x1b[1m")[1:]]
    assert "0.5" in bold, "the shorter completion time"
    assert "0.8023" in bold, "the higher accuracy"
    assert "0.3901" not in bold
    alone = text(comparison[0].head(1), width=120, force_terminal=True, color_system="standard")
    assert "\x1b[1m0.6" not in alone, "nothing is best of one"


def test_a_narrow_terminal_gets_the_brief_table(comparison: tuple[pd.DataFrame, Path]) -> None:
    frame = comparison[0].assign(jct_low_s=0.1, jct_high_s=0.9)
    assert "[0.1, 0.9]" in text(frame, width=140, force_terminal=True, color_system=None)
    narrow = text(frame, width=80, force_terminal=True, color_system=None)
    assert "[0.1, 0.9]" not in narrow
    assert "BSP" in narrow
    assert "too narrow for: gradients dropped (%)" in narrow
    assert "\N{HORIZONTAL ELLIPSIS}" not in narrow, "no head is cut off"


def test_one_seed_is_said_to_decide_nothing(comparison: tuple[pd.DataFrame, Path]) -> None:
    assert "One seed decides nothing" in text(comparison[0].assign(seeds=1))
    assert "One seed decides nothing" not in text(comparison[0]), "there are two"
    assert "One seed decides nothing" not in text(comparison[0].head(1).assign(seeds=1)), "nothing is compared"


def test_cases_get_a_table_each(sweep: Path, tmp_path: Path) -> None:
    other = bsp_story(straggler="none").write(tmp_path / "other")
    shown = text(compare([sweep / "0_bsp", other], tmp_path / "out"))
    assert "straggler=transient" in shown
    assert "straggler=none" in shown


def test_the_sweep_report_compares_and_says_what_it_left_out(sweep: Path, capsys: pytest.CaptureFixture[str]) -> None:
    failed = sweep / "9_failed" / ".hydra"
    failed.mkdir(parents=True)
    try:
        report_end_of_sweep(sweep)
    finally:
        os.removedirs(failed)
    shown = capsys.readouterr().out
    assert f"which is faster, with intervals: python run.py compare {sweep}\n" in shown
    assert "9_failed: no record" in shown
    assert str(sweep / "comparison" / "report.html") in shown
    assert (sweep / "comparison" / "figures" / "times.png").is_file()


@pytest.mark.parametrize(
    ("prepare", "says"),
    [("missing", "no run to compare"), ("empty", "no run to compare"), ("file", "could not be compared")],
)
def test_the_sweep_report_never_raises(
    prepare: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "sweep"
    if prepare == "empty":
        folder.mkdir()
    elif prepare == "file":
        Story().write(folder / "0_bsp")
        (folder / "comparison").write_text("in the way")
    report_end_of_sweep(folder)
    assert says in capsys.readouterr().out


def test_report_sweep_skips_a_damaged_record(tmp_path: Path) -> None:
    bsp_story().write(tmp_path / "0_bsp")
    path = asp_story().write(tmp_path / "1_asp") / "events.jsonl"
    path.write_text("".join(path.read_text().splitlines(keepends=True)[1:]))
    file = io.StringIO()
    report_sweep(tmp_path, Console(file=file))
    assert "left out" in file.getvalue()
    assert "seq 1 where 0 is due" in file.getvalue()


def test_the_script_draws_a_single_run_without_a_comparison(sweep: Path) -> None:
    assert script.main([str(sweep / "1_bsp")]) == 0
    assert (sweep / "1_bsp" / "figures" / "timeline.png").is_file()
    assert not (sweep / "1_bsp" / "comparison").exists()


@pytest.mark.parametrize("what", ["nothing", "damaged", "baseline"])
def test_the_script_refuses_bad_input_in_one_line(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    arguments = [str(tmp_path)]
    if what != "nothing":
        path = bsp_story().write(tmp_path / "run")
        if what == "damaged":
            (path / "events.jsonl").write_text("{}\n")
        else:
            arguments += ["--out", str(tmp_path / "out"), "--baseline", "lgc"]
    assert script.main(arguments) == 2
    error = capsys.readouterr().err
    assert error.startswith("figures: ")
    assert error.count("\n") == 1
