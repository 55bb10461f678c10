"""The files of arrays that a script has fitted, some of which come along in ``fitted/``."""

from __future__ import annotations

from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple

from reading import Unreadable
from reading.arrays import MAX_ARRAYS_BYTES, parse_arrays
from reading.files import read_bytes

FITTED = Path(__file__).parent / "fitted"


class FittedKind(NamedTuple):
    """The contents of one kind of fitted files, in words; the mark in all of them; the script that makes them."""

    what: str
    mark: str
    script: str


class FittedFile(NamedTuple):
    """The arrays in a file, by name, and the name by which records know it."""

    arrays: dict[str, Any]
    known_as: str


def known_as(place: Path, data: bytes) -> str:
    """The name of a fitted file with the start of the SHA-256 of its content, as records have it."""
    return f"{place.stem} {sha256(data).hexdigest()[:8]}"


def read_fitted(place: Path, kind: FittedKind, cure: str) -> FittedFile:
    """Return the content of a file.

    Raises:
        ValueError: there is no such file, or it holds something else; in one line that starts with ``weights=`` and
            ends with the cure.
    """
    try:
        data = read_bytes(place, MAX_ARRAYS_BYTES)
        found = parse_arrays(data)
    except Unreadable as error:
        if not place.exists():
            raise ValueError(f"weights={place}: no such file; {cure}") from None
        raise ValueError(f"weights={place}: is not a file of {kind.what} (it {error}); {cure}") from None
    if str(found.get("format", "")) != kind.mark:
        raise ValueError(f"weights={place}: was not made by scripts/fitting/{kind.script}; {cure}")
    return FittedFile(found, known_as(place, data))
