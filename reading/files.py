"""The bytes of a file that a user named: only of an ordinary file, and no more than so many."""

from __future__ import annotations

import os
import stat
from pathlib import Path
from typing import BinaryIO

from reading.errors import Unreadable

MIB = 1 << 20
MAX_TABLE_BYTES = 256 * MIB
"""Size of a table or a log as text, which is read row by row."""
KINDS = ((stat.S_ISDIR, "a directory"), (stat.S_ISFIFO, "a pipe"), (stat.S_ISSOCK, "a socket"))


def open_file(path: Path) -> BinaryIO:
    """An ordinary file, open for reading. Raises :class:`Unreadable` for pipes and devices, which could wait forever.

    Nothing else than an ordinary file is opened: opening alone does something to a device.
    """
    try:
        _refuse_special(os.stat(path))
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
    except Unreadable:
        raise
    except (OSError, ValueError) as error:  # ValueError: a null byte in its name
        raise Unreadable(f"cannot be read ({_reason(error)})") from None
    file = os.fdopen(descriptor, "rb")
    try:
        _refuse_special(os.fstat(descriptor))  # it may have been exchanged
    except Unreadable:
        file.close()
        raise
    return file


def read_bytes(path: Path, most: int) -> bytes:
    """The content of an ordinary file of at most ``most`` bytes; raises :class:`Unreadable`."""
    with open_file(path) as file:
        try:
            data = file.read(most + 1)
        except OSError as error:
            raise Unreadable(f"cannot be read ({_reason(error)})") from None
    if len(data) > most:
        raise Unreadable(f"has more than {_size(most)}, which is the most that is read; cut a part out of it")
    return data


def read_text(path: Path, most: int) -> str:
    """The same as text in UTF-8, with or without a byte order mark."""
    return decoded(read_bytes(path, most))


def decoded(data: bytes) -> str:
    """Text in UTF-8; raises :class:`Unreadable` for anything else."""
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError:
        utf16 = data.startswith((b"\xff\xfe", b"\xfe\xff"))
        raise Unreadable(
            f"cannot be read (it is {'UTF-16' if utf16 else 'not UTF-8 text'}); store it as UTF-8"
        ) from None


def special(about: os.stat_result) -> str:
    """Name the kind of a special file, such as ``a pipe``; empty for an ordinary one."""
    if stat.S_ISREG(about.st_mode):
        return ""
    return next((name for is_kind, name in KINDS if is_kind(about.st_mode)), "a device")


def _refuse_special(about: os.stat_result) -> None:
    if kind := special(about):
        raise Unreadable(f"cannot be read (it is {kind}, and not a file)")


def _reason(error: Exception) -> str:
    said = error.strerror if isinstance(error, OSError) else None
    return (said or str(error) or "broken").lower()


def _size(num_bytes: int) -> str:
    return f"{num_bytes // MIB} MiB" if num_bytes >= MIB else f"{num_bytes} bytes"
