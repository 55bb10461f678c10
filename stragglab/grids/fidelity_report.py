"""The page of live and virtual runs, next to each other."""

from __future__ import annotations

import argparse
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console

from analysis.figures.fidelity import draw_fidelity
from analysis.files import write_file
from analysis.fitting.pacing import is_paced
from analysis.records.load import Run
from analysis.records.provenance import caption
from analysis.reports.fidelity import fidelity
from analysis.reports.fidelity_page import Sheet, addition, in_files, live_warnings, markdown, overran, sheets
from analysis.reports.fidelity_summary import verdict
from stragglab.grids.fidelity_runs import by_side
from stragglab.terminal.sheets import print_titled

QUESTION = "How far are times of the virtual clock from live runs of the same jobs? Made by"
ADDED = "Run at another time than the rest of this page, and compared with each other alone. Made by"


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
