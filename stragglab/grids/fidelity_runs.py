"""The runs of a comparison of clocks: live, on the virtual clock, and at speeds that were measured."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import NamedTuple

from rich.console import Console

from analysis.records.load import RecordError, Run, find_runs, load_run
from analysis.reports.fidelity import processor_speed
from runtime.run.preflight import preflight
from runtime.virtual.costs import load_costs
from stragglab.grids.forks import processors, run_here
from stragglab.grids.grid import QUIET, Runner, fill, quoted, run_child, stored, words_of

COSTS = "cluster.costs="
SIDES = {"virtual": "virtual", "slowed": "virtual", "live": "live", "again": "live", "paced": "virtual"}
"""The variants of a case and their runtimes: ``slowed`` on devices that are 1 % slower, ``again`` a second time,
``paced`` on processors as fast as live."""
FIRST = ("virtual", "slowed", "live", "again")
"""Runs that need no other records."""


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
