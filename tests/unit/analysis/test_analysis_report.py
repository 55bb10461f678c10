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
from tests.support.pages import Reader, loaded
from tests.support.records import Story, asp_story, bsp_story, rollback_story

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
    assert (len(stored), stored["staleness"].sum()) == (32, 0)
    assert {file.stem for file in path.glob("tables/*")} == {name for name, _ in load_run(path).tables.items()}
    assert not list(path.rglob("*.tmp"))
    curve = pd.read_csv(path / "figures" / "convergence.csv")
    assert list(curve["median"]) == pytest.approx(list(load_run(path).tables.evaluations["accuracy"]))
    assert pd.read_csv(path / "figures" / "staleness.csv")["grads"].tolist() == [32]
    assert finish_run(path, draw=False) == summary, "twice is the same"


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


@pytest.mark.long(like="test_a_comparison_leaves_tables_figures_and_a_page")
def test_the_baseline_is_one_of_the_strategies_whose_order_is_that_of_the_runs(sweep: Path, tmp_path: Path) -> None:
    table = compare([sweep / "2_asp", sweep / "0_bsp"], tmp_path, baseline="asp")
    assert list(table["strategy"]) == ["asp", "bsp"]
    assert table["jct_ratio"].tolist() == [1.0, pytest.approx(0.648 / 0.535)]
    with pytest.raises(RecordError, match="baseline 'ssp' is not among the strategies: bsp"):
        compare([sweep / "0_bsp"], tmp_path, baseline="ssp")


@pytest.mark.long(like="test_a_comparison_leaves_tables_figures_and_a_page")
def test_an_unusable_record_is_left_out_and_named(sweep: Path, tmp_path: Path) -> None:
    broken, unborn = tmp_path / "broken", Story().write(tmp_path / "unborn")
    broken.mkdir()
    damaged = asp_story().write(tmp_path / "damaged")
    log = damaged / "events.jsonl"
    log.write_text("".join(log.read_text().splitlines(keepends=True)[1:]))
    table = compare([sweep / "0_bsp", broken, unborn, damaged], tmp_path / "out")
    assert table["runs"].tolist() == [1]
    said = " ".join(table.attrs["skipped"])
    assert all(part in said for part in ("broken", "never started", "seq 1 where 0 is due"))
    with pytest.raises(RecordError, match="no run to compare"):
        compare([broken, unborn], tmp_path / "out")
    asp_story().write(tmp_path / "sound")
    report_sweep(tmp_path, Console(file=(file := io.StringIO())))
    assert "left out: " in file.getvalue()


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


def test_the_table_on_a_terminal_is_bold_where_it_is_best_brief_where_it_is_narrow_and_warns_of_one_seed(
    comparison: tuple[pd.DataFrame, Path],
) -> None:
    both = comparison[0]
    terminal: dict[str, Any] = {"force_terminal": True, "color_system": "standard", "legacy_windows": False}
    shown = text(both, width=120, **terminal)
    bold = [part.partition("\x1b")[0].strip() for part in shown.split("\x1b[1m")[1:]]
    assert {"0.5", "0.8023"} <= {*bold}, "the shorter completion time, the higher accuracy"
    assert "0.3901" not in bold
    assert "\x1b[1m0.6" not in text(both.head(1), width=120, **terminal), "nothing is best of one"
    assert "\x1b" not in text(both)
    frame = both.assign(jct_low_s=0.1, jct_high_s=0.9)
    assert "[0.1, 0.9]" in text(frame, width=140, force_terminal=True, color_system=None)
    narrow = text(frame, width=80, force_terminal=True, color_system=None)
    assert "[0.1, 0.9]" not in narrow
    assert "too narrow for: gradients dropped (%)" in narrow
    assert "straggler=none" in text(pd.concat([both, both.assign(case="straggler=none")])), "a table for each case"
    assert "One seed decides nothing" in text(both.assign(seeds=1))
    assert "One seed decides nothing" not in text(both)


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


@pytest.mark.parametrize("what", ["nothing", "damaged"])
def test_the_script_refuses_bad_input_in_one_line(
    what: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    if what == "damaged":
        (bsp_story().write(tmp_path / "run") / "events.jsonl").write_text("{}\n")
    assert script.main([str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert error.startswith("figures: ")
    assert error.count("\n") == 1
