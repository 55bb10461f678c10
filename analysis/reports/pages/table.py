"""A table that fits: the columns that matter first, the others behind a switch that needs no script."""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from html import escape
from typing import Literal, NamedTuple

Place = Literal["always", "middle", "more"]
"""Where a column is shown: always, not on a phone, or only with the switch."""
INTERVAL = re.compile(r"^(\S+) (\[[^\]]*\])(.*)$")
"""A number with its interval, and what follows."""


class Head(NamedTuple):
    """One column; ``kind``: numbers stand at the right, words at the left, and texts are wrapped, too."""

    text: str
    place: Place = "always"
    kind: Literal["number", "word", "text"] = "number"


class Cell(NamedTuple):
    """One text; ``best``: in bold; ``colour``: a patch in front; ``href``: where it leads; ``more``: HTML below."""

    text: str
    best: bool = False
    colour: str = ""
    href: str = ""
    more: str = ""


def table_html(heads: Sequence[Head], rows: Iterable[Sequence[Cell | str]]) -> str:
    """The table, in a box of its own that scrolls where all columns are too wide; every text is escaped."""
    classes = [" ".join(filter(None, (_kind(head), _place(head)))) for head in heads]
    head = "".join(f'<th scope="col"{_class(c)}>{escape(h.text)}</th>' for c, h in zip(classes, heads, strict=True))
    lines = "".join(f"<tr>{_row(classes, row)}</tr>\n" for row in rows)
    table = f"<table><thead><tr>{head}</tr></thead><tbody>\n{lines}</tbody></table>"
    return f'<div class="sheet">{_switch(heads)}<div class="wide">{table}</div></div>'


def _switch(heads: Sequence[Head]) -> str:
    places = {head.place for head in heads} - {"always"}
    if not places:
        return ""
    few = "" if "more" in places else " few"  # all is shown where the screen is not narrow
    return f'<label class="switch{few}"><input type="checkbox"> all columns</label>'


def _row(classes: Sequence[str], row: Sequence[Cell | str]) -> str:
    return "".join(
        _cell(kind, Cell(one) if isinstance(one, str) else one) for kind, one in zip(classes, row, strict=True)
    )


def _cell(kind: str, cell: Cell) -> str:
    found = INTERVAL.match(cell.text)
    text = escape(cell.text)
    if found:
        text = f'{escape(found[1] + found[3])}<span class="interval">{escape(found[2])}</span>'
    if cell.href:
        text = f'<a href="{escape(cell.href)}">{text}</a>'
    patch = f'<span class="swatch" style="background:{escape(cell.colour)}"></span>' if cell.colour else ""
    names = " ".join(filter(None, (kind, "best" * cell.best)))
    return f"<td{_class(names)}>{patch}{text}{cell.more}</td>"


def _class(names: str) -> str:
    return f' class="{names}"' if names else ""


def _kind(head: Head) -> str:
    return "" if head.kind == "number" else head.kind


def _place(head: Head) -> str:
    return "" if head.place == "always" else head.place
