"""Titled tables of text, which a page shows or keeps in files next to its figure, and their cells."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import isnan
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd

from analysis.files import write_file
from analysis.markup import markdown_lines, to_csv

DASH = "\N{EN DASH}"


class Sheet(NamedTuple):
    """A table: title, header and rows of text."""

    title: str
    heads: Sequence[str]
    rows: list[list[str]]


def write_sheets(tables: Iterable[Sheet], picture: Path, group: str = "") -> dict[str, Path]:
    """Write them as CSV files next to the figure of their page, by names that follow from their titles: the keys."""
    names = {"_".join(sheet.title.partition(",")[0].lower().split()): sheet for sheet in tables if sheet.rows}
    return {
        name: write_file(picture.with_name(f"{picture.stem}_{name}{group}.csv"), to_csv(sheet.heads, sheet.rows))
        for name, sheet in names.items()
    }


def page_lines(
    tables: Iterable[Sheet], files: Mapping[str, Path], page: Path, said: str, level: str = "##"
) -> Iterator[str]:
    """Markdown: these tables, and links to the ``files`` of others after what is ``said`` of them."""
    for sheet in tables:
        yield from ("", f"{level} {sheet.title}", "", *markdown_lines(sheet.heads, sheet.rows))
    if files:
        links = ", ".join(
            f"[{name.replace('_', ' ')}]({file.relative_to(page.parent).as_posix()})" for name, file in files.items()
        )
        yield from ("", f"{said}: {links}.")


def number(value: float, spec: str) -> str:
    """The number; a dash if it was not measured."""
    return DASH if isnan(value) else format(value, spec)


def percent(value: float) -> str:
    """A fraction in per cent, with its sign; a dash if it was not measured."""
    return DASH if isnan(value) else f"{100 * value:+.1f} %"


def yes(value: Any) -> str:
    """A verdict; a dash if there is none."""
    return DASH if pd.isna(value) else "yes" if value else "NO"
