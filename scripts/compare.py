"""Run the same jobs live and on the virtual clock, and report how well the two agree.

python scripts/compare.py                                              # 120 runs, half an hour; into out/fidelity
python scripts/compare.py --costs my_machine --report docs/fidelity.md
python scripts/compare.py --grid hosts --seeds 0,1,2 --report docs/fidelity_hosts.md   # emulated hosts, throttled
python scripts/compare.py -o out/small --seeds 0 --strategies bsp,asp --stragglers none workload.epochs=2
python scripts/compare.py --from out/fidelity                          # only report, from the records that are there

Leave the machine alone meanwhile: whatever else computes lengthens the live runs. A record that is there is not made
again, so the same command goes on after an interruption. The exit code is 0 for a report (misses are part of it), 1
when a run failed, 2 for input that is of no use.
"""

from __future__ import annotations

import argparse
import shlex
import sys
from collections.abc import Sequence
from itertools import product
from pathlib import Path
from typing import NamedTuple

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from rich import box
from rich.console import Console
from rich.table import Table

from analysis.fidelity import TOLERANCE_FRAC, fidelity, verdict
from analysis.fidelity_page import markdown, overran, sheets
from analysis.figures.fidelity import draw_fidelity
from analysis.files import write_file
from analysis.load import RecordError, Run, find_runs, load_run
from analysis.pacing import is_paced
from analysis.provenance import caption
from runtime.errors import FAILED, INTERRUPTED, REFUSED, ConfigError, refuse, told
from runtime.preflight import preflight
from runtime.streams import run_program
from runtime.virtual.costs import load_costs
from scripts.grid import QUIET, ROOT, JobFailed, Runner, fill, quoted, run_child, stored


class Grid(NamedTuple):
    """What is compared unless told otherwise.

    ``clusters`` are by the runtime's name in records: a virtual run takes two seconds, so it comes first and shows what
    it cannot do.
    """

    clusters: dict[str, str]
    stragglers: str
    costs: str
    title: str
    out: str
    tolerance_frac: float = TOLERANCE_FRAC
    settings: tuple[str, ...] = ()
    seeds: str = "0,1,2,3,4"
    strategies: str = "bsp,asp,ssp,backup_workers"


GRIDS = {
    "local": Grid(
        clusters={"virtual": "virtual", "live": "local"},
        stragglers="none,transient,persistent",
        costs="local_tcp",
        title="Live against virtual",
        out="out/fidelity",
    ),
    "hosts": Grid(
        clusters={"virtual": "virtual_hosts", "live": "hosts"},
        stragglers="none,cpu_transient,link_transient",
        costs="hosts_tcp",
        title="Live against virtual, on emulated hosts",
        out="out/fidelity_hosts",
        tolerance_frac=0.10,
        # twice the epochs: windows of 3 s in 6 s show in jobs that last for a few of them
        settings=("workload=digits_cnn", "workload.epochs=32"),
    ),
}
CHOICES = ("seeds", "strategies", "stragglers", "costs")
OURS = {"strategy", "straggler", "seed", "cluster", "cluster.costs", "draw", "view", "hydra.run.dir", "hydra.sweep.dir"}
COSTS = "cluster.costs="
WIDE = 1000
"""Columns of a table that goes into a file."""


def main(argv: Sequence[str] | None = None, runner: Runner | None = None) -> int:
    """Returns the exit code."""
    words = sys.argv[1:] if argv is None else list(argv)
    console = Console(highlight=False, markup=False)
    try:
        asked = parse(words)
        runs = read_records(asked.source) if asked.source else make_records(asked, console, runner or run_child)
        report(runs, asked, shlex.join(["python", "scripts/compare.py", *words]), console)
    except (RecordError, ConfigError, JobFailed) as error:
        return told("compare.py", error, FAILED if isinstance(error, JobFailed) else REFUSED)
    except OSError as error:
        return told("compare.py", error, where=asked.out)
    except KeyboardInterrupt:
        return told("compare.py", "interrupted; the same command goes on from here", INTERRUPTED)
    return 0


# ---- the runs -------------------------------------------------------------------------------------------------------


class Cell(NamedTuple):
    """One run of the grid."""

    seed: str
    straggler: str
    strategy: str
    runtime: str

    @property
    def name(self) -> str:
        """Of its record."""
        return f"{self.strategy}_{self.straggler}_seed{self.seed}_{self.runtime}"


def make_records(asked: argparse.Namespace, console: Console, runner: Runner) -> list[Run]:
    """Those that are there, and what is missing, one run at a time. Raises :class:`ConfigError`, :class:`JobFailed`."""
    check_grid(asked)
    # seeds are the outer loop: when the machine changes its mood, all cases share that
    cells = [Cell(*each) for each in product(asked.seeds, asked.stragglers, asked.strategies, asked.grid.clusters)]
    found = {cell.name: present(cell, asked) for cell in cells}
    wanted = {cell.name: settings(cell, asked) for cell in cells}
    return list(fill(wanted, found, asked.out, console, runner, live=True).values())


def check_grid(asked: argparse.Namespace) -> None:
    """Refuse before the first run what ``run.py`` would refuse at the last one."""
    model = load_costs(asked.costs)
    asked.calibration = f"{model.name} {model.sha256[:8]}"
    where = f"hydra.sweep.dir={quoted(asked.out / 'unfinished' / 'sweep')}"
    for runtime in asked.grid.clusters:
        whole = Cell(",".join(asked.seeds), ",".join(asked.stragglers), ",".join(asked.strategies), runtime)
        preflight(["-m", *settings(whole, asked), where])


def settings(cell: Cell, asked: argparse.Namespace) -> list[str]:
    """What the run's command line says, but for the directory."""
    chosen = [f"{name}={value}" for name, value in zip(("seed", "straggler", "strategy"), cell[:3], strict=True)]
    costs = [f"{COSTS}{quoted(asked.costs)}"] if cell.runtime == "virtual" else []
    return [
        *asked.overrides,
        f"cluster={asked.grid.clusters[cell.runtime]}",
        *costs,
        *chosen,
        *QUIET,
    ]


def present(cell: Cell, asked: argparse.Namespace) -> Run | None:
    """Its record, if it is there; a virtual one of another cost model counts as missing."""
    run = stored(cell.name, settings(cell, asked), asked.out, apart=COSTS)
    if run is None or cell.runtime != "virtual":
        return run
    return run if str(run.meta.get("calibration")).partition(",")[0] == asked.calibration else None


def read_records(folder: Path) -> list[Run]:
    """Everything below ``folder``, or only below its ``records`` where it was made by this program."""
    if not folder.is_dir():
        raise RecordError(f"{folder}: no such directory; --from takes one with records")
    inside = folder / "records"
    found = find_runs(inside if inside.is_dir() else folder)
    if not found:
        raise RecordError(f"{folder}: no run here (a directory with meta.json and events.jsonl)")
    return sorted(map(load_run, found), key=lambda run: str(run.meta.get("started_at")))  # the order they were made in


# ---- the report -----------------------------------------------------------------------------------------------------


def report(runs: Sequence[Run], asked: argparse.Namespace, command: str, console: Console) -> None:
    """Tables on the terminal; ``fidelity.csv``, the figure with its CSV, and the page as files."""
    virtual = [run for run in runs if run.meta["runtime"] == "virtual"]
    live = [run for run in runs if run.meta["runtime"] != "virtual"]
    found = fidelity(live, virtual, asked.grid.tolerance_frac)
    metas, tables, verdicts = [run.meta for run in runs], list(sheets(found)), verdict(found)
    page = asked.report or asked.out / "fidelity.md"
    picture = page.parent / "images" / f"{page.stem}.png" if asked.report else asked.out / "jct.png"
    draw_fidelity(picture, metas, found.measures, found.runs, found.tolerance_frac)
    numbers = write_file(asked.out / "fidelity.csv", found.measures.to_csv(index=False))
    link = picture.relative_to(page.parent).as_posix()
    head = f"# {asked.grid.title}\n\nMade by\n\n```\n{command}\n```\n\nfrom: {caption(metas)}."
    paced = [overran(found)] if any(is_paced(meta["job"]) for meta in metas) else []
    write_file(page, markdown(head, [*verdicts, *paced], link, tables, found.tolerance_frac))
    width, console.width = console.width, console.width if console.is_terminal else WIDE
    for sheet in tables:
        table = Table(*sheet.heads, title=sheet.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)
    console.width = width
    for line in (*verdicts, numbers, picture, page):
        console.print(str(line), soft_wrap=True)


# ---- the command line -----------------------------------------------------------------------------------------------


def parse(words: Sequence[str]) -> argparse.Namespace:
    """With defaults filled in; raises :class:`ConfigError` with one line for what is of no use."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--grid", choices=list(GRIDS), default="local", help="what to compare (default: local)")
    for name in CHOICES:
        default = "; ".join(dict.fromkeys(getattr(grid, name) for grid in GRIDS.values()))
        parser.add_argument(f"--{name}", metavar="NAME" if name == "costs" else "LIST", help=f"default: {default}")
    parser.add_argument("-o", "--out", metavar="OUTDIR", type=Path, help="for everything (default: out/fidelity...)")
    parser.add_argument("--from", dest="source", metavar="DIR", type=Path, help="report on these records, run nothing")
    parser.add_argument("--report", metavar="FILE", type=Path, help="the page (default: OUTDIR/fidelity.md)")
    parser.add_argument("overrides", nargs="*", help="settings of all runs, such as workload.epochs=2")
    parser.error = refuse  # type: ignore[method-assign]
    asked = parser.parse_intermixed_args(list(words))
    asked.grid = GRIDS[asked.grid]
    if asked.report and asked.report.is_dir():
        refuse(f"--report {asked.report}: is a directory; name a file")
    if asked.source:
        if given := [f"--{name}" for name in CHOICES if getattr(asked, name) is not None] + asked.overrides:
            refuse(f"{given[0]}: not together with --from, which takes the records as they are")
        asked.out = asked.out or asked.source
        return asked
    asked.out = (asked.out or Path(asked.grid.out)).absolute()
    asked.costs = asked.grid.costs if asked.costs is None else asked.costs
    for name, group in (("seeds", None), ("strategies", "strategy"), ("stragglers", "straggler")):
        setattr(asked, name, listed(name, getattr(asked, name), getattr(asked.grid, name), group))
    given = [text.lstrip("+~").partition("=")[0] for text in asked.overrides]
    for name, text in zip(given, asked.overrides, strict=True):
        if name in OURS:
            refuse(f"{text}: is chosen by this program; see --help for its options")
    asked.overrides = [text for text in asked.grid.settings if text.partition("=")[0] not in given] + asked.overrides
    return asked


def listed(name: str, text: str | None, default: str, group: str | None) -> list[str]:
    """The items of a list, each once; choices of a config group, or seeds."""
    items = [item.strip() for item in (default if text is None else text).split(",") if item.strip()]
    if not items:
        refuse(f"--{name} {text!r}: names none; give some, such as {default}")
    known = sorted(path.stem for path in (ROOT / "conf" / group).glob("*.yaml")) if group else []
    for item in items:
        if group and item not in known:
            refuse(f"--{name} {item}: unknown; there are {', '.join(known)}")
        if not group and not (item.isascii() and item.isdigit()):
            refuse(f"--{name} {item}: must be whole numbers from 0 on, such as {default}")
    return list(dict.fromkeys(items if group else (f"{int(item)}" for item in items)))


if __name__ == "__main__":
    run_program("compare.py", main)
