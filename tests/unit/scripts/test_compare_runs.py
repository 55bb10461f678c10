"""run.py compare: any runs, paired by seed, with verdicts, as table, CSV, Markdown or LaTeX."""

from __future__ import annotations

import csv
import re
import shutil
from io import StringIO
from pathlib import Path
from typing import Any

import pytest

from stragglab.commands.compare import main
from stragglab.grids.of_experiment import write_compared
from tests.support.records import Story, bsp_story


def stretched(story: Story, factor: float) -> Story:
    for line in story.lines:
        line["t"] *= factor
        if "event" in line and "t" in line["event"]:
            line["event"]["t"] = line["t"]
    return story


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """BSP, and the same rounds under another name at half the time, for three seeds, undisturbed."""
    folder = tmp_path_factory.mktemp("runs")
    for seed in range(3):
        for name, factor in (("bsp", 1.0), ("twice_as_fast", 0.5)):
            story = stretched(bsp_story(seed=seed, plan=()), factor * (1 + 0.01 * seed))
            story.meta["job"]["strategy"] = name
            story.write(folder / f"{name}_{seed}")
    return folder


ALL = "seeds,time,step,ratio,interval,verdict,score"


def rows(capsys: pytest.CaptureFixture[str], *words: object) -> list[dict[str, str]]:
    assert main([*map(str, words), "--as", "csv", "--columns", ALL]) == 0
    return list(csv.DictReader(StringIO(capsys.readouterr().out)))


def test_half_the_time_is_faster(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    bsp, other = rows(capsys, runs)
    assert (bsp["verdict"], bsp["JCT relative to bsp"], bsp["seeds"]) == ("", "1.00", "3")
    names = ("verdict", "JCT relative to bsp", "95 % low", "95 % high")
    assert [other[name] for name in names] == ["faster", *["0.50"] * 3]
    slow, _ = rows(capsys, runs, "--baseline", "twice_as_fast")
    assert (slow["verdict"], slow["JCT relative to twice_as_fast"]) == ("slower", "2.00")
    _, other = rows(capsys, runs / "bsp_0", runs / "twice_as_fast_0")
    assert other["verdict"] == "too few seeds"
    assert main([str(runs), "--as", "markdown", "--columns", "ratio, seeds"]) == 0
    assert capsys.readouterr().out.splitlines()[0] == "| strategy | JCT relative to BSP | seeds |"


def on_runtimes(folder: Path, *runs: tuple[str, float, dict[str, Any]]) -> list[str]:
    """Write runs of bsp by name, each with its factor and what else its head says, and return their paths."""
    for name, factor, about in runs:
        story = stretched(bsp_story(plan=()), factor)
        story.meta |= {key: value for key, value in about.items() if key in ("runtime", "calibration")}
        story.meta["job"] |= {key: value for key, value in about.items() if key in ("strategy", "backend")}
        story.write(folder / name)
    return [str(folder / name) for name, _, _ in runs]


LIVE, VIRTUAL = {"runtime": "live", "backend": "torch"}, {"runtime": "virtual", "backend": "none"}
PRICED = "(backend none for torch, calibration local_tcp"


@pytest.mark.parametrize(
    ("runs", "said"),
    [
        (  # of a job that ran on one of the runtimes only there is no line
            [("a", 1.0, LIVE), ("b", 0.8, LIVE | {"runtime": "virtual"}), ("c", 1.0, LIVE | {"strategy": "asp"})],
            ["virtual / live JCT of All wait: 0.800 (1 seed)"],
        ),
        (  # of two cost models, one of whose names has a comma
            [
                ("a", 1.0, LIVE),
                ("b", 0.8, VIRTUAL | {"calibration": "local_tcp 1"}),
                ("c", 0.9, VIRTUAL | {"calibration": "local_tcp 2, extrapolated"}),
            ],
            [
                f"virtual / live JCT of All wait {PRICED} 1): 0.800 (1 seed)",
                f"virtual / live JCT of All wait {PRICED} 2, extrapolated): 0.900 (1 seed)",
            ],
        ),
        (
            [("a", 1.0, LIVE), ("b", 0.8, VIRTUAL)],
            ["virtual / live JCT of All wait (backend none for torch): 0.800 (1 seed)"],
        ),
        (  # where one backend ran on both, others are not compared
            [("a", 1.0, LIVE), ("b", 2.0, LIVE | {"backend": "none"}), ("c", 0.8, VIRTUAL)],
            ["virtual / live JCT of All wait: 0.400 (1 seed)"],
        ),
        ([("a", 1.0, LIVE), ("b", 1.0, LIVE | {"strategy": "asp"})], []),
        ([("a", 1.0, LIVE), ("b", 1.0, VIRTUAL | {"strategy": "asp"})], ["no ratio of virtual to live JCT"]),
    ],
    ids=["same", "cost models", "backends", "best match", "live only", "none of both"],
)
def test_the_same_job_on_both_runtimes_is_compared(
    runs: list[tuple[str, float, dict[str, Any]]], said: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main([*on_runtimes(tmp_path, *runs), "--name", "bsp=All wait"]) == 0
    lines = [line.partition(": no strategy has both")[0] for line in capsys.readouterr().err.splitlines()]
    assert [line for line in lines if line.startswith(("virtual / live", "no ratio"))] == said


def test_what_neither_reaches_is_said(runs: Path, capsys: pytest.CaptureFixture[str]) -> None:
    _, other = rows(capsys, runs, "--by", "tta")
    assert (other["TTA (s)"], other["TTA relative to bsp"]) == ("inf", "")
    main([str(runs), "--by", "tta"])
    assert "never at any seed of both" in capsys.readouterr().out


def test_tables_for_people_have_names_and_csv_has_those_of_configurations(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    named = [str(runs), "--name", "twice_as_fast=Mine & yours"]
    main([*named, "--as", "latex"])
    latex = capsys.readouterr().out
    assert r"Mine \& yours & 3 &" in latex
    assert "bsp" not in latex
    main([*named, "--as", "markdown"])
    assert "| Mine & yours | 3 |" in capsys.readouterr().out
    main(named)
    table = capsys.readouterr().out
    assert "Mine & yours" in table
    assert "relative to BSP" in table
    assert [row["strategy"] for row in rows(capsys, *named)] == ["bsp", "twice_as_fast"]
    for bound in (1, 2):
        story = bsp_story(fields={"bound": bound})
        story.meta["job"]["strategy"] = "ssp"
        story.write(tmp_path / f"{bound}")
    assert main([str(tmp_path), "--as", "markdown", "--name", "ssp bound=2=Two (k=2)"]) == 0
    assert "| Two (k=2) | 1 |" in capsys.readouterr().out


def test_a_page_with_figures(runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main([str(runs), "-o", str(tmp_path / "out"), "--name", "twice_as_fast=My own"]) == 0
    page = (tmp_path / "out" / "report.html").read_text()
    assert "twice_as_fast" not in re.sub(r"<[^>]*>", "", page.partition("Runs</h2>")[0])
    assert "My own" in page
    assert str(tmp_path / "out" / "report.html") in capsys.readouterr().err


def test_sets_of_jobs_are_compared_elsewhere(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    for name in ("meta.json", "cluster.jsonl"):
        (tmp_path / name).write_text("{}")
    assert main([str(tmp_path)]) == 2
    assert "holds sets of jobs, not runs" in capsys.readouterr().err


def learning(folder: Path, name: str, reached_s: float, every_s: float = 0.5, seeds: int = 3) -> None:
    """Runs of a strategy whose target (0.5) is first seen at an evaluation that long after the start."""
    for seed in range(seeds):
        story = bsp_story(seed=seed, plan=(), target=0.5)
        story.meta["job"]["strategy"] = name
        last = story.lines[-1]
        story.lines = [line for line in story.lines[:-1] if line.get("event", {}).get("type") != "Evaluated"]
        for number in range(1, round(8 / every_s)):
            story.evaluated(number * every_s, 0.6 if number * every_s >= reached_s else 0.1)
        story.lines.append({**last, "t": 8.0})
        story.lines = [{**line, "seq": number} for number, line in enumerate(story.lines)]
        story.write(folder / f"{name}_{seed}")


def test_a_table_of_numbers_has_its_words_below_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    learning(tmp_path, "bsp", 4.0, seeds=2)
    learning(tmp_path, "never_50%", 99.0, seeds=2)
    assert main([str(tmp_path), "--by", "tta", "--as", "latex", "--name", "never_50%=[Q&A] #1 ~^{x}"]) == 0
    table, _, notes = capsys.readouterr().out.partition(r"\end{tabular}")
    first, other = [line for line in table.splitlines() if line.endswith(r"\\")][1:]
    assert first == r"BSP & 2 & 4.00 & 0.500 & 1.00 & -- \\"
    name, numbers = other.split(" & ", 1)
    assert name == r"{}[Q\&A] \#1 \textasciitilde{}\textasciicircum{}\{x\}"
    assert numbers == r"2 & $\infty$ & -- & $\infty$ & [$\infty$, $\infty$] \\"
    assert r"$\infty$: half of the runs or more never got there." in notes


def test_the_folder_of_an_experiment_has_its_order_and_names(
    runs: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder = tmp_path / "mine"
    shutil.copytree(runs, folder / "records")
    paths = [folder / "records" / f"{name}_{seed}" for name in ("twice_as_fast", "bsp") for seed in range(3)]
    write_compared(folder, paths, {"twice_as_fast": "Half", "bsp": "All"})
    assert main([str(folder), "--as", "markdown", "--name", "bsp=Mine"]) == 0
    body = capsys.readouterr().out.splitlines()[2:4]
    assert [line.split(" | ")[0] for line in body] == ["| Half", "| Mine"]
    (folder / "compared.json").write_text('{"runs": 3}')
    assert main([str(folder)]) == 2
    assert "compared.json: not what an experiment leaves" in capsys.readouterr().err


def overrunning(folder: Path, name: str, overrun_s: float, seeds: int = 2) -> None:
    """Runs in which worker 2 is later than its device by so much in every iteration."""
    for seed in range(seeds):
        story = bsp_story(seed=seed, plan=())
        story.meta["job"]["strategy"] = name
        for line in story.lines:
            if line.get("event", {}).get("type") == "Arrived" and line["event"]["grad"]["worker"] == 2:
                line["event"]["timings"]["overrun_s"] = overrun_s
        story.write(folder / f"{name}_{seed}")


@pytest.mark.long(like="test_tables_for_people_have_names_and_csv_has_those_of_configurations")
def test_runs_and_pairs_with_warnings_are_marked_in_every_form(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    overrunning(tmp_path, "asp", 0.04)
    overrunning(tmp_path, "bsp", 0.0)
    overrunning(tmp_path, "ssp", 0.001)
    assert main([str(tmp_path), "--as", "latex", "--columns", "ratio", "-o", str(tmp_path / "out")]) == 0
    out, err = capsys.readouterr()
    rows_of = [line for line in out.splitlines() if "SP" in line][1:4]
    assert rows_of == [r"ASP * & 1.00* \\", r"BSP & 1.00 \\", r"SSP & 1.00 \\"]
    assert "* with a run that has a warning." in out
    assert "ASP, 2 of its runs: paced devices could not keep up: 8 of 32 iterations took 0.32 s longer" in err
    page = (tmp_path / "out" / "report.html").read_text()
    assert page.count("ASP *</td>") == 3, "in the table of strategies, and each run"
    assert "paced devices could not keep up" in page
    found = rows(capsys, tmp_path)
    assert [row["runs with warnings"] for row in found] == ["2", "0", "0"]
    assert main([str(tmp_path), "--baseline", "asp", "--as", "markdown", "--columns", "ratio"]) == 0
    assert "| SSP | 1.00* |" in capsys.readouterr().out, "the baseline of its pairs has a warning"
