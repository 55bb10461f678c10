"""Is this record what it says? Check a run, or every run below a directory, as a reviewer of a paper would.

python run.py verify runs/2024-11-21_08-00-00_ssp_transient_seed0    # one run, question by question
python run.py verify out/experiments                                 # every run below, one line each
python run.py verify runs/... --again                                # virtual runs: run them again, compare the bytes

Each run answers these questions. Is it complete, and has every file its recorded hash? Does it obey the laws of the
protocol (every sample accounted for)? Do summary, tables, columns, timeline and the numbers of figures follow from the
log? Do parameters and plan have the recorded hashes, and do the settings give the stored configuration? Does a fresh
strategy give the recorded answers to the recorded events, and is the code here the code that made the record? Sweeps
and comparisons have questions of their own. Files that cannot be checked are listed with the reason, and do not count
as a failure. The exit code is 0 if nothing failed, 1 if something failed, 2 if there is no record.
"""

from __future__ import annotations

import argparse
import os
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import TYPE_CHECKING

from analysis.files import natural
from analysis.records.load import find_clusters, find_runs
from analysis.reports.vouching import UNVOUCHED, Check, Verdict
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.importing import importing
from runtime.record.progress import counted, said_late
from stragglab.terminal.finding import records_below
from stragglab.vouching.record import verify

if TYPE_CHECKING:
    from rich.table import Table

KEPT = "the records are as they were; the same command starts again"
"""Printed after a signal."""

STYLES: dict[Verdict, str] = {"ok": "green", "failed": "bold red", "unchecked": "yellow"}


def main(argv: Sequence[str] | None = None) -> int:
    """Verify what is named; returns the exit code (see the module)."""
    from rich.console import Console

    try:
        arguments = _parser().parse_args(argv)
        paths = records_below(arguments.dirs, _find)
    except ConfigError as error:
        return print_error("verify", error)
    with importing():  # these imports take longer than most checks
        import analysis.measures.metrics  # noqa: F401
    console = Console(highlight=False)
    failed = 0
    for path in counted(paths, len(paths), "verifying records"):
        words = f"verifying {path}: reads its log, and derives again what is stored next to it"
        with said_late(words) if len(paths) == 1 else nullcontext():
            checks = list(verify(path, again=arguments.again))
        failed += any(check.verdict == "failed" for check in checks)
        if len(paths) == 1:
            console.print(_in_full(path, checks), soft_wrap=not console.is_terminal)
        else:
            console.print(_in_short(path, checks), markup=False, soft_wrap=True)
    runs = "1 run" if len(paths) == 1 else f"{len(paths)} runs"
    console.print(f"{runs}: {failed} failed" if failed else f"{runs} verified: nothing failed", markup=False)
    return 1 if failed else 0


def _find(folder: Path) -> list[Path]:
    from analysis.reports.verify_comparisons import is_comparison
    from stragglab.vouching.sweeps import is_sweep

    made_of_runs = [
        Path(place) for place, _, _ in os.walk(folder) if is_sweep(Path(place)) or is_comparison(Path(place))
    ]
    found = {*find_clusters(folder), *find_runs(folder), *made_of_runs}
    return sorted(found, key=lambda path: natural(str(path)))


def _in_full(path: Path, checks: Sequence[Check]) -> Table:
    from rich.table import Table

    table = Table(title=str(path), title_justify="left", box=None, show_header=False, pad_edge=False)
    for check in checks:
        table.add_row(check.question, f"[{STYLES[check.verdict]}]{check.verdict}[/]", check.found)
    return table


def _in_short(path: Path, checks: Sequence[Check]) -> str:
    failed = [f"{check.question}: {check.found}" for check in checks if check.verdict == "failed"]
    passed = sum(check.verdict == "ok" for check in checks)
    left = [check.found for check in checks if check.question in UNVOUCHED]
    words = "; ".join([f"{passed} of {len(checks)} checked", *left])
    return f"failed  {path}  {'; '.join(failed)}" if failed else f"ok      {path}  {words}"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} verify", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("dirs", metavar="DIR", type=Path, nargs="+", help="a run's directory, or one that holds runs")
    parser.add_argument("--again", action="store_true", help="run virtual jobs again and compare their bytes")
    parser.error = refuse  # type: ignore[method-assign]
    return parser
