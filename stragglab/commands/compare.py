"""Compare any runs: which strategy is faster, and do these seeds show it?

python run.py compare runs/2024-11-21_08-00-00_sweep               # every run below a directory
python run.py compare runs/a runs/b runs/c --baseline asp          # three runs, relative to asp
python run.py compare runs/sweep --by tta --as latex > table.tex   # time to the target, as LaTeX (csv, markdown)
python run.py compare runs/sweep --name my_strategy='My method'     # a name in the table for a strategy, or a case
python run.py compare runs/sweep --as latex --columns time,ratio,interval    # these columns, in this order
python run.py compare runs/sweep -o out/comparison                 # with figures and a page, too
python run.py compare runs/live runs/virtual                       # the same jobs on both clocks: do they agree?

Times are medians over the seeds. Runs of the same seed and plan are paired: a ratio is the median over the pairs. A
verdict is given where the 95 % interval of the paired ratios (Student's t of their logarithms) excludes 1, or lies
within 1 % of it. Otherwise the table says how many seeds an effect and a spread like these would need (a paired t test
with a power of 80 %). A run that never ended counts as infinitely long. Over several cases (stragglers, workloads,
sizes), the profile score says how often and how nearly a strategy is the best: 1 is always, 0 is never within 4 times
the best. For jobs that ran both live and on the virtual clock, a line has the ratio of the two.

The time to the target (--by tta) is only known to the evaluation, so it may be too long, by at most the TTA error, the
time since the previous evaluation (column "step"); times that differ by less are not distinguished. A star marks a
strategy with a run that did not do everything that its settings asked, such as a run whose paced devices could not keep
up; a line gives the reason.

Cells of CSV, Markdown and LaTeX have only numbers, a dash (in CSV nothing) for missing ones, and no verdict unless
--columns asks for it; remarks follow below the table (for CSV on the terminal). CSV has the names of configurations,
other formats have readable names. Runs are in the order of the command line, runs below one directory in its order; the
folder of an experiment has the experiment's order and names. The exit code is 0, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from math import isnan
from pathlib import Path

from analysis.figures.names import shown_name, use_names
from analysis.markup import FOR_PEOPLE, FORMATS
from analysis.records.load import RecordError, find_clusters, find_runs
from analysis.reports.columns import COLUMNS, IN_WORDS, NUMBERS, Name, Quantity
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.importing import importing
from runtime.record.progress import counted
from runtime.run.probing import refuse_unwritable_folder
from stragglab.grids.of_experiment import COMPARED, in_order, read_compared
from stragglab.terminal.finding import records_below
from stragglab.terminal.naming import add_names

KEPT = "the records are as they were; the same command starts again"
"""Printed after a signal."""


def main(argv: Sequence[str] | None = None) -> int:
    """Compare what is named; returns the exit code (see the module)."""
    try:
        arguments = _parser().parse_args(argv)
        refuse_unwritable_folder("-o", arguments.out, COMPARED, ("comparison.csv", "figures"))
        return compare(records_below(arguments.dirs, find), arguments)
    except (ConfigError, RecordError) as error:
        return print_error("compare", error)


def compare(paths: Sequence[Path], arguments: argparse.Namespace) -> int:
    """Print the comparison of these runs; returns the exit code."""
    with importing():
        from rich.console import Console

        from analysis.reports.comparing import comparison_rows, sheet
        from analysis.reports.gathering import gather_runs
        from analysis.reports.runtimes import runtime_lines
        from stragglab.terminal.sheets import TEXTS, print_sheet

    left = [one for folder in arguments.dirs if (one := read_compared(folder)) is not None]
    own = {label: name for one in reversed(left) for label, name in one.names.items()} | dict(arguments.names)
    gathered = gather_runs(counted(paths, len(paths), "reading records"), arguments.baseline)
    runs, baseline = gathered.rows, gathered.baseline
    remarks = [f"left out: {reason}" for reason in gathered.skipped]
    quantity: Quantity = arguments.by
    if quantity == "tta" and all(isnan(row["tta_s"]) for row in runs):
        raise ConfigError("--by tta: no run has a target (workload.target); compare by jct")
    names = own if arguments.form in ("table", *FOR_PEOPLE) else None
    columns = arguments.columns or (COLUMNS if arguments.form == "table" else NUMBERS)
    found = sheet(comparison_rows(runs, baseline, quantity), baseline, quantity, names, columns)
    with use_names(own):
        remarks += gathered.warnings
        remarks += runtime_lines(runs, quantity)
        if arguments.out is not None:
            from analysis.reports.report import write_comparison

            remarks.append(str(write_comparison(gathered, arguments.out).attrs["report"]))
    if arguments.form == "table":
        title = f"{IN_WORDS[quantity]} of {len(runs)} runs, relative to {shown_name(baseline, own)}"
        print_sheet(Console(highlight=False), found, title, TEXTS)
        remarks = [*found.notes, *remarks]
    else:
        sys.stdout.write(FORMATS[arguments.form](*found))
        remarks = [*(found.notes if arguments.form not in FOR_PEOPLE else ()), *remarks]
    for remark in remarks:
        print(remark, file=sys.stderr)
    return 0


def find(folder: Path) -> list[Path]:
    """Every run at or below a directory, the runs of an experiment in its order.

    Raises:
        ConfigError: there are only sets of jobs.
    """
    found = find_runs(folder, of_clusters=False)
    if not found and find_clusters(folder):
        raise ConfigError(f"{folder}: holds sets of jobs, not runs; a sweep (-m) of them is compared at its end")
    return in_order(found, folder, read_compared(folder))


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dirs", metavar="DIR", type=Path, nargs="+", help="a run's directory, or one that holds runs")
    parser.add_argument(
        "--baseline", metavar="STRATEGY", help="the strategy that others are relative to (default: bsp, or the first)"
    )
    parser.add_argument(
        "--by", choices=["jct", "tta"], default="jct", help="job completion time, or time to the target"
    )
    parser.add_argument("--as", dest="form", choices=["table", *FORMATS], default="table", help="form of the output")
    parser.add_argument(
        "--columns",
        metavar="LIST",
        type=_columns,
        help=f"some of {','.join(COLUMNS)}, in this order (default: all with contents; a verdict only in a table)",
    )
    add_names(parser)
    parser.add_argument("-o", "--out", metavar="DIR", type=Path, help="write comparison, figures and a page there, too")
    parser.error = refuse  # type: ignore[method-assign]
    return parser


def _columns(text: str) -> list[Name]:
    found = [part.strip() for part in text.split(",")]
    if wrong := [name for name in found if name not in COLUMNS]:
        raise argparse.ArgumentTypeError(f"{wrong[0]}: must be some of {', '.join(COLUMNS)}, such as time,ratio")
    return list(dict.fromkeys(found))  # type: ignore[arg-type]
