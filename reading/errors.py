"""The error of this room, and what its messages show of a file."""

from __future__ import annotations

from collections.abc import Sequence


class Unreadable(ValueError):
    """A file that is not read: why, in one line, without its name."""


def shown(text: object, most: int = 60) -> str:
    """Shorten a file's text to one line, for a message."""
    line = str(text)
    line = line if line.isprintable() else repr(line)
    return line if len(line) <= most else f"{line[: most - 3]}..."


def list_names(names: Sequence[str], most: int = 20) -> str:
    """Names from a file, for a message; of many the first."""
    more = f", and {len(names) - most} more" if len(names) > most else ""
    return f"{', '.join(shown(name) for name in names[:most])}{more}"
