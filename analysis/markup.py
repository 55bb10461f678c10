"""A table of text as CSV, Markdown or LaTeX."""

from __future__ import annotations

import csv
from collections.abc import Callable, Iterable, Sequence
from io import StringIO

from reading.harmless import HARMLESS

LATEX = {
    **{sign: rf"\{sign}" for sign in "&%$#_{}"},
    "\\": r"\textbackslash{}",
    "~": r"\textasciitilde{}",
    "^": r"\textasciicircum{}",
    "<": r"\textless{}",
    ">": r"\textgreater{}",
    "\N{EN DASH}": "--",
    "\N{EM DASH}": "---",
    "\N{INFINITY}": r"$\infty$",
    "\N{MINUS SIGN}": r"$-$",
    "\N{MULTIPLICATION SIGN}": r"$\times$",
    "\N{MIDDLE DOT}": r"\textperiodcentered{}",
    "\N{NO-BREAK SPACE}": "~",
    "|": r"\textbar{}",
    '"': "''",
    **dict.fromkeys("\n\r\t", " "),
}
"""Characters that LaTeX would not print as they are."""
OPTIONS = ("[", "*")
"""At the begin of a row LaTeX takes them for a part of the end of the row before."""


def to_csv(head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """Comma-separated values with a head, quoted where needed; without the notes, which programs cannot read."""
    out = StringIO()
    csv.writer(out, lineterminator="\n").writerows([head, *rows])
    return out.getvalue()


def markdown_lines(head: Sequence[str], rows: Iterable[Sequence[str]]) -> list[str]:
    """Lines of a table of GitHub's Markdown; an empty cell is a blank."""
    lines = [head, ["---"] * len(head), *rows]
    return [f"| {' | '.join(_markdown(cell) or ' ' for cell in line)} |" for line in lines]


def _markdown(cell: str) -> str:
    return " ".join(cell.replace("|", r"\|").splitlines())


def to_markdown(head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """The same as a text, with the notes below it."""
    lines = [*markdown_lines(head, rows), *(line for note in notes for line in ("", note.replace("*", r"\*")))]
    return "".join(f"{line}\n" for line in lines)


def to_latex(head: Sequence[str], rows: Sequence[Sequence[str]], notes: Sequence[str] = ()) -> str:
    """A ``tabular`` with the rules of ``booktabs``: numbers at the right, words at the left; below it the notes."""
    places = "".join("r" if _is_numeric([row[column] for row in rows]) else "l" for column in range(len(head)))
    lines = [rf"\begin{{tabular}}{{{places}}}", r"\toprule", _latex_row(head), r"\midrule"]
    lines += [*(_latex_row(row) for row in rows), r"\bottomrule", r"\end{tabular}"]
    lines += [r"\par\smallskip{\footnotesize", *(rf"{_latex(note)}\par" for note in notes), "}"] if notes else []
    return "\n".join(lines) + "\n"


def _latex_row(cells: Sequence[str]) -> str:
    return ("{}" if cells[0].startswith(OPTIONS) else "") + " & ".join(map(_latex, cells)) + r" \\"


def _latex(text: str) -> str:
    return "".join(LATEX.get(sign, sign) for sign in text.translate(HARMLESS))


def _is_numeric(cells: Sequence[str]) -> bool:
    return any(cells) and all(cell[:1].isdigit() or cell[:1] in "-[\N{EN DASH}\N{INFINITY}" for cell in cells if cell)


FORMATS: dict[str, Callable[[Sequence[str], Sequence[Sequence[str]], Sequence[str]], str]] = {
    "csv": to_csv,
    "markdown": to_markdown,
    "latex": to_latex,
}
FOR_PEOPLE = ("markdown", "latex")
"""Formats for people, who know systems by their papers' names; programs look up configurations' names."""
