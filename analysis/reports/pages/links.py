"""The way from a page to runs: their pages, directories, files and command lines, and back to the sweep."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from html import escape
from pathlib import Path

from analysis.records.settings import CONFIG, command_of, settings_text, sweep_command, sweep_of
from analysis.reports.pages.document import Link, command_html, link_html, settings_html
from analysis.reports.pages.table import Cell

PAGE = "report.html"
FILES = ("summary.json", "timeline.json", "events.jsonl", "cluster.jsonl")


def run_cell(path: Path, out: Path) -> Cell:
    """A run in a table of a page in ``out``: it leads to the run's page, or to its directory if it has none."""
    to = path / PAGE if (path / PAGE).exists() else path
    return Cell(path.name, href=address(to, out), more=files_html(path, out))


def sweeps_html(runs: Iterable[Path]) -> str:
    """The command lines of the sweeps that these runs are part of."""
    sweeps = list(dict.fromkeys(filter(None, map(sweep_of, runs))))
    return "".join(command_html(command) for command in map(sweep_command, sweeps) if command)


def record_html(path: Path, files: Mapping[str, str], more: str = "") -> str:
    """The record of the run whose page is in ``path``: command line, what it has of ``files``, ``more``, settings."""
    command = command_of(path)
    items = "".join(
        f"<li>{link_html(Link(name, name))}: {escape(what)}</li>"
        for name, what in files.items()
        if (path / name).exists()
    )
    line = command_html(command) if command else ""
    return f"{line}<ul>{items}</ul>{more}{settings_html(settings_text(path))}"


def files_html(path: Path, out: Path) -> str:
    """The command line of a run, and its files, folded; ``out``: where the page is."""
    links = [Link(address(path, out), "directory")]
    links += [Link(address(path / CONFIG, out), "configuration")] if (path / CONFIG).exists() else []
    links += [Link(address(path / name, out), name) for name in FILES if (path / name).exists()]
    command = command_of(path)
    found = (command_html(command) if command else "") + ", ".join(map(link_html, links))
    return f"<details><summary>{'command and files' if command else 'files'}</summary>{found}</details>"


def address(path: Path, out: Path) -> str:
    """The relative address of a file or directory, from a page in ``out``."""
    return f"{quote_path(os.path.relpath(path, out))}{'/' if path.is_dir() else ''}"


def back_to_sweep(path: Path) -> list[Link]:
    """From the page in a run's directory to its sweep's page, if it is part of a sweep."""
    sweep = sweep_of(path)
    return [Link(address(sweep / "comparison" / PAGE, path.resolve()), "the sweep")] if sweep else []


def quote_path(path: str) -> str:
    """A path as an address; bytes that are not text come through, too."""
    from urllib.parse import quote

    return quote(os.fsencode(path))
