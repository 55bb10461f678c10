"""The reports of experiments: figures, comparisons, and pages of papers."""

from __future__ import annotations

import argparse
from importlib import import_module
from pathlib import Path

import pandas as pd
from rich.console import Console

from analysis.experiments.numbers import numbers
from analysis.experiments.page import HEADS, QUESTIONS, page_of, row, write_page
from analysis.experiments.results import Results, verdict_frame
from analysis.experiments.spec import AGREEMENT, Spec, cells, find_specs, load_spec
from analysis.figures.names import shown_name, use_names
from analysis.figures.page import drawn_as
from analysis.files import write_file
from analysis.markup import FOR_PEOPLE, FORMATS, to_csv
from analysis.reports.columns import NUMBERS
from analysis.reports.comparing import comparison_rows, sheet
from analysis.reports.gathering import gather_runs
from analysis.reports.report import write_comparison
from runtime.house import module_name
from stragglab.grids.experiments import (
    SPECS,
    collect,
    folder_of,
    known_specs,
    make_records,
    names_in_records,
    of_paper,
    read_records,
    results_of_table,
)
from stragglab.grids.fidelity import compare_clocks
from stragglab.grids.grid import JobFailed, Runner, record_of
from stragglab.grids.of_experiment import write_compared
from stragglab.grids.rows import make_rows, results_that_count
from stragglab.grids.times import time_cells
from stragglab.terminal.paper_figures import form_of
from stragglab.terminal.sheets import TEXTS, print_sheet

ENDINGS = {"latex": "tex", "markdown": "md"}


def run_all(
    specs: dict[str, Spec], asked: argparse.Namespace, console: Console, runner: Runner | None
) -> dict[str, JobFailed]:
    """Make all records and times, then all pages; experiments of which a run was killed get no page."""
    failed, times = make_all(specs, asked, console, runner)
    for name, spec in specs.items():
        if name not in failed or spec.keep_rows:
            report_one(spec, asked, console, times.get(name))
    for name, frame in times.items():
        if count := int((frame["outcome"] == "failed").sum()):
            failed[name] = JobFailed(f"{count} of {len(frame)} runs failed")
    return failed


def make_all(
    specs: dict[str, Spec], asked: argparse.Namespace, console: Console, runner: Runner | None
) -> tuple[dict[str, JobFailed], dict[str, pd.DataFrame]]:
    """Make all records, times and rows; returns the failures, and the times, by experiment."""
    failed: dict[str, JobFailed] = {}
    times: dict[str, pd.DataFrame] = {}
    for name, spec in specs.items():
        try:
            if spec.times_only:
                times[name] = time_cells(spec, folder_of(spec, asked), asked, console)
            elif not asked.redraw and spec.has_records:
                make_records(spec, asked, folder_of(spec, asked), console, runner)
        except JobFailed as error:
            failed[name] = error
    kept = [] if asked.minutes is None else [spec for spec in specs.values() if spec.keep_rows]
    return failed | (make_rows(kept, asked, console, runner) if kept else {}), times


def report_one(spec: Spec, asked: argparse.Namespace, console: Console, times: pd.DataFrame | None) -> None:
    """Process the records, or the times, of one experiment: figure, verdicts, page."""
    out = folder_of(spec, asked)
    if spec.figure.kind == AGREEMENT:
        command = f"python run.py experiment {spec.name}"
        results = compare_clocks(spec, read_records(spec, out), out / f"{spec.name}.md", command, console)
        draw_for_paper(results, asked, out, console)
        return
    whole = spec == load_spec(known_specs()[spec.name])
    partial = not (whole and of_paper(spec))
    if spec.table is not None:
        results = results_of_table(spec)
    elif spec.keep_rows:
        found, seeds = results_that_count(spec, asked)
        whole = whole and seeds
        if found is None:
            console.print(f"{spec.name}: no run has a row that counts, so there is nothing to show", soft_wrap=True)
            return
        if not seeds:
            partial = True
            console.print(f"{spec.name}: with no seed all runs have a row, so no page is changed", soft_wrap=True)
        results = found
    elif times is not None:
        results = Results(spec=spec, runs=times, metas=[])
    else:
        runs, due = read_records(spec, out), len(list(cells(spec)))
        if len(runs) < due:  # with --redraw alone: else they have been made, or the experiment has failed
            partial = True
            said = f"{spec.name}: {due - len(runs)} of {due} records are missing, so no page is changed"
            console.print(said, soft_wrap=True)
        results = collect(spec, runs, out)
    pictures = out if partial else asked.pages / "images"
    if whole and spec.keep_rows and not of_paper(spec) and spec.name in find_specs(SPECS):
        pictures = asked.pages.parent / "images"  # of no page of a paper, but as lasting as its rows
    report(results, asked, out, console, pictures, partial=partial)
    if not of_paper(spec) and spec.has_records and not spec.clusters:
        compare_records(spec, out, console)


def report(
    results: Results, asked: argparse.Namespace, out: Path, console: Console, folder: Path, *, partial: bool
) -> None:
    """Write the figure with its CSV and the verdicts to ``folder``; a complete one also updates its paper's page."""
    spec = results.spec
    pages = None if partial else page_of(asked.pages, spec.paper)
    picture = draw(results, folder / f"{spec.name}.png") if spec.shown_levels else None
    verdicts = verdict_frame(results)
    write_file(out / "runs.csv", results.runs.to_csv(index=False))
    claims = folder / f"{spec.name}_claims.csv"
    if len(verdicts):
        write_file(claims, verdicts.to_csv(index=False))
    else:
        claims.unlink(missing_ok=True)
    show(results, console)
    if pages is not None and picture is not None:
        heads, rows = numbers(results)
        if rows:
            write_file(folder / f"{spec.name}_numbers.csv", to_csv(heads, rows))
        write_page(results, pages, picture)
    if picture is None:
        console.print(
            f"no figure: {spec.name} hides {', '.join(spec.figure.hide)}, and this part has no other", soft_wrap=True
        )
    else:
        draw_for_paper(results, asked, out, console)
    for line in (out / "runs.csv", picture, pages):
        if line is not None:
            console.print(str(line), soft_wrap=True)


def draw_for_paper(results: Results, asked: argparse.Namespace, out: Path, console: Console) -> None:
    """Draw the figure in the form that was asked for, if any was."""
    if asked.paper is not None:
        with drawn_as(form_of(asked.paper)):
            console.print(str(draw(results, out / "paper" / f"{results.spec.name}.pdf")), soft_wrap=True)


def compare_records(spec: Spec, out: Path, console: Console) -> None:
    """Compare the records: print the table and write it with figures and a page."""
    paths = [path for cell in cells(spec) if (path := record_of(out, cell.name)).exists()]
    gathered, names = gather_runs(paths), names_in_records(spec)
    write_compared(out, paths, names)
    rows = comparison_rows(gathered.rows, gathered.baseline, "jct")
    found = sheet(rows, gathered.baseline, "jct", names)
    print_sheet(console, found, f"job completion time, relative to {shown_name(gathered.baseline, names)}", TEXTS)
    for line in (*found.notes, *gathered.warnings):
        console.print(line, soft_wrap=True)
    for name, form in FORMATS.items():
        there = sheet(rows, gathered.baseline, "jct", names if name in FOR_PEOPLE else None, NUMBERS)
        console.print(str(write_file(out / f"table.{ENDINGS.get(name, name)}", form(*there))), soft_wrap=True)
    with use_names(names):
        console.print(str(write_comparison(gathered, out / "comparison").attrs["report"]), soft_wrap=True)


def draw(results: Results, path: Path) -> Path:
    """Draw the figure of this kind: a module of ``analysis.figures.experiment`` with ``draw(path, results)``."""
    module = import_module(module_name(f"analysis.figures.experiment.{results.spec.figure.kind}"))
    drawn: Path = module.draw(path, results)
    return drawn


def show(results: Results, console: Console) -> None:
    """Print the claims as lines, since a terminal is too narrow for the table, and warnings."""
    for claim, ours, verdict in results.answers:
        name, paper, found, *_ = row(claim, ours, verdict)
        words = ", ".join(f"{each} {word}" for each, word in zip(QUESTIONS, verdict, strict=True) if word)
        console.print(f"  {words}: {name}: {HEADS[1]} {paper}, {HEADS[2]} {found}", soft_wrap=True)
    for line in results.warnings:
        console.print(f"  warning: {line}", soft_wrap=True)
