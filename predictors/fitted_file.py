"""The files of arrays that a script has fitted, some of which come along in ``fitted/``."""

from __future__ import annotations

import io
from hashlib import sha256
from pathlib import Path
from typing import Any, NamedTuple
from zipfile import BadZipFile

import numpy as np

FITTED = Path(__file__).parent / "fitted"


class FittedKind(NamedTuple):
    """What the files of one kind hold, in words; the mark that is in all of them; the script that makes them."""

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
    """What is in a file.

    Raises:
        ValueError: there is no such file, or it holds something else; in one line that starts with ``weights=`` and
            ends with the cure.
    """
    try:
        data = place.read_bytes()
        with np.load(io.BytesIO(data), allow_pickle=False) as arrays:
            found = {name: arrays[name] for name in arrays.files}
    except FileNotFoundError:
        raise ValueError(f"weights={place}: no such file; {cure}") from None
    except (OSError, ValueError, BadZipFile, EOFError, TypeError, AttributeError):
        raise ValueError(f"weights={place}: is not a file of {kind.what} (.npz); {cure}") from None
    if str(found.get("format", "")) != kind.mark:
        raise ValueError(f"weights={place}: was not made by scripts/{kind.script}; {cure}")
    return FittedFile(found, known_as(place, data))
