"""Checkpoint files: parameters, optimizer state and the set of applied work in one file, published atomically.

Layout: magic, header length, header (msgpack: version, data-service state, array descriptions), raw arrays, CRC-32.
The file is written without a name (O_TMPFILE) and linked when it is complete, so a kill at any moment leaves either
the whole file or nothing. It is not fsynced: it survives any process, but not a power failure.
"""

from __future__ import annotations

import errno
import os
import secrets
import struct
import zlib
from collections.abc import Sequence
from io import BytesIO
from pathlib import Path
from typing import Any

import msgspec
import numpy as np

MAGIC = b"SGLC0001"
MODE = 0o666
"""Permissions of new files, before the umask."""
CHECKPOINTS = "[0-9]*-server*.ckpt"
"""Pattern of :func:`path_of`."""
_LENGTH = struct.Struct("<Q")


class CheckpointError(ValueError):
    """The file is not a complete checkpoint."""


class Head(msgspec.Struct, frozen=True):
    """Describes the raw bytes: ``arrays`` holds (name, dtype, elements), ``scalars`` the rest of the state."""

    version: int
    state: bytes
    scalars: dict[str, float]
    arrays: list[tuple[str, str, int]]
    lo: int = 0
    """Where in the parameter vector this part begins; its arrays have one element for each float of the part."""


def path_of(directory: Path, checkpoint: int, server: int) -> Path:
    """Path of a server's part of a checkpoint."""
    return directory / f"{checkpoint:08d}-server{server}.ckpt"


def write_checkpoint(path: Path, version: int, state: bytes, values: dict[str, Any], lo: int = 0) -> None:
    """Write ``values`` (arrays and numbers by name) and ``state`` to ``path``, which must not exist.

    Raises ``OSError`` if somebody has put a link in place of the folder.
    """
    if path.parent.is_symlink():
        raise OSError(errno.ELOOP, "is a link, and would be written through", str(path.parent))
    arrays = {name: np.ascontiguousarray(value) for name, value in values.items() if isinstance(value, np.ndarray)}
    scalars = {name: value for name, value in values.items() if name not in arrays}
    rows = [(name, array.dtype.str, array.size) for name, array in arrays.items()]
    head = msgspec.msgpack.encode(Head(version, state, scalars, rows, lo))
    parts: list[Any] = [
        MAGIC,
        _LENGTH.pack(len(head)),
        head,
        *(array.data.cast("B") for array in arrays.values() if array.size),
    ]
    crc = 0
    for part in parts:
        crc = zlib.crc32(part, crc)
    publish(path, [*parts, struct.pack("<I", crc)])


def _read_head(path: Path) -> Head:
    """The head alone, whose checksum is not verified: it only says whether the rest is worth reading."""
    start = len(MAGIC) + _LENGTH.size
    with path.open("rb") as file:
        first = file.read(start)
        if len(first) < start or first[: len(MAGIC)] != MAGIC:
            raise CheckpointError(f"{path}: not a checkpoint")
        try:
            return msgspec.msgpack.decode(file.read(_LENGTH.unpack(first[len(MAGIC) :])[0]), type=Head)
        except (msgspec.DecodeError, OverflowError, MemoryError):
            raise CheckpointError(f"{path}: damaged (its head cannot be read)") from None


def _read(path: Path) -> tuple[Head, dict[str, Any]]:
    data = memoryview(path.read_bytes())
    start = len(MAGIC) + _LENGTH.size
    if len(data) < start + 4 or bytes(data[: len(MAGIC)]) != MAGIC:
        raise CheckpointError(f"{path}: not a checkpoint")
    if zlib.crc32(data[:-4]) != struct.unpack("<I", data[-4:])[0]:
        raise CheckpointError(f"{path}: damaged (checksum differs)")
    end = start + _LENGTH.unpack(data[len(MAGIC) : start])[0]
    head = msgspec.msgpack.decode(data[start:end], type=Head)
    values: dict[str, Any] = dict(head.scalars)
    for name, dtype, size in head.arrays:
        stop = end + np.dtype(dtype).itemsize * size
        values[name] = np.frombuffer(data[end:stop], dtype=dtype)
        end = stop
    return head, values


def read_checkpoint(path: Path) -> tuple[int, bytes, dict[str, Any]]:
    """(version, state, values) of a checkpoint; raises :class:`CheckpointError` naming the file."""
    head, values = _read(path)
    return head.version, head.state, values


def parts_of(directory: Path, checkpoint: int) -> list[Path]:
    """The files of all parts of a checkpoint, from all tasks that stored them."""
    return sorted(directory.glob(f"{checkpoint:08d}-server*.ckpt"))


def read_slice(parts: Sequence[Path], lo: int, hi: int) -> tuple[int, bytes, dict[str, Any]]:
    """(version, state, values) of [lo, hi) of the parameter vector, from the parts of any layout.

    Arrays are put together from all parts that overlap, which alone are read; numbers are equal in all. An empty range
    has empty arrays. Raises :class:`CheckpointError` if the parts leave a gap.
    """
    heads = sorted(((_read_head(path), path) for path in parts), key=lambda part: part[0].lo)
    pieces: dict[str, list[Any]] = {}
    reached, found = lo, None
    for head, path in heads:
        size = max((size for _, _, size in head.arrays), default=0)
        begin, end = max(lo, head.lo), max(lo, min(hi, head.lo + size))
        if begin > reached or (end <= begin and (lo < hi or found is not None)):
            continue
        found, values = _read(path)
        reached = end
        for name, _, _ in head.arrays:
            pieces.setdefault(name, []).append(values[name][begin - head.lo : end - head.lo])
    if found is None or reached < hi:
        names = ", ".join(path.name for path in parts) or "no file"
        raise CheckpointError(f"{names}: do not hold [{lo}, {hi}) of the parameters")
    return found.version, found.state, {**found.scalars, **{name: np.concatenate(of) for name, of in pieces.items()}}


def publish(path: Path, parts: list[Any]) -> None:
    """Write a file that appears under its name only when it is complete; replaces an existing one.

    The umask decides who may read it, as for every other file of a record.
    """
    try:
        fd = os.open(path.parent, os.O_TMPFILE | os.O_WRONLY, MODE)
    except (AttributeError, OSError):  # O_TMPFILE: Linux only, and not on every file system
        _publish_by_rename(path, parts)
        return
    with os.fdopen(fd, "wb") as file:
        file.writelines(parts)
        file.flush()
        path.unlink(missing_ok=True)
        # src_dir_fd is ignored for an absolute path, but makes CPython use linkat(2), which follows the link
        os.link(f"/proc/self/fd/{fd}", path, src_dir_fd=fd, follow_symlinks=True)


def publish_array(path: Path, array: np.ndarray[Any, Any]) -> None:
    """Publish an array in the format of ``numpy.save``, atomically; a full disk is reported as such."""
    array, head = np.ascontiguousarray(array), BytesIO()
    np.lib.format.write_array_header_1_0(head, np.lib.format.header_data_from_array_1_0(array))
    publish(path, [head.getvalue(), array.data.cast("B") if array.size else b""])


def _publish_by_rename(path: Path, parts: list[Any]) -> None:
    """Write to a temporary name and rename, for file systems without O_TMPFILE."""
    half = path.with_name(f".{path.name}.{secrets.token_hex(8)}")
    try:
        with os.fdopen(os.open(half, os.O_CREAT | os.O_EXCL | os.O_WRONLY | os.O_CLOEXEC, MODE), "wb") as file:
            file.writelines(parts)
        os.replace(half, path)
    except BaseException:
        half.unlink(missing_ok=True)  # a partial file would keep a full disk full
        raise
