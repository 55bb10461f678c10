"""A page as one document: style and scripts inside, nothing that is loaded from elsewhere, readable without scripts."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Iterable, Mapping, Sequence
from functools import cache
from html import escape
from pathlib import Path
from typing import NamedTuple

from analysis.figures.style import DPI, WIDTH_IN
from analysis.records.provenance import without
from reading.harmless import HARMLESS

META = (
    '<meta charset="utf-8"><meta name="viewport" content="width=device-width, initial-scale=1">'
    '<meta name="color-scheme" content="light dark">'
)
MOST_NOTES = 6
"""So many remarks are shown at once."""
FOOT = "Made by Stragglab from the records alone; this file needs no other."


class Link(NamedTuple):
    """A place and what it is called; ``href`` is relative to the page, or an anchor of it."""

    href: str
    text: str


def document(title: str, about: str, body: str, *, back: Sequence[Link] = (), lead: str = "") -> str:
    """A whole page.

    Args:
        title: its heading.
        about: where its numbers are from: a sentence below the heading.
        body: HTML.
        back: pages that this one belongs to.
        lead: HTML above the body, in the page's head.
    """
    where = "".join(f" / {link_html(link)}" for link in back)
    head = f"<title>Stragglab: {escape(title)}</title>\n<style>\n{file_text('look.css')}</style>"
    top = f'<p class="where">Stragglab{where}</p><h1>{escape(title)}</h1><p class="origin">{escape(about)}</p>{lead}'
    page = (
        f'<!DOCTYPE html>\n<html lang="en"><head>{META}{head}</head>\n<body>\n<header>{top}</header>\n'
        f"<main>{body}</main>\n<footer><p>{FOOT}</p></footer>\n<script>\n{file_text('tables.js')}</script>\n</body></html>\n"
    )
    return page.translate(HARMLESS)


@cache
def file_text(name: str) -> str:
    """A file of this folder: style or script."""
    return (Path(__file__).parent / name).read_text(encoding="utf-8")


def link_html(link: Link) -> str:
    """The link; every text is escaped."""
    return f'<a href="{escape(link.href)}">{escape(link.text)}</a>'


def sections_html(links: Sequence[Link]) -> str:
    """Links to the parts of a long page."""
    return f'<nav aria-label="Parts of this page">{"".join(map(link_html, links))}</nav>'


def notes_html(lines: Sequence[str], title: str = "Warnings") -> str:
    """A list of remarks under a title; nothing for none."""
    items = [f"<li>{escape(line)}</li>" for line in lines]
    first, others = "".join(items[:MOST_NOTES]), items[MOST_NOTES:]
    more = f"<details><summary>and {len(others)} more</summary><ul>{''.join(others)}</ul></details>" if others else ""
    return f'<div class="warnings"><h2>{escape(title)}</h2><ul>{first}</ul>{more}</div>' if lines else ""


def numbers_html(numbers: Mapping[str, tuple[str, str]]) -> str:
    """The numbers that matter most, by name: a text, and a unit or remark in small print."""
    cells = "".join(
        f"<div><dt>{escape(name)}</dt><dd>{escape(text)}{f' <small>{escape(more)}</small>' if more else ''}</dd></div>"
        for name, (text, more) in numbers.items()
    )
    return f'<dl class="numbers">{cells}</dl>'


def command_html(command: str) -> str:
    """A command line, with a button that copies it; the button appears where scripts run."""
    button = '<button type="button" class="copy" hidden>copy</button>'
    return f'<div class="command"><code>{escape(command)}</code>{button}</div>'


def settings_html(settings: str) -> str:
    """A run's configuration, folded; nothing if there is none."""
    folded = f"<details><summary>Configuration</summary><pre>{escape(settings)}</pre></details>"
    return folded if settings else ""


def figures_html(figures: Iterable[tuple[Path, str]], about: str = "") -> str:
    """Figures under each other, or side by side where there is room: (path, title); ``about``: the page's contents."""
    found = "".join(figure_html(path, title, about) for path, title in figures)
    return f'<div class="figures">{found}</div>' if found else ""


def figure_html(path: Path, title: str = "", about: str = "") -> str:
    """A PNG in the page itself, under ``title`` or the file's name.

    Below it, the part of its source (its text file) that ``about`` does not state for the whole page.
    """
    name = title or path.stem.replace("_", " ")
    said = path.with_suffix(".txt")
    more = without(said.read_text().strip(), about) if said.exists() else ""
    below = f"<figcaption>{escape(more)}</figcaption>" if more else ""
    return f"<figure><h3>{escape(name[:1].upper() + name[1:])}</h3>{image_html(path, name)}{below}</figure>"


def image_html(path: Path, name: str) -> str:
    """A PNG in the page itself; one that is narrower than a usual figure is shown narrower: texts are as large.

    On a phone it is as wide as it was drawn, so that its texts can be read, in a box that scrolls.
    """
    data = path.read_bytes()
    part = int.from_bytes(data[16:20], "big") / (WIDTH_IN * DPI)  # the width in the PNG's header
    narrow = f"--part:{part:.0%};" if 0.0 < part < 0.95 else ""
    style = f' style="{narrow}--drawn:{(part or 1.0) * WIDTH_IN:.2f}in"'
    return (
        f'<div class="picture"><img alt="{escape(name)}"{style} '
        f'src="data:image/png;base64,{b64encode(data).decode()}"></div>'
    )
