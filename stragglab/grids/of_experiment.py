"""The result of an experiment for ``compare``: its records in the order of its levels, and their names for people."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import msgspec

from analysis.files import write_file
from runtime.errors import ConfigError

FILE = "compared.json"
COMPARED = ("comparison.*", "clusters.*", "job_ratios.csv", "figures", "report.html", "SHA256SUMS")
"""All files that a comparison writes."""
MOST_BYTES = 4_000_000


class Compared(msgspec.Struct):
    """``runs``: directories, relative to the file's; ``names``: as of ``compare --name``."""

    runs: list[str]
    names: dict[str, str]


def write_compared(folder: Path, runs: Sequence[Path], names: Mapping[str, str]) -> None:
    """Leave it in the experiment's folder."""
    found: Any = Compared([path.relative_to(folder).as_posix() for path in runs], dict(names))
    write_file(folder / FILE, msgspec.json.format(msgspec.json.encode(found), indent=1) + b"\n")


def read_compared(folder: Path) -> Compared | None:
    """Return an experiment's result; None if there is nothing. Raises :class:`ConfigError` for another file."""
    path = folder / FILE
    if not path.is_file():
        return None
    try:
        with path.open("rb") as file:
            return msgspec.json.decode(file.read(MOST_BYTES), type=Compared)
    except (OSError, UnicodeDecodeError, msgspec.DecodeError, RecursionError) as error:
        raise ConfigError(
            f"{path}: not what an experiment leaves ({error}); remove it, or repeat the experiment"
        ) from error


def in_order(found: Sequence[Path], folder: Path, left: Compared | None) -> list[Path]:
    """The records of a folder as its experiment has them; those that it does not know come last."""
    if left is None:
        return list(found)
    place = {(folder / name).resolve(): number for number, name in enumerate(left.runs)}
    return sorted(found, key=lambda path: place.get(path.resolve(), len(place)))
