"""Tables of text on the terminal."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from typing import TYPE_CHECKING

from rich import box
from rich.console import Console
from rich.table import Table

from analysis.reports.comparing import Sheet

if TYPE_CHECKING:
    from analysis.reports import sheets as titled

TEXTS = ("case", "strategy", "verdict")
"""Columns of words, where runs are compared."""
WIDE = 1000
"""Columns in a file or pipe, so that no row is broken."""


def print_sheet(console: Console, sheet: Sheet, title: str, words: Collection[str]) -> None:
    """Columns named in ``words`` are aligned left, others right. A file or pipe is as wide as the table needs."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for head in sheet.head:
        table.add_column(head, justify="left" if head in words else "right")
    for row in sheet.rows:
        table.add_row(*row)
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table, options=console.options.update_width(1000)).maximum)
    console.print(table, markup=False)


def print_titled(console: Console, sheets: Iterable[titled.Sheet]) -> None:
    """All columns aligned left; each table below its own title. A file or pipe is wide enough for any row."""
    width, console.width = console.width, console.width if console.is_terminal else WIDE
    for sheet in sheets:
        table = Table(*sheet.heads, title=sheet.title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
        for row in sheet.rows:
            table.add_row(*row)
        console.print(table)
    console.width = width
