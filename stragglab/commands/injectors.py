"""Measure the injectors on this machine: requested against achieved, by actuator and level.

python run.py injectors                                 # ten minutes; writes to out/injectors
python run.py injectors --quick                         # a minute: few levels, one length, one link
python run.py injectors --report docs/injectors.md      # the result also goes into that page
python run.py injectors --from out/injectors            # only report, from existing records
python run.py injectors --device cuda                   # only hogs, which take a part of a GPU (two minutes)

Leave the machine idle meanwhile, since any other computation is measured, too. Every run is a job of one worker and one
server on two emulated hosts (without hosts if this machine cannot emulate any). Its plan goes through several levels,
with undisturbed stretches between them. Levels that this machine does not support are left out and reported. Existing
records are made again only if their settings have changed, so the same command continues after an interruption. The
exit code is 0 for a report (including one with misses), 1 if a run failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from runtime.errors import refuse
from runtime.house import NAME
from runtime.live.machines.doctor import missing
from runtime.live.machines.mechanisms import Look
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from stragglab.grids.answering import answer
from stragglab.grids.grid import GRID, Runner, run_child
from stragglab.grids.injector_runs import make_records, read_records, report


def main(argv: Sequence[str] | None = None, runner: Runner | None = None, look: Look | None = None) -> int:
    """Run and report; returns the exit code (see the module)."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> None:
        lacking: dict[str, str] = {}
        runs = (
            read_records(asked.source)
            if asked.source
            else make_records(asked, console, runner or run_child, look or missing, lacking)
        )
        report(runs, lacking, asked, shlex.join(["python", "run.py", "injectors", *words]), console)

    return answer("injectors", lambda: parse(words), work)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} injectors", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--quick", action="store_true", help="fewer runs: short iterations, one link")
    parser.add_argument("--device", choices=("cuda", "fake"), help="measure only hogs, on the first such device")
    parser.add_argument("--again", action="store_true", help="repeat every record")
    parser.add_argument("-o", "--out", metavar="OUTDIR", type=Path, help="output directory (default: out/injectors)")
    parser.add_argument("--from", dest="source", metavar="DIR", type=Path, help="report on these records, run nothing")
    parser.add_argument("--report", metavar="FILE", type=Path, help="a page whose marked part the report replaces")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_args(list(words))
    refuse_unwritable_file("--report", asked.report)
    if asked.source and (asked.quick or asked.device):
        refuse("--quick and --device: not together with --from, which takes the records as they are")
    own = Path("out/injectors")
    there = asked.out or (None if asked.source else own)
    refuse_unwritable_folder("-o", there, (*GRID, "plans", "windows.csv", "injectors.*"))
    asked.out = (asked.out or asked.source or own).absolute()
    return asked
