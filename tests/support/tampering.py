"""Changes to the files of a record that whoever edits one could make, and its sums made again after them."""

from __future__ import annotations

import re
from pathlib import Path

from analysis.records.sums import SUMS, sum_of
from analysis.reports.vouching import files_of

DIGIT = re.compile(rb"[0-9]")


def sum_again(folder: Path) -> None:
    """As ``sha256sum`` over all files of a record."""
    names = [path.relative_to(folder).as_posix() for path in sorted((folder / "jobs").glob("*/*")) if path.is_file()]
    names = [*files_of(folder), *(name for name in names if not name.endswith(SUMS))]
    (folder / SUMS).write_text("".join(f"{sum_of(folder / name)}  {name}\n" for name in names))


def flip_a_byte(path: Path) -> None:
    """Another byte in the middle, of an empty file one more."""
    data = bytearray(path.read_bytes() or b"\0")
    data[len(data) // 2] ^= 1
    path.write_bytes(data)


def change_a_number(path: Path) -> None:
    """Another digit, of those of a text the one nearest to its middle."""
    data = bytearray(path.read_bytes())
    found = [match.start() for match in DIGIT.finditer(data)]
    place = min(found, key=lambda at: abs(at - len(data) // 2))
    data[place] = ord("8") if data[place] != ord("8") else ord("3")
    path.write_bytes(data)
