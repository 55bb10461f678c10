"""The part of a hand-written page that a program writes, between two marks."""

from __future__ import annotations

from pathlib import Path

from analysis.files import write_file
from runtime.errors import refuse


def put_between(page: Path, generated: str, start: str, end: str, title: str) -> Path:
    """Replace the text between the two marks of ``page``; hand-written text around it stays.

    A page that does not exist is made, with ``title``. One without marks raises :class:`runtime.errors.ConfigError`.
    """
    if not page.exists():
        return write_file(page, f"# {title}\n\n{start}\n\n{generated}\n\n{end}\n")
    before, found, rest = page.read_text().partition(start)
    _, closed, after = rest.partition(end)
    if not (found and closed):
        refuse(f"--report {page}: lacks the lines {start} and {end}, between which the result goes; add them")
    return write_file(page, f"{before}{start}\n\n{generated}\n\n{end}{after}")
