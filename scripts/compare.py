"""Compare any runs: which strategy is faster, and do these seeds show it?

python run.py compare runs/2024-11-21_08-00-00_sweep               # every run below a directory
python run.py compare runs/a runs/b runs/c --baseline asp          # these, relative to asp
python run.py compare runs/sweep --by tta --as latex > table.tex   # time to the target, as LaTeX (csv, markdown)
python run.py compare runs/sweep --name my_strategy='My method'     # what the table calls a strategy, or a case
python run.py compare runs/sweep -o out/comparison                 # with figures and a page, too
python run.py compare runs/live runs/virtual                       # the same jobs on both clocks: do they agree?

Times are medians over the seeds. Runs of the same seed and plan are paired: a ratio is the median over the pairs. A
verdict is given where the 95 % interval of the paired ratios (Student's t of their logarithms) excludes 1, or lies
within 1 % of it; else it says how many seeds an effect and a spread like these would need (a paired t test with a power
of 80 %). A run that never ended counts as infinitely long. Over several cases (stragglers, workloads, sizes), the
profile score says how often and how nearly a strategy is the best: 1 is always, 0 is never within 4 times the best. Of
jobs that ran both live and on the virtual clock a line has the ratio of the two. CSV has the names of configurations,
other forms those for people. The exit code is 0, or 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from analysis.figures.names import named, shown_name
from analysis.markup import FOR_PEOPLE, FORMATS
from analysis.records.load import RecordError, find_clusters, find_runs
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.importing import importing
from runtime.record.progress import counted
from runtime.run.probing import refuse_unwritable_folder
from runtime.run.streams import run_program
from scripts.common.finding import records_below
from scripts.common.naming import add_names

if TYPE_CHECKING:
    from analysis.reports.comparing import Quantity

KEPT = "the records are as they were; the same command starts again"
"""What a signal leaves."""

TEXTS = ("case", "strategy", "verdict")
"""Columns of words."""


def main(argv: Sequence[str] | None = None) -> int:
    """Compare what is named; returns the exit code (see the module)."""
    try:
        arguments = _parser().parse_args(argv)
        refuse_unwritable_folder("-o", arguments.out)
        return compare(records_below(arguments.dirs, find), arguments)
    except (ConfigError, RecordError) as error:
        return print_error("compare", error)


def compare(paths: Sequence[Path], arguments: argparse.Namespace) -> int:
    """Print the comparison of these runs; returns the exit code."""
    with importing():
        from rich.console import Console

        from analysis.reports.comparing import IN_WORDS, compared, sheet
        from analysis.reports.report import gather_runs, write_comparison
        from analysis.reports.runtimes import runtime_lines
        from scripts.common.sheets import print_sheet

    gathered = gather_runs(counted(paths, len(paths), "reading records"), arguments.baseline)
    runs, baseline = gathered.table, gathered.baseline
    remarks = [*(f"left out: {reason}" for reason in gathered.skipped), *gathered.warnings]
    quantity: Quantity = arguments.by
    if quantity == "tta" and runs["tta_s"].isna().all():
        raise ConfigError("--by tta: no run has a target (workload.target); compare by jct")
    names = dict(arguments.names) if arguments.form in ("table", *FOR_PEOPLE) else None
    found = sheet(compared(runs, baseline, quantity), baseline, quantity, names)
    with named(dict(arguments.names)):
        remarks += runtime_lines(runs, quantity)
        if arguments.out is not None:
            remarks.append(str(write_comparison(gathered, arguments.out).attrs["report"]))
    if arguments.form == "table":
        title = f"{IN_WORDS[quantity]} of {len(runs)} runs, relative to {shown_name(baseline, dict(arguments.names))}"
        print_sheet(Console(highlight=False), found, title, TEXTS)
    else:
        sys.stdout.write(FORMATS[arguments.form](*found))
    for remark in remarks:
        print(remark, file=sys.stderr)
    return 0


def find(folder: Path) -> list[Path]:
    """Every run at or below a directory; raises :class:`ConfigError` if there are only sets of jobs."""
    found = find_runs(folder, of_clusters=False)
    if not found and find_clusters(folder):
        raise ConfigError(f"{folder}: holds sets of jobs, not runs; a sweep (-m) of them is compared at its end")
    return found


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dirs", metavar="DIR", type=Path, nargs="+", help="a run's directory, or one that holds runs")
    parser.add_argument(
        "--baseline", metavar="STRATEGY", help="what others are relative to (default: bsp, or the first)"
    )
    parser.add_argument(
        "--by", choices=["jct", "tta"], default="jct", help="job completion time, or time to the target"
    )
    parser.add_argument("--as", dest="form", choices=["table", *FORMATS], default="table", help="form of the output")
    add_names(parser)
    parser.add_argument("-o", "--out", metavar="DIR", type=Path, help="write comparison, figures and a page there, too")
    parser.error = refuse  # type: ignore[method-assign]
    return parser


if __name__ == "__main__":
    run_program("compare", main)
