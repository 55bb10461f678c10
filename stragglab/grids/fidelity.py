"""The part of a comparison of clocks that was asked for, and its page."""

from __future__ import annotations

import argparse
from collections.abc import Iterable, Sequence
from pathlib import Path

import msgspec
from rich.console import Console

from analysis.experiments.results import Results
from analysis.experiments.spec import Also, Cell, Spec, cells, narrow
from analysis.figures.experiment.agreement import draw
from analysis.files import write_file
from analysis.measures.agreement import CASE, SIDE
from analysis.records.either import Record
from analysis.records.load import Run
from analysis.records.provenance import caption
from analysis.reports.fidelity import fidelity
from analysis.reports.fidelity_page import brief, has_case, notes, sheets, verdict
from analysis.reports.sheets import page_lines, write_sheets
from runtime.errors import refuse
from stragglab.grids.choices import choices
from stragglab.terminal.lists import names_of
from stragglab.terminal.sheets import print_titled

QUESTION = "How far are times of the virtual clock from live runs of the same jobs? Made by"
ADDED = "Run at another time than the rest of this page, and compared with each other alone. Made by"
OURS = {*CASE, "seed", "runtime", "cluster", "cluster.costs", "draw", "view", "hydra.run.dir", "hydra.sweep.dir"}
"""Settings that a comparison chooses itself."""


def choose_cases(spec: Spec, asked: argparse.Namespace) -> Spec:
    """The experiment with the cases, seeds and settings that were asked for; all combinations of what is named."""
    sides = [side for side in spec.axes[SIDE] if side in ("virtual", "slowed")]
    spec = narrow(spec, asked.seeds, {SIDE: sides} if asked.only else {})
    given = {text.lstrip("+~").partition("=")[0]: text for text in asked.overrides}
    if ours := [text for name, text in given.items() if name in OURS]:
        refuse(f"{ours[0]}: is chosen by this program; see --help for its options")
    axes = dict(spec.axes)
    for axis, flag in zip(CASE, ("stragglers", "strategies"), strict=True):
        if (text := getattr(asked, flag)) is not None:
            axes[axis] = {
                name: spec.axes[axis].get(name, (f"{axis}={name}",)) for name in names_of(flag, text, choices(axis))
            }
            spec = msgspec.structs.replace(spec, parts=())
    # a user who chooses the devices, or the speed of processors, would have to choose the slower ones, too
    slower = {word.partition("=")[0] for word in axes[SIDE].get("slowed", ())}
    dropped = {"slowed": slower & {*given}, "paced": spec.pacing in given}
    axes[SIDE] = {side: words for side, words in axes[SIDE].items() if not dropped.get(side)}
    costs = [f"cluster.costs={asked.costs}"] if asked.costs else []
    virtual = tuple(side for side in axes[SIDE] if "runtime=virtual" in axes[SIDE][side])
    also = (*spec.also, Also({SIDE: virtual}, tuple(costs)), Also({}, tuple(asked.overrides)))
    spec = msgspec.structs.replace(spec, axes=axes, also=also)
    if asked.add is None:
        return spec
    page = asked.add.read_text()
    there = [dict(zip(CASE, case, strict=True)) for case in cases_of(cells(spec)) if has_case(page, *case)]
    return msgspec.structs.replace(spec, without=(*spec.without, *there))


def cases_of(some: Iterable[Cell]) -> list[tuple[str, str]]:
    """Straggler and strategy of all cells, once."""
    return list(dict.fromkeys((cell.levels["straggler"], cell.levels["strategy"]) for cell in some))


def compare_clocks(
    spec: Spec, there: Sequence[tuple[Cell, Record]], page: Path, command: str, console: Console, *, add: bool = False
) -> Results:
    """Print the tables and write the page with its figure and files, or ``add`` a group of cases to it."""
    records = [(cell, run) for cell, run in there if isinstance(run, Run)]
    found = fidelity(records, spec.figure.within_frac)
    # live ones first: virtual ones start in any order
    metas = sorted((run.meta for _, run in records), key=lambda meta: meta["runtime"] == "virtual")
    tables, points = list(sheets(found)), verdict(found)
    picture = page.parent / "images" / f"{page.stem}.png"
    names = dict.fromkeys(strategy for _, strategy in cases_of(cell for cell, _ in records))
    group = "_".join(["", *names]) if add else ""
    files = write_sheets(tables, picture, group)
    shown = page_lines([brief(tables[0])], files, page, "Whole tables", "###" if add else "##")
    block, source = f"\n\n```\n{command}\n```", f"\n\nfrom: {caption(metas)}."
    said = [f"- {point}" for point in points]
    results = Results(spec=spec, runs=found.runs, metas=metas)
    if add:
        before, began = page.read_text(), min(str(meta.get("started_at"))[:10] for meta in metas)
        made = " the command above." if block in before else block
        head = f"## Added on {began}: {', '.join(names)}\n\n{ADDED}{made}{source}"
        lines = [before.rstrip("\n"), "", head, "", *said, *shown]
        write_file(page, "\n".join([*lines, ""]))
    else:
        draw(picture, results)
        out = Path(records[0][1].path).parents[1]
        measures = write_file(out / f"{spec.name}.csv", found.measures.to_csv(index=False))
        lines = [f"# {spec.title}\n\n{QUESTION}{block}{source}", "", *said, ""]
        lines += [f"![job completion times](images/{picture.name})", "", notes(found), *shown, "", "## The jobs", ""]
        write_file(
            page, "\n".join([*lines, f"Their settings are in `conf/experiment/{spec.name}.yaml`.", "", spec.notes])
        )
        print_titled(console, tables)
        for line in (*points, measures, picture):
            console.print(str(line), soft_wrap=True)
    console.print(str(page), soft_wrap=True)
    return results
