"""Reading the files of sources."""

from __future__ import annotations

from pathlib import Path

from injectors.patterns.tables import find_file

POINTER = b"version https://git-lfs"


def read_text(path: str) -> str:
    """A text file's content, as :func:`read_bytes`."""
    try:
        return read_bytes(path).decode("utf-8-sig")
    except UnicodeDecodeError:
        raise ValueError(f"path={path}: cannot be read (it is not UTF-8 text)") from None


def read_bytes(path: str) -> bytes:
    """A file's content; raises ``ValueError`` naming the file that is missing, unreadable or a Git-LFS pointer."""
    file = find_file(path)
    refuse_pointer(path, file)
    try:
        return file.read_bytes()
    except OSError as error:
        raise ValueError(f"path={path}: cannot be read ({(error.strerror or 'broken').lower()})") from None


def refuse_pointer(path: str, file: Path) -> None:
    """Raise ``ValueError`` if the file only says where its content is: the repository was cloned without Git LFS."""
    try:
        with file.open("rb") as opened:
            begins = opened.read(len(POINTER))
    except OSError as error:
        raise ValueError(f"path={path}: cannot be read ({(error.strerror or 'broken').lower()})") from None
    if begins == POINTER:
        raise ValueError(f"path={path}: is a Git-LFS pointer and not the data; get them with: git lfs pull")
