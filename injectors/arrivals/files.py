"""Reading the files of sources."""

from __future__ import annotations

from pathlib import Path

from injectors.patterns.tables import find_file
from reading import Unreadable, files

POINTER = b"version https://git-lfs"


def read_bytes(path: str, most: int) -> bytes:
    """The content of a file of at most ``most`` bytes.

    Raises ``ValueError`` naming the file that is missing, unreadable, too large or a Git-LFS pointer.
    """
    file = find_file(path)
    refuse_pointer(path, file)
    try:
        return files.read_bytes(file, most)
    except Unreadable as error:
        raise ValueError(f"path={path}: {error}") from None


def refuse_pointer(path: str, file: Path) -> None:
    """Raise ``ValueError`` if the file only says where its content is: the repository was cloned without Git LFS."""
    try:
        with files.open_file(file) as opened:
            begins = opened.read(len(POINTER))
    except Unreadable as error:
        raise ValueError(f"path={path}: {error}") from None
    if begins == POINTER:
        raise ValueError(f"path={path}: is a Git-LFS pointer and not the data; get them with: git lfs pull")
