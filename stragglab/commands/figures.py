"""Redraw all figures from the records alone.

python run.py figures runs/2024-11-21_08-00-00_sweep                   # every run in it, and their comparison
python run.py figures runs/a runs/b --out out/a_and_b --baseline asp   # two runs; their comparison goes to --out

python run.py figures runs/a_sweep --paper column                      # for a paper: PDF and SVG, too
python run.py figures runs/a_sweep --name my_strategy='My method'      # a name in the figures for a strategy, or a case

Runs of clusters (jobs=NAME) are compared with each other.
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from analysis.figures.names import use_names
from analysis.figures.style import DPI
from analysis.records.load import RecordError, find_clusters, find_runs, load_run
from analysis.records.sums import summed
from runtime.errors import ConfigError, print_error, refuse
from runtime.house import NAME
from runtime.importing import importing
from runtime.record.progress import counted
from runtime.run.probing import refuse_unwritable_folder
from stragglab.grids.of_experiment import COMPARED
from stragglab.terminal.naming import add_names
from stragglab.terminal.paper_figures import WIDTHS_IN, add_paper, form_of

KEPT = "existing figures are whole; the same command draws all of them again"
"""Printed after a signal."""

THROTTLED = ("cpu", "gpu", "bandwidth")
"""Kinds of disturbance whose effect is plotted next to what was requested."""
PAGE_IN = 9.0
"""Height of the text of a letter or A4 page."""


def main(argv: list[str] | None = None) -> int:
    """Return the exit code: 0, or 2 for invalid input."""
    try:
        arguments = _parser().parse_args(argv)
    except ConfigError as error:
        return print_error("figures", error)
    found = [path for folder in arguments.folders for path in find_runs(folder, of_clusters=False)]
    runs = list(dict.fromkeys(found))
    clusters = list(dict.fromkeys(path for folder in arguments.folders for path in find_clusters(folder)))
    names = ", ".join(str(folder) for folder in arguments.folders)
    if not runs and not clusters:
        return print_error("figures", f"{names}: no run here (a directory with meta.json and events.jsonl)")
    if runs and clusters:
        return print_error("figures", f"{names}: single runs and runs of clusters; name directories with one kind")
    try:
        refuse_unwritable_folder("--out", arguments.out, COMPARED, ("comparison.csv", "clusters.csv", "figures"))
        if arguments.paper is not None:
            with use_names(dict(arguments.names)):
                return _for_paper(runs, arguments)
        with importing():
            from analysis.figures.page import draw_captions

        redraw = _redraw_clusters if clusters else _redraw
        lot = clusters or runs
        with draw_captions(arguments.caption), use_names(dict(arguments.names)):
            redraw(lot, arguments.out or _default_out(arguments.folders, lot), arguments.baseline)
    except (RecordError, ConfigError, OSError) as error:
        return print_error("figures", error)
    return 0


def _redraw(runs: list[Path], out: Path | None, baseline: str | None) -> None:
    from rich.console import Console

    from analysis.reports.report import compare, finish_run, print_summary

    console = Console(highlight=False)
    usable = []
    for path in counted(runs, len(runs), "drawing runs"):
        try:
            finish_run(path)
            usable.append(path)
            console.print(f"{path / 'report.html'}", markup=False, soft_wrap=True)
        except RecordError as error:
            if len(runs) == 1:
                raise
            print(f"left out: {error}", file=sys.stderr)
    with summed(out or runs[0], new=out is not None):
        figure = _draw_injectors(usable, (out or runs[0]) / "figures" / "injectors.png")
    if figure is not None:
        console.print(f"{figure}", markup=False, soft_wrap=True)
    if out is not None:
        table = compare(counted(usable, len(usable), "reading records"), out, baseline)
        print_summary(table, console)
        for line in (*table.attrs["warnings"], *table.attrs["figures"], table.attrs["report"]):
            console.print(line, markup=False, soft_wrap=True)


def _for_paper(runs: list[Path], arguments: argparse.Namespace) -> int:
    """Draw the comparison only, in every format; returns the exit code."""
    from analysis.figures.page import drawn_as
    from analysis.reports.report import compare

    if not runs:
        raise ConfigError("--paper: for single runs, not for runs of clusters; leave it out")
    form = form_of(arguments.paper, captioned=arguments.caption)
    out = arguments.out or (arguments.folders[0] if len(arguments.folders) == 1 else Path("out")) / "paper"
    with drawn_as(form):
        table = compare(counted(runs, len(runs), "reading records"), out, arguments.baseline)
    for line in (*table.attrs["warnings"], *table.attrs["figures"]):
        print(line)
    for figure in table.attrs["figures"]:
        if remark := too_high(Path(figure)):
            print(remark, file=sys.stderr)
    return 0


def too_high(figure: Path) -> str:
    """Return the cure for a picture that fits on no page; empty if it fits."""
    from PIL import Image

    with Image.open(figure) as picture:
        width_in, height_in = (pixels / DPI for pixels in picture.size)
    cure = "name the runs of fewer cases"
    if width_in < WIDTHS_IN["text"]:  # on a wider page, panels are next to one another
        cure += ", or take --paper text"
    return (
        f"{figure.name}: {height_in:.1f} in high, more than a page ({PAGE_IN:g}); {cure}" if height_in > PAGE_IN else ""
    )


def _redraw_clusters(runs: list[Path], out: Path | None, baseline: str | None) -> None:
    from rich.console import Console

    from analysis.reports.cluster import compare_clusters, finish_cluster
    from analysis.reports.cluster_console import print_clusters

    console = Console(highlight=False)
    for path in counted(runs, len(runs), "drawing runs"):
        try:
            finish_cluster(path)
            console.print(f"{path / 'report.html'}", markup=False, soft_wrap=True)
        except RecordError as error:
            if len(runs) == 1:
                raise
            print(f"left out: {error}", file=sys.stderr)
    if out is not None:
        table = compare_clusters(runs, out, baseline)
        print_clusters(table, console)
        for line in (*table.attrs["warnings"], *table.attrs["figures"], table.attrs["report"]):
            console.print(line, markup=False, soft_wrap=True)


def _draw_injectors(paths: list[Path], figure: Path) -> Path | None:
    """Only for runs with throttled processors or links and an undisturbed stretch to compare with."""
    from analysis.figures.injectors import draw_injectors
    from analysis.measures.injections import collect
    from analysis.measures.injector_errors import errors

    runs = [load_run(path) for path in paths]
    if not any(run.plan["kind"].isin(THROTTLED).any() for run in runs):
        return None
    return draw_injectors(figure, [run.meta for run in runs], errors(collect(runs)))


def _default_out(folders: list[Path], runs: list[Path]) -> Path | None:
    """A single run needs no comparison; several in one directory are compared there."""
    if len(runs) == 1:
        return None
    return folders[0] / "comparison" if len(folders) == 1 else Path("out") / "comparison"


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog=f"{NAME} figures", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("folders", metavar="DIR", nargs="+", type=Path, help="a run, or a directory that contains runs")
    parser.add_argument(
        "--out", type=Path, help="where the comparison goes (default: DIR/comparison, or out/comparison)"
    )
    add_paper(parser)
    add_names(parser)
    parser.add_argument(
        "--caption",
        action="store_true",
        help="where the numbers are from on the pictures, too (as caption=true of a run)",
    )
    parser.add_argument("--baseline", help="strategy that ratios are relative to (default: bsp)")
    parser.error = refuse  # type: ignore[method-assign]
    return parser
