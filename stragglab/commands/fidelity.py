"""Run the same jobs live and on the virtual clock, and report how well the two agree.

python run.py fidelity                                    # every strategy; writes to out/fidelity, about 35 minutes
python run.py fidelity --grid allreduce --report docs/fidelity_allreduce.md   # replicas and a ring
python run.py fidelity --grid hosts --report docs/fidelity_hosts.md           # emulated hosts, throttled
python run.py fidelity --only virtual                     # only the virtual runs, which need no idle machine
python run.py fidelity --costs my_machine --report docs/fidelity.md
python run.py fidelity --add docs/fidelity.md             # only the cases that the page lacks: a group of rows more
python run.py fidelity -o out/small --seeds 0 --strategies bsp,asp --stragglers none workload.epochs=2
python run.py fidelity --from out/fidelity                # only report, from existing records

Virtual runs come first, in forks, one per core (--jobs); then the live ones, one after another: leave the machine idle
meanwhile, since any other computation slows them down. On hosts more virtual ones follow, on processors as fast as
live. Seeds are the outer loop, and existing records are not made again, so the same command continues after an
interruption, and with --seeds it reports on complete seeds. The exit code is 0 for a report (including one with
misses), 1 if a run failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from analysis.reports.fidelity_page import has_case
from runtime.errors import refuse
from runtime.house import NAME
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from stragglab.grids.answering import answer
from stragglab.grids.fidelity import GRIDS, cases_of
from stragglab.grids.fidelity_report import report
from stragglab.grids.fidelity_runs import make_records, read_records
from stragglab.grids.grid import GRID, Runner
from stragglab.terminal.lists import number_of, numbers_of

CHOICES = ("seeds", "strategies", "stragglers", "costs")
OURS = {
    "strategy",
    "straggler",
    "seed",
    "runtime",
    "cluster",
    "cluster.costs",
    "draw",
    "view",
    "hydra.run.dir",
    "hydra.sweep.dir",
}


def main(argv: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    """Run and report; returns the exit code (see the module)."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> None:
        if asked.add and not asked.cases:
            console.print(f"{asked.add}: has all cases of this grid", soft_wrap=True)
            return
        runs = read_records(asked.source) if asked.source else make_records(asked, console, runner)
        if asked.only == "virtual":
            console.print(
                f"{len(runs)} virtual records in {asked.out / 'records'}; without --only the live ones follow"
            )
        else:
            report(runs, asked, shlex.join(["python", "run.py", "fidelity", *words]), console)

    return answer("fidelity", lambda: parse(words), work)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} fidelity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--grid", choices=list(GRIDS), default="local", help="what to compare (default: local)")
    for name in CHOICES:
        parser.add_argument(f"--{name}", metavar="NAME" if name == "costs" else "LIST", help="default: the grid's")
    parser.add_argument("--repeats", metavar="N", type=int, help="number of seeds with second live runs")
    parser.add_argument("--only", choices=["virtual"], help="make only these records and no report")
    parser.add_argument("--jobs", metavar="N", help="virtual runs at a time (default: one per core)")
    parser.add_argument("-o", "--out", metavar="OUTDIR", type=Path, help="output directory (default: out/fidelity...)")
    parser.add_argument("--from", dest="source", metavar="DIR", type=Path, help="report on these records, run nothing")
    parser.add_argument("--report", metavar="FILE", type=Path, help="the page (default: OUTDIR/fidelity.md)")
    parser.add_argument("--add", metavar="PAGE", type=Path, help="run what this page lacks, and add it as a group")
    parser.add_argument("overrides", nargs="*", help="settings of all runs, such as workload.epochs=2")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_intermixed_args(list(words))
    asked.grid = GRIDS[asked.grid]
    refuse_unwritable_file("--report", asked.report)
    own = None if asked.source else Path(asked.grid.out)
    refuse_unwritable_folder("-o", asked.out or own, (*GRID, "fidelity.*", "fidelity_*.csv", "jct.*"))
    check_page(asked)
    if asked.source:
        given = [f"--{name}" for name in (*CHOICES, "repeats", "only", "jobs") if getattr(asked, name) is not None]
        if given := given + asked.overrides:
            refuse(f"{given[0]}: not together with --from, which takes the records as they are")
        asked.out = asked.out or asked.source
        return asked
    asked.out = (asked.out or Path(asked.grid.out)).absolute()
    asked.costs = asked.grid.costs if asked.costs is None else asked.costs
    asked.seeds = list(map(str, numbers_of("seeds", asked.grid.seeds if asked.seeds is None else asked.seeds)))
    asked.jobs = number_of("jobs", asked.jobs, least=1) if asked.jobs is not None else None
    asked.repeats = asked.grid.repeats if asked.repeats is None else asked.repeats
    if asked.repeats < 0:
        refuse(f"--repeats {asked.repeats}: must be 0 or more")
    page = asked.add.read_text() if asked.add else ""
    asked.cases = [case for case in cases_of(asked) if not has_case(page, *case[:2])]
    given = [text.lstrip("+~").partition("=")[0] for text in asked.overrides]
    for name, text in zip(given, asked.overrides, strict=True):
        if name in OURS:
            refuse(f"{text}: is chosen by this program; see --help for its options")
    # a user who chooses the devices also specifies the slower ones
    asked.pacing = bool(asked.grid.speed) and asked.grid.speed not in given
    asked.slowing = not {text.partition("=")[0] for text in asked.grid.slower} & set(given)
    return asked


def check_page(asked: argparse.Namespace) -> None:
    """Refuse a page that cannot be added to."""
    if asked.add is None:
        return
    for name, value in (("report", asked.report), ("from", asked.source), ("only", asked.only)):
        if value:
            refuse(f"--add {asked.add}: not together with --{name}")
    if not asked.add.is_file():
        refuse(f"--add {asked.add}: no such page; make it with --report")
    refuse_unwritable_file("--add", asked.add)
