"""Run the same jobs live and on the virtual clock, and report how well the two agree.

python run.py fidelity                                    # every strategy; writes to out/fidelity, about 35 minutes
python run.py fidelity --grid allreduce --report docs/fidelity_allreduce.md   # replicas and a ring
python run.py fidelity --grid hosts --report docs/fidelity_hosts.md           # emulated hosts, throttled
python run.py fidelity --only virtual                     # only the virtual runs, which need no idle machine
python run.py fidelity --costs my_machine --report docs/fidelity.md
python run.py fidelity --add docs/fidelity.md             # only the cases that the page lacks, as a new group of rows
python run.py fidelity -o out/small --seeds 0 --strategies bsp,asp --stragglers none workload.epochs=2
python run.py fidelity --redraw                           # only report, from existing records

The grids are experiments: conf/experiment/fidelity*.yaml, here and in your own project (--grid my_grid project=DIR for
fidelity-my_grid.yaml). Virtual runs come first, in forks, one per core (--jobs); then live runs, one after another:
leave the machine idle meanwhile, since any other computation slows them down. On hosts more virtual runs follow: on
processors as fast as live, and on processors whose speed follows the memory's speed, which live runs measure. That law
is fitted to even seconds of the live runs; its errors in odd seconds are reported, too.

Seeds are the outer loop, and existing records are made again only if their settings or their cost model have changed,
so the same command continues after an interruption, and with --seeds it reports on complete seeds. The exit code is 0
for a report (including one with misses), 1 if a run failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from analysis.experiments.spec import AGREEMENT, SpecError, cells, load_spec
from runtime.errors import refuse
from runtime.house import NAME
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from stragglab.grids.answering import answer
from stragglab.grids.experiments import known_specs, make_records, read_records
from stragglab.grids.fidelity import choose_cases, compare_clocks
from stragglab.grids.grid import GRID, Runner
from stragglab.terminal.lists import number_of, numbers_of

LOCAL, OTHERS = "fidelity", "fidelity-"


def main(argv: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    """Run and report; returns the exit code (see the module)."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> None:
        spec, out = asked.spec, asked.out
        if not any(True for _ in cells(spec)):
            console.print(f"{asked.add}: has all cases of this grid", soft_wrap=True)
            return
        records = read_records(spec, out) if asked.redraw else make_records(spec, asked, out, console, runner)
        if asked.only:
            console.print(f"{len(records)} virtual records in {out / 'records'}; without --only the live ones follow")
            return
        page = asked.add or asked.report or out / "fidelity.md"
        command = shlex.join(["python", "run.py", "fidelity", *words])
        compare_clocks(spec, records, page, command, console, add=asked.add is not None)

    return answer("fidelity", lambda: parse(words), work, SpecError)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} fidelity", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    known = known_specs()
    others = {name.removeprefix(OTHERS): path for name, path in known.items() if name.startswith(OTHERS)}
    grids = {"local": known[LOCAL], **others}
    parser.add_argument("--grid", choices=list(grids), default="local", help="what to compare (default: local)")
    for name in ("seeds", "strategies", "stragglers"):
        parser.add_argument(f"--{name}", metavar="LIST", help="default: the grid's")
    parser.add_argument("--costs", metavar="NAME", help="the cost model of virtual runs (default: the grid's)")
    parser.add_argument("--only", choices=["virtual"], help="make only these records and no report")
    parser.add_argument("--redraw", action="store_true", help="report on existing records, run nothing")
    parser.add_argument("--again", action="store_true", help="repeat every record, e.g. after a change of the code")
    parser.add_argument("--jobs", metavar="N", help="virtual runs at a time (default: one per core)")
    parser.add_argument("-o", "--out", metavar="OUTDIR", type=Path, help="output directory (default: out/fidelity...)")
    parser.add_argument("--report", metavar="FILE", type=Path, help="the page (default: OUTDIR/fidelity.md)")
    parser.add_argument("--add", metavar="PAGE", type=Path, help="run the cases that this page lacks, and add them")
    parser.add_argument("overrides", nargs="*", help="settings of all runs, such as workload.epochs=2")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_intermixed_args(list(words))
    asked.spec, asked.commit = load_spec(grids[asked.grid]), None
    if asked.spec.figure.kind != AGREEMENT:
        refuse(f"--grid {asked.grid}: {grids[asked.grid]} compares no clocks; its figure is not kind: {AGREEMENT}")
    refuse_unwritable_file("--report", asked.report)
    asked.out = (asked.out or Path("out", asked.spec.name)).absolute()
    refuse_unwritable_folder("-o", asked.out, (*GRID, "fidelity*.*", "images"))
    if asked.add is not None:
        for name in ("report", "only"):
            if getattr(asked, name):
                refuse(f"--add {asked.add}: not together with --{name}")
        if not asked.add.is_file():
            refuse(f"--add {asked.add}: no such page; make it with --report")
        refuse_unwritable_file("--add", asked.add)
    asked.seeds = numbers_of("seeds", asked.seeds) if asked.seeds is not None else None
    asked.jobs = number_of("jobs", asked.jobs, least=1) if asked.jobs is not None else None
    asked.spec = choose_cases(asked.spec, asked)
    return asked
