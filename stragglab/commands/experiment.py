"""Make the missing runs of an experiment, draw its figure, and compare its numbers with the paper's claims.

python run.py experiment antdt_table3               # runs, figure, claims, its section of docs/paper/antdt.md
python run.py experiment 'antdt_fig1?' --seeds 0,1  # several, with fewer seeds; a partial run changes no page
python run.py experiment detectors-live --seeds hidden    # with a seed that is drawn now, and is nobody's choice
python run.py experiment antdt_table3 --only system=bsp --only intensity=0.1,0.8
python run.py experiment antdt_table3 --redraw      # only from existing records
python run.py experiment '*_*' --virtual --fresh    # all virtual runs of papers, from the checked-out commit
python run.py experiment antdt_live_ratios --minutes 60   # missing rows, as many as an hour allows
python run.py experiment --list
python run.py experiment my_experiment project=DIR      # an experiment of your own project (docs/your_own.md)

Descriptions are in conf/experiment/, here and in your own project. An experiment that belongs to no paper has no claims
and no page, but a comparison: a table (also as table.tex, table.md and table.csv), figures, report.html. --paper column
draws its figure for a paper, too (out/experiments/NAME/paper: PDF, SVG, PNG).

Records go to out/experiments/NAME/records. Existing records are made again only if their settings, their cost model or
the files that their strategies were fitted to have changed since, so the same command continues after an interruption.
Changes of the code are not detected: --fresh repeats records of other commits or with uncommitted changes; --again
repeats everything. All records are made before the first page is written, since a page is a change, too. Virtual runs
are made in forks, one per core (--jobs), live or timed runs one after another: leave the machine idle meanwhile. With
keep_rows: true, each run leaves a row next to the pages; --minutes makes missing rows; --fresh repeats rows of other
code. The exit code is 0 for a report (including one with missed claims), 1 if a run failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from secrets import randbelow

from rich.console import Console

from analysis.claims.ledger import LedgerError
from analysis.experiments.spec import Spec, SpecError, cells, load_spec, narrow
from analysis.files import write_file
from runtime.config import project
from runtime.config.checking import nearest
from runtime.errors import ConfigError, refuse
from runtime.house import INSTALLED, NAME, ROOT
from runtime.run.probing import refuse_unwritable_folder
from stragglab.grids.answering import answer
from stragglab.grids.experiment_pages import run_all
from stragglab.grids.experiments import SCORES, commit_of, folder_of, known_specs
from stragglab.grids.grid import GRID, JobFailed, Runner
from stragglab.grids.of_experiment import FILE
from stragglab.grids.times import TIMES
from stragglab.tables.predictor_rates import rates_of
from stragglab.terminal.lists import number_of, numbers_of
from stragglab.terminal.paper_figures import add_paper

OUT = Path("out/experiments")
PAGES = OUT / "paper" if INSTALLED else ROOT / "docs" / "paper"
HIDDEN, SEEDS = "hidden", 2**31
"""The word that stands for a seed that is drawn below this number, and the file that keeps it."""


def main(argv: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    """Run and report; returns the exit code (see the module)."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> None:
        if asked.list:
            show_list(console)
            return
        specs = specs_asked_for(asked)
        recorded = any(spec.has_records or spec.times_only for spec in specs.values())
        asked.commit = None if asked.redraw or not recorded else commit_of(asked, console)
        if failed := run_all(specs, asked, console, runner):
            raise JobFailed("; ".join(f"{name}: {error}" for name, error in failed.items()))

    return answer("experiment", lambda: parse(words), work, SpecError, LedgerError)


def specs_asked_for(asked: argparse.Namespace) -> dict[str, Spec]:
    """The experiments, by name, or the parts of them; raises :class:`ConfigError` if nothing is left."""
    known = known_specs()
    whole = {name: load_spec(known[name]) for name in asked.names}
    kept = {name: spec for name, spec in whole.items() if asked.kind in (None, "live" if spec.live else "virtual")}
    if not kept:
        raise ConfigError(f"--{asked.kind}: none of {', '.join(whole)} is")
    if asked.minutes is not None and (other := [name for name, spec in kept.items() if not spec.keep_rows]):
        raise ConfigError(f"--minutes: is of experiments with keep_rows; {other[0]} is none")
    for spec in kept.values():
        rates_of(spec)  # refused before the first run, not after the last
    return {name: narrow(spec, seeds_of(spec, asked), asked.only) for name, spec in kept.items()}


def seeds_of(spec: Spec, asked: argparse.Namespace) -> list[int] | None:
    """The seeds instead of the experiment's; a hidden one is drawn once, so that the same command continues."""
    if asked.seeds != HIDDEN:
        return None if asked.seeds is None else numbers_of("seeds", asked.seeds)
    kept = folder_of(spec, asked) / HIDDEN
    if not kept.exists():
        write_file(kept, f"{randbelow(SEEDS)}\n")
    return numbers_of("seeds", kept.read_text())


def show_list(console: Console) -> None:
    """Print a line about every experiment: name, number of runs, their kind, what of the paper it answers."""
    for name, path in known_specs().items():
        spec = load_spec(path)
        count, kind = len(list(cells(spec))), "computed" if spec.table else "live" if spec.live else "virtual"
        console.print(f"{name:24} {count:4} runs, {kind:8} {spec.where}: {spec.title}", soft_wrap=True)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} experiment", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("names", nargs="*", metavar="NAME", help="experiments, or shell patterns such as 'antdt_*'")
    parser.add_argument("--list", action="store_true", help="list all experiments")
    parser.add_argument(
        "--seeds", metavar="LIST", help="use these seeds instead of the experiment's, such as 0,1, or hidden"
    )
    parser.add_argument("--only", metavar="AXIS=LEVELS", action="append", default=[], help="a part of the experiment")
    parser.add_argument("--redraw", action="store_true", help="use existing records; run nothing")
    parser.add_argument("--again", action="store_true", help="repeat every record, e.g. after a change of the code")
    parser.add_argument("--fresh", action="store_true", help="repeat every record that is not of this commit")
    parser.add_argument("--minutes", metavar="N", help="minutes in which to make missing rows (keep_rows: true)")
    parser.add_argument("--jobs", metavar="N", help="virtual runs at a time (default: one per core)")
    kinds = parser.add_mutually_exclusive_group()
    kinds.add_argument("--virtual", dest="kind", action="store_const", const="virtual", help="only virtual experiments")
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
    asked.names = [name for pattern in asked.names for name in expand(pattern, known)]
    for name in asked.names:
        ours = (
            *GRID,
            SCORES,
            TIMES,
            HIDDEN,
            "runs.csv",
            "table.*",
            FILE,
            "comparison",
            "images",
            "paper",
            f"{name}.*",
            f"{name}_claims.csv",
        )
        refuse_unwritable_folder("-o", asked.out / name, ours, (*GRID, SCORES, TIMES, HIDDEN, "runs.csv"))
    if not asked.names and not asked.list:
        refuse(f"no experiment named; there are {', '.join(known)}")
    asked.jobs = number_of("jobs", asked.jobs, least=1) if asked.jobs is not None else None
    asked.minutes = number_of("minutes", asked.minutes, least=1) if asked.minutes is not None else None
    asked.only = dict(levels_of(text) for text in asked.only)
    return asked


def expand(pattern: str, known: dict[str, Path]) -> list[str]:
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
