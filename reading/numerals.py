"""Numbers as programs of all countries write them (pure)."""

from __future__ import annotations

import re
from math import nan

BLANKS = re.compile(r"(?<=\d)[ '\u00a0\u202f\u2009](?=\d{3}\b)")
"""Between thousands."""
BOTH = re.compile(r"[+-]?\d{1,3}(?:([.,])\d{3})+([.,])\d+")
"""1,234.5 or 1.234,5."""
THOUSANDS = re.compile(r"[+-]?[1-9]\d{0,2}(?:,\d{3})+")
SEPARATORS = ",;\t|"
"""Separators of columns; the most frequent in the header counts. Some countries write semicolons, schedulers bars."""
MOST_CELL = 60
"""Characters of a number."""
NOTHING = frozenset({"", "none", "null", "na", "n/a", "<na>", "#n/a", "nan", "nat", "unknown", "-", "--", "\\n"})
"""Texts, in any case, that programs write for a missing value."""


def number_in(text: str, *, decimal_comma: bool) -> float:
    """The number that a cell says; NaN: it is none, or may mean two numbers.

    Args:
        text: the cell.
        decimal_comma: a comma separates decimals, since it does not separate columns.
    """
    text = BLANKS.sub("", text.strip()) if len(text) <= MOST_CELL else ""
    if (both := BOTH.fullmatch(text)) and both[1] != both[2]:
        text = text.replace(both[1], "").replace(",", ".")
    elif not decimal_comma and THOUSANDS.fullmatch(text):
        text = text.replace(",", "")
    elif decimal_comma and text.count(",") == 1:
        text = text.replace(",", ".")
    try:
        return float(text) if text.isascii() and "_" not in text else nan
    except ValueError:
        return nan


def separator_of(header: str) -> str:
    """Return the character between the columns of a text with this header."""
    return max(SEPARATORS, key=header.count)  # the first of equals: a comma


def is_nothing(cell: object) -> bool:
    """Whether a cell of a table says that there is no value."""
    if isinstance(cell, str):
        return cell.strip().lower() in NOTHING
    return cell is None or cell != cell  # not a number, not a time
