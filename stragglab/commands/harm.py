"""Time every strategy under every straggler pattern on the virtual clock: which cells does it harm or help?

python run.py harm --report docs/harm.md         # the whole grid (make harm)
python run.py harm --report docs/harm.md --redraw # draw page and pictures again, from docs/harm.csv
python run.py harm --strategies lgc,bsp          # some rows are shown, and with --report updated in the page
python run.py harm --strategies lgc --stragglers none,kill --workers 16 --seeds 0,1,2
python run.py harm --strategies lgc strategy.k_fastest=12 -o out/k12 # other settings (never for a page)

This is the experiment conf/experiment/harm.yaml. Every job is timed without gradients, with the shipped settings of
strategy and pattern, and divided by BSP's time under the same plan. A cell above 1.03 needs a reason in
docs/harm_reasons.yaml. Times are in OUT/times, one file per job; existing ones with the same settings, configurations
and code are not run again, so the same command continues after an interruption. The exit code is 0, 1 if a cell harms
without a reason or a job failed, 2 for invalid input.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from analysis.measures.harm import REFERENCE, ReasonsError, read_reasons
from runtime.errors import refuse
from runtime.house import NAME, ROOT
from runtime.run.preflight import refuse_targets
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from stragglab.grids.answering import answer
from stragglab.grids.choices import choices
from stragglab.grids.harm import jobs_of, levels_of, report
from stragglab.grids.times import TIMES
from stragglab.terminal.lists import names_of, number_of, numbers_of

OUT = Path("out/harm")
REASONS = ROOT / "docs" / "harm_reasons.yaml"
AXES = {"strategies": "strategy", "stragglers": "straggler", "workers": "workers"}


def main(argv: Sequence[str] | None = None) -> int:
    """Run and report; returns the exit code (see the module)."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)

    def work(asked: argparse.Namespace) -> int:
        reasons = read_reasons(asked.reasons.read_bytes(), str(asked.reasons))
        return report(jobs_of(asked, console), reasons, asked, console)

    return answer("harm", lambda: parse(words), work, ReasonsError)


def parse(words: Sequence[str]) -> argparse.Namespace:
    """Parse and fill in defaults; raises a one-line :class:`ConfigError` for invalid input."""
    parser = argparse.ArgumentParser(
        prog=f"{NAME} harm", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("overrides", nargs="*", metavar="SETTING=VALUE", help="for all jobs; strategy.* not for BSP")
    for flag, axis in AXES.items():
        parser.add_argument(
            f"--{flag}", metavar="LIST", default=",".join(levels_of(axis)), help="default: the experiment's"
        )
    parser.add_argument("--seeds", metavar="LIST", default="0", help="default: 0")
    parser.add_argument("--jobs", metavar="N", help="jobs at a time (default: one per core)")
    parser.add_argument("--again", action="store_true", help="run every job again")
    parser.add_argument("--report", metavar="PAGE", type=Path, help="write a page (.md) and its CSV next to it")
    parser.add_argument("--redraw", action="store_true", help="run nothing; draw page and pictures from the CSV")
    parser.add_argument("--reasons", metavar="FILE", type=Path, default=REASONS, help="default: docs/harm_reasons.yaml")
    parser.add_argument("-o", "--out", metavar="DIR", type=Path, default=OUT, help=f"folder of times (default: {OUT})")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_intermixed_args(list(words))
    refuse_unwritable_file("--report", asked.report)
    refuse_unwritable_folder("-o", asked.out, (TIMES, "jobs.csv"))
    refuse_targets(asked.overrides)
    if asked.report and asked.report.suffix != ".md":
        refuse(f"--report {asked.report}: must end in .md")
    if asked.redraw and not (asked.report and asked.report.with_suffix(".csv").exists()):
        refuse("--redraw: needs --report PAGE, and the CSV that an earlier report left next to it")
    if asked.report and asked.overrides:
        refuse(f"{asked.overrides[0]}: a page uses the shipped settings; omit --report")
    asked.whole = all(getattr(asked, flag) == parser.get_default(flag) for flag in AXES)
    asked.strategies = names_of("strategies", asked.strategies, choices("strategy"))
    asked.stragglers = names_of("stragglers", asked.stragglers, choices("straggler"))
    if set(asked.strategies) <= {REFERENCE}:
        refuse(f"--strategies {REFERENCE}: is what the others are compared with; name another one")
    asked.workers = numbers_of("workers", asked.workers, least=1)
    asked.seeds = numbers_of("seeds", asked.seeds)
    asked.jobs = number_of("jobs", asked.jobs, least=1) if asked.jobs is not None else None
    return asked
