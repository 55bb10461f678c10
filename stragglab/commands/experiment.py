"""Run what is missing of an experiment, draw its figure, and compare its numbers with the paper's claims.

python run.py experiment antdt_table3               # runs, figure, claims, its section of docs/paper/antdt.md
python run.py experiment 'antdt_fig1?' --seeds 0,1  # several, with fewer seeds; a partial run changes no page
python run.py experiment antdt_table3 --only system=bsp --only intensity=0.1,0.8
python run.py experiment antdt_table3 --redraw      # only from existing records
python run.py experiment '*_*' --virtual --fresh    # all virtual runs of papers, from the checked-out commit
python run.py experiment --list
python run.py experiment my_experiment project=DIR      # one of your own project (docs/your_own.md)

Descriptions are in conf/experiment/, here and in your own project. One that belongs to no paper has no claims and no
page, but a comparison: a table (also as table.tex, table.md and table.csv), figures, report.html. --paper column draws
its figure for a paper, too (out/experiments/NAME/paper: PDF, SVG, PNG). Records go to out/experiments/NAME/records.
Existing records are not made again unless their settings, their cost model or the files that their strategies were
fitted to have changed since, so the same command continues after an interruption. Changes of the code are not detected:
--fresh repeats records of other commits or with uncommitted changes; --again repeats everything. All records are made
before the first page is written, since a page is a change, too. Virtual runs are made in forks, one per core (--jobs),
live or timed ones one after another: leave the machine idle meanwhile. The exit code is 0 for a report (including one
with missed claims), 1 if a run failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from importlib import import_module
from pathlib import Path

import pandas as pd
from rich.console import Console

from analysis.claims.ledger import LedgerError, load_ledger
from analysis.claims.pages import load_pages
from analysis.experiments.page import HEADS, QUESTIONS, compose, front, row, section, sections
from analysis.experiments.results import Results, verdict_frame
from analysis.experiments.spec import Spec, SpecError, cells, load_spec, narrowed
from analysis.figures.names import named, shown_name
from analysis.figures.page import drawn_as
from analysis.files import write_file
from analysis.markup import FOR_PEOPLE, FORMATS
from analysis.reports.columns import NUMBERS
from analysis.reports.comparing import compared, sheet
from analysis.reports.gathering import gather_runs
from analysis.reports.report import write_comparison
from runtime.config import project
from runtime.config.checking import nearest
from runtime.errors import ConfigError, refuse
from runtime.house import INSTALLED, NAME, ROOT, module_name
from runtime.run.probing import refuse_unwritable_folder
from stragglab.commands.compare import TEXTS
from stragglab.grids.answering import answer
from stragglab.grids.experiments import (
    collect,
    commit_of,
    folder_of,
    known_specs,
    make_records,
    names_in_records,
    of_paper,
    read_records,
    tabulated,
)
from stragglab.grids.grid import GRID, JobFailed, Runner, record_of
from stragglab.grids.of_experiment import FILE, write_compared
from stragglab.grids.times import TIMES, time_cells
from stragglab.tables.predictor_rates import rates_of
from stragglab.terminal.lists import number_of, numbers_of
from stragglab.terminal.paper_figures import add_paper, form_of
from stragglab.terminal.sheets import print_sheet

OUT = Path("out/experiments")
PAGES = OUT / "paper" if INSTALLED else ROOT / "docs" / "paper"
ENDINGS = {"latex": "tex", "markdown": "md"}


def main(argv: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    """Run and report; returns the exit code (see the module)."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> None:
        if asked.list:
            show_list(console)
            return
        specs = asked_for(asked)
        asked.commit = None if asked.redraw else commit_of(asked, console)
        if failed := run_all(specs, asked, console, runner):
            raise JobFailed("; ".join(f"{name}: {error}" for name, error in failed.items()))

    return answer("experiment", lambda: parse(words), work, SpecError, LedgerError)


def run_all(
    specs: dict[str, Spec], asked: argparse.Namespace, console: Console, runner: Runner | None
) -> dict[str, JobFailed]:
    """Make all records, then all pages; experiments that failed get no page."""
    failed: dict[str, JobFailed] = {}
    for name, spec in specs.items():
        if not asked.redraw and spec.recorded:
            try:
                make_records(spec, asked, console, runner)
            except JobFailed as error:
                failed[name] = error
    for name, spec in specs.items():
        if name not in failed:
            report_one(spec, asked, console)
    return failed


def asked_for(asked: argparse.Namespace) -> dict[str, Spec]:
    """The experiments, by name, or the parts of them; raises :class:`ConfigError` if nothing is left."""
    known = known_specs()
    whole = {name: load_spec(known[name]) for name in asked.names}
    kept = {name: spec for name, spec in whole.items() if asked.kind in (None, "live" if spec.live else "virtual")}
    if not kept:
        raise ConfigError(f"--{asked.kind}: none of {', '.join(whole)} is")
    for spec in kept.values():
        rates_of(spec)  # refused before the first run, not after the last
    return {name: narrowed(spec, asked.seeds, asked.only) for name, spec in kept.items()}


def report_one(spec: Spec, asked: argparse.Namespace, console: Console) -> None:
    """Process the records of one experiment: figure, verdicts, page."""
    out = folder_of(spec, asked)
    partial = not of_paper(spec) or spec != load_spec(known_specs()[spec.name])
    if spec.table is not None:
        results = tabulated(spec)
    elif spec.times_only:
        results = Results(spec=spec, runs=time_cells(spec, out, asked, console), metas=[])
    else:
        runs, due = read_records(spec, out), len(list(cells(spec)))
        if len(runs) < due:  # with --redraw alone: else they have been made, or the experiment has failed
            partial = True
            said = f"{spec.name}: {due - len(runs)} of {due} records are missing, so no page is changed"
            console.print(said, soft_wrap=True)
        results = collect(spec, runs)
    report(results, asked, out, console, partial=partial)
    if not of_paper(spec) and spec.recorded and not spec.clusters:
        compare_records(spec, out, console)


def report(results: Results, asked: argparse.Namespace, out: Path, console: Console, *, partial: bool) -> None:
    """Write the figure with its CSV and the verdicts; a complete experiment also updates the paper's page."""
    spec = results.spec
    pages = None if partial else page_of(asked.pages, spec.paper)
    folder = out if pages is None else pages.parent / "images"
    picture = draw(results, folder / f"{spec.name}.png") if spec.shown else None
    verdicts = verdict_frame(results)
    write_file(out / "runs.csv", results.runs.to_csv(index=False))
    if len(verdicts):
        write_file(folder / f"{spec.name}_claims.csv", verdicts.to_csv(index=False))
    show(results, console)
    if pages is not None and picture is not None:
        write_page(results, pages, picture)
    if picture is None:
        console.print(
            f"no figure: {spec.name} hides {', '.join(spec.figure.hide)}, and this part has no other", soft_wrap=True
        )
    elif asked.paper is not None:
        with drawn_as(form_of(asked.paper)):
            console.print(str(draw(results, out / "paper" / f"{spec.name}.pdf")), soft_wrap=True)
    for line in (out / "runs.csv", picture, pages):
        if line is not None:
            console.print(str(line), soft_wrap=True)


def compare_records(spec: Spec, out: Path, console: Console) -> None:
    """What ``compare`` says of the records: the table here and as files, figures, and a page."""
    paths = [path for cell in cells(spec) if (path := record_of(out, cell.name)).exists()]
    gathered, names = gather_runs(paths), names_in_records(spec)
    write_compared(out, paths, names)
    rows = compared(gathered.rows, gathered.baseline, "jct")
    found = sheet(rows, gathered.baseline, "jct", names)
    print_sheet(console, found, f"job completion time, relative to {shown_name(gathered.baseline, names)}", TEXTS)
    for line in (*found.notes, *gathered.warnings):
        console.print(line, soft_wrap=True)
    for name, form in FORMATS.items():
        there = sheet(rows, gathered.baseline, "jct", names if name in FOR_PEOPLE else None, NUMBERS)
        console.print(str(write_file(out / f"table.{ENDINGS.get(name, name)}", form(*there))), soft_wrap=True)
    with named(names):
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


def write_page(results: Results, page: Path, picture: Path) -> None:
    """Replace the experiment's section and update the totals."""
    spec, about = results.spec, load_pages()[results.spec.paper]
    parts = sections(page.read_text()) if page.exists() else {}
    link, command = picture.relative_to(page.parent).as_posix(), f"make figures EXPERIMENT={spec.name}"
    parts[spec.name] = section(results, link, command)
    ledger = list(load_ledger(spec.paper).values())
    write_file(page, compose(about.title, about.intro, parts, verdicts_of(page, spec.paper), ledger))
    papers = [
        (
            one.title,
            page_of(page.parent, paper).name,
            list(load_ledger(paper).values()),
            verdicts_of(page, paper),
        )
        for paper, one in load_pages().items()
        if page_of(page.parent, paper).exists()
    ]
    write_file(page.parent / "README.md", front(papers))


def page_of(folder: Path, paper: str) -> Path:
    """Where the page of a paper is, by the name of its ledger of claims."""
    return folder / f"{load_pages()[paper].name}.md"


def verdicts_of(page: Path, paper: str) -> pd.DataFrame:
    """The latest verdicts of all experiments of a paper; of a claim that has moved, that of its present one."""
    found = [pd.read_csv(path) for path in sorted((page.parent / "images").glob(f"{paper}_*_claims.csv"))]
    none = pd.DataFrame(columns=["id", "side", "size", "runtime", "experiment"])
    every = pd.concat([frame for frame in found if len(frame)] or [none], ignore_index=True)
    answering = {name: claim.experiment for name, claim in load_ledger(paper).items()}
    return every[every["id"].map(answering) == every["experiment"]]


def show_list(console: Console) -> None:
    """Print a line about every experiment: name, number of runs, their kind, what of the paper it answers."""
    for name, path in known_specs().items():
        spec = load_spec(path)
        count, kind = len(list(cells(spec))), "computed" if spec.table else "live" if spec.live else "virtual"
        console.print(f"{name:24} {count:4} runs, {kind:8} {spec.where}: {spec.title}", soft_wrap=True)


# ---- the command line -----------------------------------------------------------------------------------------------


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} experiment", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, or shell patterns such as 'antdt_*'")
    parser.add_argument("--list", action="store_true", help="list all experiments")
    parser.add_argument("--seeds", metavar="LIST", help="use these seeds instead of the experiment's, such as 0,1")
    parser.add_argument("--only", metavar="AXIS=LEVELS", action="append", default=[], help="a part of the experiment")
    parser.add_argument("--redraw", action="store_true", help="from existing records; run nothing")
    parser.add_argument("--again", action="store_true", help="repeat every record, e.g. after a change of the code")
    parser.add_argument("--fresh", action="store_true", help="repeat every record that is not of this very commit")
    parser.add_argument("--jobs", metavar="N", help="virtual runs at a time (default: one per core)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--virtual", dest="kind", action="store_const", const="virtual", help="only virtual ones")
    kinds.add_argument("--live", dest="kind", action="store_const", const="live", help="only those with live runs")
    parser.add_argument("-o", "--out", metavar="DIR", type=Path, default=OUT, help=f"record directory (default: {OUT})")
    parser.add_argument("--pages", metavar="DIR", type=Path, help=f"pages of papers (default: {PAGES})")
    add_paper(parser)
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_args(list(words))
    asked.pages = (asked.pages or PAGES).absolute()
    refuse_unwritable_folder("--pages", asked.pages)
    refuse_unwritable_folder("-o", asked.out)
    known = known_specs()
    asked.names = [name for pattern in asked.names for name in expanded(pattern, known)]
    for name in asked.names:
        ours = (*GRID, TIMES, "runs.csv", "table.*", FILE, "comparison", "paper", f"{name}.*", f"{name}_claims.csv")
        refuse_unwritable_folder("-o", asked.out / name, ours, (*GRID, TIMES, "runs.csv"))
    if not asked.names and not asked.list:
        refuse(f"no experiment named; there are {', '.join(known)}")
    asked.seeds = numbers_of("seeds", asked.seeds) if asked.seeds is not None else None
    asked.jobs = number_of("jobs", asked.jobs, least=1) if asked.jobs is not None else None
    asked.only = dict(levels_of(text) for text in asked.only)
    return asked


def expanded(pattern: str, known: dict[str, Path]) -> list[str]:
    """The names of the experiments that match a pattern."""
    if "=" in pattern:
        refuse(f"{pattern}: an experiment has its settings in conf/experiment/NAME.yaml; --only chooses a part of it")
    found = [name for name in known if Path(name).match(pattern)]
    if not found:
        near = nearest(pattern, known)
        there = f"did you mean {near}? (--list names all)" if near else f"there are {', '.join(known)}"
        own = "" if project.conf() else "; project=DIR adds those of your own project"
        refuse(f"{pattern}: no such experiment; {there}{own}")
    return found


def levels_of(text: str) -> tuple[str, list[str]]:
    """Parse ``axis=level,level`` into the axis and its levels."""
    axis, sign, levels = text.partition("=")
    if not sign or not levels.strip(", "):
        refuse(f"--only {text}: must be an axis and some of its levels, such as system=bsp,antdt_nd")
    return axis, [level.strip() for level in levels.split(",") if level.strip()]
