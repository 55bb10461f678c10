"""Time every strategy under every straggler pattern on the virtual clock: which cells does it harm or help?

python run.py harm --report docs/harm.md         # the whole grid (make harm)
python run.py harm --report docs/harm.md --redraw # page and pictures again, from docs/harm.csv
python run.py harm --strategies lgc,bsp          # some rows: shown, and with --report updated in the page
python run.py harm --strategies lgc --stragglers none,kill --workers 16 --seeds 0,1,2
python run.py harm --strategies lgc strategy.k_fastest=12 -o out/k12 # other settings (never for a page)

Every job is timed without gradients, with the shipped settings of strategy and pattern, and divided by BSP's time under
the same plan. A cell above 1.03 needs a reason in docs/harm_reasons.yaml. Jobs are written to OUT/jobs.csv as they end;
existing ones with the same settings, cost model and code are not run again, so the same command continues after an
interruption. The exit code is 0, 1 if a cell harms without a reason or a job failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path

import pandas as pd
from rich.console import Console

from analysis.figures.harm import FRONT_WORKERS, draw_answer, draw_harm, front_of
from analysis.files import write_file
from analysis.measures import harm
from analysis.reports.harm import explained, tables
from runtime.errors import FAILED, refuse
from runtime.house import NAME, ROOT
from runtime.run.preflight import refuse_targets
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from stragglab.grids.answering import answer
from stragglab.grids.choices import choices, steady_strategies
from stragglab.grids.forks import processors
from stragglab.grids.harm import HOSTS, PACED, PATTERNS, WORKERS, Task, Timed, run, tasks_of
from stragglab.terminal.lists import names_of, number_of, numbers_of

OUT = Path("out/harm")
REASONS = ROOT / "docs" / "harm_reasons.yaml"


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report; returns the exit code (see the module)."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> int:
        reasons = harm.read_reasons(asked.reasons.read_bytes(), str(asked.reasons))
        tasks = [] if asked.redraw else list(tasks_of(asked))
        jobs = table(tasks, run(tasks, asked, console))
        if asked.report:
            jobs = merged(jobs, asked.report.with_suffix(".csv"))
        return report(jobs, reasons, asked, console)

    return answer("harm", lambda: parse(words), work, harm.ReasonsError)


# ---- the numbers ----------------------------------------------------------------------------------------------------


def table(tasks: Iterable[Task], found: Mapping[str, Timed]) -> pd.DataFrame:
    """One row per job, with BSP's time in a column of its own."""
    pairs = [(task, found[task.key]) for task in tasks]
    bsp = {task.case: one.jct_s for task, one in pairs if task.strategy == harm.REFERENCE}
    rows = [(*task[:4], one.outcome, one.jct_s, bsp[task.case], one.note) for task, one in pairs]
    return pd.DataFrame(rows, columns=harm.COLUMNS)


def merged(jobs: pd.DataFrame, path: Path) -> pd.DataFrame:
    """The jobs, and those of other cells from the file, in the order of the grid."""
    if path.exists():
        old, keys = pd.read_csv(path), pd.MultiIndex.from_frame(jobs[harm.CELL])
        jobs = pd.concat([old[~pd.MultiIndex.from_frame(old[harm.CELL]).isin(keys)], jobs])
    order = {name: place for place, name in enumerate(PATTERNS)}
    return jobs.sort_values(
        [*harm.CELL, "seed"], key=lambda column: column.map(order) if column.name == "straggler" else column
    ).reset_index(drop=True)


# ---- the report -----------------------------------------------------------------------------------------------------


def report(jobs: pd.DataFrame, reasons: harm.Reasons, asked: argparse.Namespace, console: Console) -> int:
    """Print the tables, or write the page with its CSV; returns the exit code."""
    cells = harm.cells_of(jobs)
    body = list(tables(cells, reasons))
    for part in body:
        console.print(part, soft_wrap=True)
    if asked.report:
        write_file(asked.report.with_suffix(".csv"), jobs.to_csv(index=False, float_format="%.4f"))
        picture = asked.report.parent / "images" / f"{asked.report.stem}.png"
        picture.parent.mkdir(exist_ok=True)
        caption = f"virtual clock, no gradients, {seeds_text(jobs)}"
        draw_harm(picture, cells, caption)
        if front := front_of(cells):
            draw_answer(picture.with_name(f"{picture.stem}_front.png"), front, f"{FRONT_WORKERS} workers, {caption}")
        shown = list(tables(cells, reasons, FRONT_WORKERS))
        write_file(asked.report, page(jobs, shown, explained(cells, reasons), picture.name))
        console.print(f"{asked.report}", soft_wrap=True)
    bare = harm.unexplained(cells, reasons)
    for cell in bare:
        console.print(f"no reason: {cell} {cell.note}".rstrip(), soft_wrap=True)
    if asked.whole:
        for line in harm.idle_reasons(cells, reasons):
            console.print(f"reason that no cell needs: {line}", soft_wrap=True)
    return FAILED if bare or (jobs["outcome"] == "failed").any() else 0


def page(jobs: pd.DataFrame, body: Sequence[str], why: Iterable[str], picture: str) -> str:
    """The text of the page, in Markdown; ``picture`` is the name of its map."""
    return "\n\n".join(
        [
            "# Harm and gain",
            HEAD.format(
                tolerated=harm.TOLERATED,
                picture=picture,
                stem=picture.rpartition(".")[0],
                seeds=seeds_text(jobs),
                paced=_epochs_text(PACED.epochs),
                hosts=_epochs_text(HOSTS.epochs),
            ).strip(),
            *body,
            "## Why some are slower",
            *why,
            "",
        ]
    )


def seeds_text(jobs: pd.DataFrame) -> str:
    """The seeds, and that numbers are medians if there are several."""
    seeds = ", ".join(map(str, sorted(jobs["seed"].unique())))
    return f"medians over seeds {seeds}" if "," in seeds else f"seed {seeds}"


def _epochs_text(epochs: dict[int, int]) -> str:
    return ", ".join(f"{count} with {workers}" for workers, count in epochs.items())


HEAD = """\
How much longer or shorter does a job take with each strategy than with BSP, under the same stragglers? A cell is the
job completion time (JCT) divided by BSP's, on the virtual clock, with the shipped settings; a cell above {tolerated} is
**bold** and has its reason below. Made by `make harm` ({seeds}). [Ratios](images/{stem}.csv) with any number of workers
and [times](harm.csv) are files.

![JCT of all strategies relative to BSP](images/{picture})

- **The job**: the digits, 1,438 samples, 128 per update, 4 servers, no gradients (`backend=none`). An iteration takes
  20 ms and 1.25 ms per sample, messages as in `local_tcp`. Epochs: {paced} workers.
- **`cpu_throttle` and `link_throttle`** need hosts: one per worker (`cluster=hosts`, processors a tenth as fast as
  there), the network of `digits_cnn`. Epochs are {hosts} workers, too few for strategies that adapt slowly; 4 servers
  are so busy with 64 workers that one slow worker hardly shows.
- **Only time is compared.** An asynchronous strategy processes as many samples, and may need more of them for the same
  accuracy.
- **Not compared** are strategies that launch nodes: their gain depends on the cores that they may have.
"""


# ---- the command line -----------------------------------------------------------------------------------------------


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} harm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="SETTING=VALUE", help="of all jobs; strategy.* not of BSP")
    parser.add_argument(
        "--strategies", metavar="LIST", default=",".join(steady_strategies()), help="default: all that launch no nodes"
    )
    parser.add_argument("--stragglers", metavar="LIST", default=",".join(PATTERNS), help="default: %(default)s")
    parser.add_argument("--workers", metavar="LIST", default=",".join(map(str, WORKERS)), help="default: %(default)s")
    parser.add_argument("--seeds", metavar="LIST", default="0", help="default: 0")
    parser.add_argument("--jobs", metavar="N", help="jobs at a time (default: one per core)")
    parser.add_argument("--again", action="store_true", help="run every job again")
    parser.add_argument("--report", metavar="PAGE", type=Path, help="write a page (.md) and its CSV next to it")
    parser.add_argument("--redraw", action="store_true", help="run nothing: the page and its pictures from its CSV")
    parser.add_argument("--reasons", metavar="FILE", type=Path, default=REASONS, help="default: docs/harm_reasons.yaml")
    parser.add_argument("-o", "--out", metavar="DIR", type=Path, default=OUT, help=f"for jobs.csv (default: {OUT})")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_intermixed_args(list(words))
    refuse_unwritable_file("--report", asked.report)
    refuse_unwritable_folder("-o", asked.out, ("jobs.csv",))
    refuse_targets(asked.overrides)
    if asked.report and asked.report.suffix != ".md":
        refuse(f"--report {asked.report}: must end in .md")
    if asked.redraw and not (asked.report and asked.report.with_suffix(".csv").exists()):
        refuse("--redraw: needs --report PAGE, and the CSV that an earlier report left next to it")
    if asked.report and asked.overrides:
        refuse(f"{asked.overrides[0]}: a page uses the shipped settings; omit --report")
    axes = ("strategies", "stragglers", "workers")
    asked.whole = all(getattr(asked, axis) == parser.get_default(axis) for axis in axes)
    asked.strategies = names_of("strategies", asked.strategies, choices("strategy"))
    asked.stragglers = names_of("stragglers", asked.stragglers, choices("straggler"))
    asked.workers = numbers_of("workers", asked.workers, least=1)
    asked.seeds = numbers_of("seeds", asked.seeds)
    asked.jobs = number_of("jobs", asked.jobs, least=1) if asked.jobs is not None else processors()
    return asked
