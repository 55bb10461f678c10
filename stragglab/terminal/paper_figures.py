"""Figures for a paper: ``--paper WIDTH`` of the programs that draw."""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from analysis.figures.page import Form

WIDTHS_IN = {"column": 3.33, "text": 7.0}
"""Widths of ACM's two-column style (acmart, sigconf); IEEE's are nearly the same."""
FORMATS = ("png", "pdf", "svg")


def add_paper(parser: argparse.ArgumentParser) -> None:
    """The option; its value is a width in inches, or None."""
    parser.add_argument(
        "--paper",
        metavar="WIDTH",
        type=_width_in,
        help="for a paper: column (3.33 in), text (7 in), or inches; PDF, SVG and PNG",
    )


def form_of(width_in: float, *, captioned: bool = False) -> Form:
    """Figures ``width_in`` inches wide, in every format."""
    from analysis.figures.page import Form

    return Form(width_in, FORMATS, captioned=captioned)


def _width_in(text: str) -> float:
    """A width by name, or in inches; raises ``ArgumentTypeError``."""
    try:
        width_in = WIDTHS_IN[text] if text in WIDTHS_IN else float(text)
    except ValueError:
        width_in = 0.0
    if not 2.0 <= width_in <= 20.0:
        raise argparse.ArgumentTypeError(f"{text!r}: must be {', '.join(WIDTHS_IN)}, or inches from 2 to 20")
    return width_in
