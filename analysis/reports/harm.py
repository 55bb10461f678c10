"""The page of harm and gain in Markdown: tables of ratios, and why cells are slower, by reason."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from math import isnan

import pandas as pd

from analysis.experiments.results import seeds_of
from analysis.experiments.spec import Spec
from analysis.markup import markdown_lines
from analysis.measures.harm import TOLERATED, Cell, Reasons, reason_for

UNKNOWN = "**No reason known.**"
HEAD = """\
How much longer or shorter does a job take with each strategy than with BSP, under the same stragglers? A cell is the
job completion time (JCT) divided by BSP's, on the virtual clock, with the shipped settings; a cell above {tolerated} is
**bold** and has its reason below. Made by `make harm` ({seeds}). [Ratios](images/{stem}.csv) with any number of workers
and [times]({stem}.csv) are files.

![JCT of all strategies relative to BSP](images/{picture})"""


def page(spec: Spec, jobs: pd.DataFrame, cells: Sequence[Cell], reasons: Reasons, picture: str, only: int) -> str:
    """The text of the page, in Markdown; ``picture`` is the name of its map, ``only`` the workers of its table."""
    stem = picture.rpartition(".")[0]
    head = HEAD.format(tolerated=TOLERATED, picture=picture, stem=stem, seeds=seeds_of(jobs))
    why = reason_lines(cells, reasons)
    parts = [
        f"# {spec.title}",
        head,
        spec.notes.strip(),
        *tables(cells, reasons, only),
        "## Why some are slower",
        "\n".join(why),
        "",
    ]
    return "\n\n".join(parts)


def tables(cells: Sequence[Cell], reasons: Reasons, only: int | None = None) -> Iterator[str]:
    """Markdown: a table and a summary line for every number of workers; of others than ``only`` the line alone."""
    counts = list(dict.fromkeys(cell.workers for cell in cells))
    for workers in counts:
        some = [cell for cell in cells if cell.workers == workers]
        at = {(cell.strategy, cell.straggler): cell for cell in some}
        stragglers = list(dict.fromkeys(cell.straggler for cell in some))
        yield f"## {workers} workers"
        rows = [
            [strategy, *(cell_text(at.get((strategy, straggler)), reasons) for straggler in stragglers)]
            for strategy in dict.fromkeys(cell.strategy for cell in some)
        ]
        if only not in counts or workers == only:
            yield "\n".join(markdown_lines(["strategy", *stragglers], rows))
        yield summary_line(some)


def cell_text(cell: Cell | None, reasons: Reasons) -> str:
    """The ratio, bold if it harms, with a mark if no reason is known."""
    if cell is None:
        return " "
    least = "> " if cell.outcome == "cut" else ""
    text = cell.outcome if isnan(cell.ratio) else f"{least}{cell.ratio:.2f}"  # without a ratio it or BSP has failed
    if not cell.is_harmful:
        return text
    return f"**{text}**" if reason_for(cell, reasons) else f"**{text}** ?"


def summary_line(cells: Sequence[Cell]) -> str:
    """The number of harmed cells among the tried ones (refused cells do not count), and the largest gain."""
    tried = [cell for cell in cells if cell.outcome != "refused"]
    failed = [cell for cell in tried if cell.outcome == "failed"]
    harmed = [cell for cell in tried if cell.is_harmful and cell.outcome != "failed"]
    timed = [cell for cell in tried if cell.outcome == "done" and not isnan(cell.ratio)]
    best = min(timed, key=lambda cell: cell.ratio, default=None)
    parts = [f"{len(harmed)} of {len(tried)} cells are more than {TOLERATED - 1:.0%} slower than BSP"]
    parts += [f"{len(failed)} failed"] if failed else []
    if best is not None:
        parts.append(f"the best is `{best.strategy}` under `{best.straggler}`, {best.ratio:.2f}")
    return "; ".join(parts) + "."


def reason_lines(cells: Sequence[Cell], reasons: Reasons) -> Iterator[str]:
    """A line per reason: the strategies and stragglers that it is for, with the ratios, and why; refusals last."""
    order = {strategy: place for place, strategy in enumerate(reasons)}
    harmed = sorted((cell for cell in cells if cell.is_harmful), key=lambda cell: order.get(cell.strategy, len(order)))
    by_reason: dict[str, list[Cell]] = {}
    for cell in harmed:
        reason = reason_for(cell, reasons)
        by_reason.setdefault(reason.why if reason else UNKNOWN, []).append(cell)
    for why, held in by_reason.items():
        names, stragglers = (
            ", ".join(dict.fromkeys(getattr(cell, name) for cell in held)) for name in ("strategy", "straggler")
        )
        yield f"- **{names}** under {stragglers} ({span(held)}): {why}"
    yield from refusal_lines(cells)


def span(cells: Sequence[Cell]) -> str:
    """``1.15 to 1.28``, one number if all are alike, the outcome of a job that failed; empty: no cells."""
    known = sorted(cell.ratio for cell in cells if not isnan(cell.ratio))
    texts = [f"{known[0]:.2f}", f"{known[-1]:.2f}"] if known else []
    cut = "> " if any(cell.outcome == "cut" for cell in cells) else ""
    found = [cut + " to ".join(dict.fromkeys(texts))] if texts else []
    return ", ".join([*found, *dict.fromkeys(cell.outcome for cell in cells if isnan(cell.ratio))])


def refusal_lines(cells: Sequence[Cell]) -> Iterator[str]:
    """Return the refused combinations with their reasons."""
    there = [cell for cell in cells if cell.outcome == "refused"]
    for strategy, note in dict.fromkeys((cell.strategy, cell.note) for cell in there):
        where = dict.fromkeys(cell.workers for cell in there if (cell.strategy, cell.note) == (strategy, note))
        yield f"- `{strategy}` is refused with {', '.join(map(str, where))} workers: {note}"
