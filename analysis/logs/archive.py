"""Archives instead of logs: their members are named, and nothing is unpacked."""

from __future__ import annotations

import tarfile
import zipfile
from pathlib import Path

from analysis.logs.opening import open_bytes
from analysis.logs.step_log import LogError
from reading.errors import list_names, shown

MOST_MEMBERS = 10_000
AT, MARK = 257, b"ustar"
"""Where a tar archive has its mark."""
ZIP = b"PK\x03\x04"


def refuse_archive(path: Path) -> None:
    """Raise :class:`LogError` for an archive, with the names of its files."""
    with open_bytes(path) as file:
        start = file.peek(AT + len(MARK))
        if start[AT : AT + len(MARK)] != MARK and not start.startswith(ZIP):
            return
        names = _tar_names(file) if not start.startswith(ZIP) else _zip_names(path)
    what = f"{len(names):,} file{'s' if len(names) != 1 else ''} ({list_names([shown(name) for name in names], 5)})"
    raise LogError(f"{path}: is an archive of {what}; unpack it, and name the folder with the files of all ranks")


def _tar_names(file: object) -> list[str]:
    names = list[str]()
    try:
        with tarfile.open(fileobj=file, mode="r|") as archive:  # type: ignore[call-overload]  # of any binary file
            for member in archive:
                names += [member.name] if member.isfile() else []
                if len(names) >= MOST_MEMBERS:
                    break
    except (tarfile.TarError, EOFError, ValueError):
        pass  # those before the damage are named
    return names


def _zip_names(path: Path) -> list[str]:
    try:
        with zipfile.ZipFile(path) as archive:
            return archive.namelist()[:MOST_MEMBERS]
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError):
        return []
