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
from itertools import product
from pathlib import Path

from rich.console import Console

from analysis.figures.fidelity import draw_fidelity
from analysis.files import write_file
from analysis.fitting.pacing import is_paced
from analysis.records.load import Run
from analysis.records.provenance import caption
from analysis.reports.fidelity import fidelity
from analysis.reports.fidelity_page import Sheet, addition, has_case, in_files, live_warnings, markdown, overran, sheets
from analysis.reports.fidelity_summary import verdict
from runtime.errors import refuse
from runtime.house import NAME
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from stragglab.grids.answering import answer
from stragglab.grids.choices import choices
from stragglab.grids.fidelity import GRIDS
from stragglab.grids.fidelity_runs import by_side, make_records, read_records
from stragglab.grids.grid import GRID, Runner
from stragglab.terminal.lists import names_of, number_of, numbers_of
from stragglab.terminal.sheets import print_titled

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
QUESTION = "How far are times of the virtual clock from live runs of the same jobs? Made by"
ADDED = "Run at another time than the rest of this page, and compared with each other alone. Made by"


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


# ---- the runs -------------------------------------------------------------------------------------------------------


# ---- the report -----------------------------------------------------------------------------------------------------


def report(runs: Sequence[Run], asked: argparse.Namespace, command: str, console: Console) -> None:
    """Print the tables; write ``fidelity.csv``, the figure with its CSV, and the page."""
    sides = by_side(runs)
    found = fidelity(
        sides["live"],
        sides["virtual"],
        asked.grid.tolerance_frac,
        again=sides["again"],
        slowed=sides["slowed"],
        paced=sides["paced"],
    )
    live_first = sorted(runs, key=lambda run: run.meta["runtime"] == "virtual")  # virtual ones start in any order
    metas, tables, verdicts = [run.meta for run in live_first], list(sheets(found)), verdict(found)
    paced = [overran(found)] if any(is_paced(meta["job"]) for meta in metas) else []
    warned = live_warnings(found)
    if asked.add:
        began = min(str(meta.get("started_at"))[:10] for meta in metas)
        names = ", ".join(dict.fromkeys(strategy for _, strategy, _ in asked.cases))
        head = f"## Added on {began}: {names}\n\n{ADDED}\n\n```\n{command}\n```\n\nfrom: {caption(metas)}."
        files = write_tables(tables, asked.add, asked.add.parent / "images", f"_{'_'.join(names.split(', '))}")
        body = addition(asked.add.read_text(), head, [*verdicts, *paced, *warned], tables, files)
        write_file(asked.add, f"{body}{own_settings(asked, '###', known=asked.add.read_text())}\n")
        console.print(str(asked.add), soft_wrap=True)
        return
    page = asked.report or asked.out / "fidelity.md"
    picture = page.parent / "images" / f"{page.stem}.png" if asked.report else asked.out / "jct.png"
    draw_fidelity(picture, metas, found.measures, found.runs, found.tolerance_frac)
    numbers = write_file(asked.out / "fidelity.csv", found.measures.to_csv(index=False))
    link = picture.relative_to(page.parent).as_posix()
    head = f"# {asked.grid.title}\n\n{QUESTION}\n\n```\n{command}\n```\n\nfrom: {caption(metas)}."
    files = write_tables(tables, page, picture.parent)
    body = markdown(head, [*verdicts, *paced, *warned], link, tables, files, found.tolerance_frac)
    write_file(page, body if asked.source else f"{body}{jobs(asked)}")
    print_titled(console, tables)
    for line in (*verdicts, *warned, numbers, picture, page):
        console.print(str(line), soft_wrap=True)


def write_tables(tables: Sequence[Sheet], page: Path, folder: Path, group: str = "") -> list[str]:
    """Write the tables that the page does not show; returns links to them."""
    written = {f"{page.stem}_{name}{group}.csv": text for name, text in in_files(tables).items()}
    return [write_file(folder / name, text).relative_to(page.parent).as_posix() for name, text in written.items()]


def jobs(asked: argparse.Namespace) -> str:
    """The settings of the jobs, and what the page does not cover."""
    return f"{own_settings(asked, '##')}\n{asked.grid.note}\n"


def own_settings(asked: argparse.Namespace, level: str, known: str = "") -> str:
    """The settings of all jobs, and of single strategies and patterns, without lines that the page has already."""
    grid = asked.grid
    lines = [f"all: `{' '.join([*grid.settings, *asked.overrides])}`"]
    for names, own in (
        ([case[0] for case in asked.cases], grid.of_straggler),
        ([case[1] for case in asked.cases], grid.of_strategy),
    ):
        lines += [f"{name}: `{' '.join(own[name])}`" for name in dict.fromkeys(names) if name in own]
    lines.append(f"1 % slower: `{' '.join(grid.slower)}`")
    new = [f"- {line}" for line in lines if f"\n- {line}\n" not in known]
    return "\n".join(["", f"{level} Settings of the jobs", "", *new, ""]) if new else "\n"


# ---- the command line -----------------------------------------------------------------------------------------------


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
    # who chooses the devices has to say what slower ones are
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


def cases_of(asked: argparse.Namespace) -> list[tuple[str, str, bool]]:
    """(straggler, strategy, whether to repeat it live): the grid's parts, or all combinations of what was named."""
    grid, chosen = asked.grid, asked.strategies is not None or asked.stragglers is not None
    twice = {name for part in grid.parts for name in part.twice.split(",")}
    if chosen:
        names = [
            names_of(kind, grid.listed(kind) if text is None else text, choices(group))
            for kind, group, text in (
                ("stragglers", "straggler", asked.stragglers),
                ("strategies", "strategy", asked.strategies),
            )
        ]
        return [(straggler, strategy, strategy in twice) for straggler, strategy in product(*names)]
    found = {
        (straggler, strategy): strategy in part.twice.split(",")
        for part in grid.parts
        for straggler, strategy in product(part.stragglers.split(","), part.strategies.split(","))
    }
    return [(*case, again) for case, again in found.items()]
