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
from collections.abc import Iterable, Iterator, Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from analysis.figures.fidelity import draw_fidelity
from analysis.files import write_file
from analysis.fitting.pacing import is_paced
from analysis.records.load import RecordError, Run, find_runs, load_run
from analysis.records.provenance import caption
from analysis.reports.fidelity import fidelity, processor_speed
from analysis.reports.fidelity_page import addition, has_case, live_warnings, markdown, overran, sheets
from analysis.reports.fidelity_summary import verdict
from runtime.errors import refuse
from runtime.house import NAME
from runtime.run.preflight import preflight
from runtime.run.probing import refuse_unwritable_file, refuse_unwritable_folder
from runtime.virtual.costs import load_costs
from stragglab.grids.choices import choices
from stragglab.grids.fidelity import GRIDS
from stragglab.grids.forks import processors, run_here
from stragglab.grids.grid import GRID, QUIET, Runner, fill, quoted, run_child, stored, words_of
from stragglab.terminal.answering import answer
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
COSTS = "cluster.costs="
ADDED = "Run at another time than the rest of this page, and compared with each other alone. Made by"
SIDES = {"virtual": "virtual", "slowed": "virtual", "live": "live", "again": "live", "paced": "virtual"}
"""The variants of a case and their runtimes: ``slowed`` on devices that are 1 % slower, ``again`` a second time,
``paced`` on processors as fast as live."""
FIRST = ("virtual", "slowed", "live", "again")
"""Those that need no records of others."""


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


class Cell(NamedTuple):
    """One run of the grid."""

    seed: str
    straggler: str
    strategy: str
    side: str

    @property
    def name(self) -> str:
        """Name of the run's record directory."""
        return f"{self.strategy}_{self.straggler}_seed{self.seed}_{self.side}"


def make_records(asked: argparse.Namespace, console: Console, runner: Runner | None) -> list[Run]:
    """Existing records and newly made ones. Raises :class:`ConfigError`, :class:`JobFailed`.

    ``runner``: instead of ``run.py``, for tests.
    """
    cells = list(cells_of(asked))
    paced = sum(cell.side == "live" for cell in cells) if asked.pacing and not asked.only else 0
    console.print(f"{len(cells) + paced} runs of {len(asked.cases)} cases; their settings are checked first")
    check_grid(asked)
    found = {cell.name: present(cell, asked) for cell in cells}
    runs: list[Run] = []
    # a virtual run takes a second, so these come first and reveal what cannot be done
    for runtime in [asked.only] if asked.only else dict.fromkeys(SIDES.values()):
        wanted = {cell.name: settings(cell, asked) for cell in cells if SIDES[cell.side] == runtime}
        runs += make_runs(wanted, found, asked, console, runner, live=runtime == "live")
    return runs if asked.only or not asked.pacing else [*runs, *make_paced(cells, runs, asked, console, runner)]


def make_paced(
    cells: Sequence[Cell], runs: Sequence[Run], asked: argparse.Namespace, console: Console, runner: Runner | None
) -> list[Run]:
    """The virtual run of every live one again, on processors as fast as live."""
    known = {Path(run.path).name: run for run in runs}
    wanted, found = {}, {}
    for cell in (cell for cell in cells if cell.side == "live"):
        paced, virtual = cell._replace(side="paced"), cell._replace(side="virtual")
        words = at_speed(settings(paced, asked), asked, processor_speed(known[cell.name], known[virtual.name]))
        run: Run | None = stored(paced.name, words, asked.out, apart=(COSTS, f"{asked.grid.speed}="))
        same = run and {*words} == {*words_of(Path(run.path))} and asked.model.is_of(run.meta.get("calibration"))
        wanted[paced.name], found[paced.name] = words, run if same else None  # one of another factor is made again
    return make_runs(wanted, found, asked, console, runner, live=False)


def make_runs(
    wanted: dict[str, list[str]],
    found: dict[str, Run | None],
    asked: argparse.Namespace,
    console: Console,
    runner: Runner | None,
    *,
    live: bool,
) -> list[Run]:
    """The records of these settings by name: virtual runs in forks, live ones one after another."""
    forks = 0 if live or (runner and not asked.jobs) else asked.jobs or processors()
    chosen = runner or (run_child if live else run_here)
    return list(fill(wanted, found, asked.out, console, chosen, live=live, forks=forks).values())


def at_speed(words: Sequence[str], asked: argparse.Namespace, factor: float) -> list[str]:
    """The settings with processors that are ``factor`` times as fast."""
    name = asked.grid.speed
    cores = float(next(word for word in words if word.startswith(f"{name}=")).partition("=")[2])
    return [f"{name}={cores * factor:.6g}" if word.startswith(f"{name}=") else word for word in words]


def cells_of(asked: argparse.Namespace) -> Iterator[Cell]:
    """Seeds are the outer loop: drifts of the machine affect all cases alike, and finished seeds are complete."""
    for number, seed in enumerate(asked.seeds):
        for side in FIRST:
            for straggler, strategy, twice in asked.cases:
                early = number < asked.repeats
                wanted = {"again": early and twice, "slowed": early and asked.slowing}
                if wanted.get(side, True):
                    yield Cell(seed, straggler, strategy, side)


def check_grid(asked: argparse.Namespace) -> None:
    """Check the settings of every case before the first run, rather than have ``run.py`` refuse the last one.

    Of one seed: whether settings are valid does not depend on it.
    """
    model = load_costs(asked.costs)
    asked.model = model
    where = f"hydra.run.dir={quoted(asked.out / 'unfinished' / 'check')}"
    for straggler, strategy, _ in asked.cases:
        for side in ("virtual", "live"):
            preflight([*settings(Cell(asked.seeds[0], straggler, strategy, side), asked), where])


def settings(cell: Cell, asked: argparse.Namespace) -> list[str]:
    """The run's command-line settings, except for the directory."""
    grid, runtime = asked.grid, SIDES[cell.side]
    layers = (
        grid.settings,
        grid.of_straggler.get(cell.straggler, ()),
        grid.of_strategy.get(cell.strategy, ()),
        asked.overrides,
        grid.slower if cell.side == "slowed" else (),
    )
    chosen = {text.partition("=")[0]: text for layer in layers for text in layer}  # later ones override earlier ones
    return [
        *chosen.values(),
        f"runtime={runtime}",
        f"cluster={grid.cluster}",
        *([f"{COSTS}{quoted(asked.costs)}"] if runtime == "virtual" else []),
        f"seed={cell.seed}",
        f"straggler={cell.straggler}",
        f"strategy={cell.strategy}",
        *QUIET,
    ]


def present(cell: Cell, asked: argparse.Namespace) -> Run | None:
    """The record of this run, if it exists; a virtual one of another cost model counts as missing."""
    run: Run | None = stored(cell.name, settings(cell, asked), asked.out, apart=COSTS)
    if run is None or SIDES[cell.side] != "virtual":
        return run
    return run if asked.model.is_of(run.meta.get("calibration")) else None


def read_records(folder: Path) -> list[Run]:
    """All records below ``folder``, or only below its ``records`` if this program made it."""
    if not folder.is_dir():
        raise RecordError(f"{folder}: no such directory; --from takes one with records")
    inside = folder / "records"
    found = find_runs(inside if inside.is_dir() else folder)
    if not found:
        raise RecordError(f"{folder}: no run here (a directory with meta.json and events.jsonl)")
    return sorted(map(load_run, found), key=lambda run: str(run.meta.get("started_at")))  # in order of creation


def by_side(runs: Iterable[Run]) -> dict[str, list[Run]]:
    """The runs by variant: as the end of the name says, else by runtime."""
    found: dict[str, list[Run]] = {side: [] for side in SIDES}
    for run in runs:
        said, runtime = (
            Path(run.path).name.rpartition("_")[2],
            "virtual" if run.meta["runtime"] == "virtual" else "live",
        )
        found[said if SIDES.get(said) == runtime else runtime].append(run)
    return found


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
        body = addition(asked.add.read_text(), head, [*verdicts, *paced, *warned], tables)
        write_file(asked.add, f"{body}{own_settings(asked, '###')}\n")
        console.print(str(asked.add), soft_wrap=True)
        return
    page = asked.report or asked.out / "fidelity.md"
    picture = page.parent / "images" / f"{page.stem}.png" if asked.report else asked.out / "jct.png"
    draw_fidelity(picture, metas, found.measures, found.runs, found.tolerance_frac)
    numbers = write_file(asked.out / "fidelity.csv", found.measures.to_csv(index=False))
    link = picture.relative_to(page.parent).as_posix()
    head = f"# {asked.grid.title}\n\nMade by\n\n```\n{command}\n```\n\nfrom: {caption(metas)}."
    body = markdown(head, [*verdicts, *paced, *warned], link, tables, found.tolerance_frac)
    write_file(page, body if asked.source else f"{body}{jobs(asked)}")
    print_titled(console, tables)
    for line in (*verdicts, *warned, numbers, picture, page):
        console.print(str(line), soft_wrap=True)


def jobs(asked: argparse.Namespace) -> str:
    """The settings of the jobs, and what the page does not cover."""
    return f"{own_settings(asked, '##')}\n{asked.grid.note}\n"


def own_settings(asked: argparse.Namespace, level: str) -> str:
    """The settings of all jobs, and of single strategies and patterns."""
    grid = asked.grid
    lines = [f"all: `{' '.join([*grid.settings, *asked.overrides])}`"]
    for names, own in (
        ([case[0] for case in asked.cases], grid.of_straggler),
        ([case[1] for case in asked.cases], grid.of_strategy),
    ):
        lines += [f"{name}: `{' '.join(own[name])}`" for name in dict.fromkeys(names) if name in own]
    lines.append(f"1 % slower: `{' '.join(grid.slower)}`")
    return "\n".join(["", f"{level} Settings of the jobs", "", *(f"- {line}" for line in lines), ""])


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
    refuse_unwritable_folder("-o", asked.out or own, (*GRID, "fidelity.*", "jct.*"))
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
