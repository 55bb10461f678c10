"""Tables of text on the terminal."""

from __future__ import annotations

from collections.abc import Collection

from rich import box
from rich.console import Console
from rich.table import Table

from analysis.reports.comparing import Sheet


def print_sheet(console: Console, sheet: Sheet, title: str, words: Collection[str]) -> None:
    """Columns named in ``words`` stand at the left, others at the right. What is no terminal is as wide as it needs."""
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, pad_edge=False)
    for head in sheet.head:
        table.add_column(head, justify="left" if head in words else "right")
    for row in sheet.rows:
        table.add_row(*row)
    if not console.is_terminal:
        console.width = max(console.width, console.measure(table, options=console.options.update_width(1000)).maximum)
    console.print(table, markup=False)
