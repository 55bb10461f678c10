"""Original files by their bare names: loose in a folder or one level below, or in a tar or zip archive there."""

from __future__ import annotations

import hashlib
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

from workloads.data import DataError

LFS_POINTER = b"version https://git-lfs.github.com/spec/"
TARS = (".tar", ".tar.gz", ".tgz")
BROKEN = (tarfile.TarError, zipfile.BadZipFile, zlib.error, EOFError, OSError)
HEAD_BYTES = 64


class RawFiles:
    """The files at ``place``: a folder, an archive or a single file. Loose files take precedence over packed ones.

    All errors are :class:`DataError` that end with ``cure``.
    """

    def __init__(self, place: Path, cure: str) -> None:
        self.place, self.cure = place, cure
        self._loose: dict[str, Path] = {}
        self._packed: dict[str, tuple[Path, str]] = {}
        for path in _paths(place):
            self._loose.setdefault(path.name, path)
            if path.name.endswith((*TARS, ".zip")):
                for member in self._members(path):
                    self._packed.setdefault(PurePosixPath(member).name, (path, member))

    def __contains__(self, name: str) -> bool:
        """Whether a file of that name exists."""
        return name in self._loose or name in self._packed

    def where(self, name: str) -> str:
        """The file's location, for messages."""
        if name in self._loose:
            return str(self._loose[name])
        if name in self._packed:
            return f"{self._packed[name][0]}:{self._packed[name][1]}"
        return str(self.place / name)

    def read(self, name: str) -> bytes:
        """The whole content of a file, decompressed."""
        if name not in self:
            if self.place.is_file():
                raise DataError(f"{self.place}: is not {name}, nor an archive that holds it; {self.cure}")
            raise self.error(name, "does not exist")
        try:
            content = self._loose[name].read_bytes() if name in self._loose else _unpack(*self._packed[name])
        except BROKEN as error:
            raise self.error(name, f"cannot be read ({error or 'truncated'})") from error
        check_head(content[:HEAD_BYTES], self.where(name), self.cure)
        return content

    def error(self, name: str, what: str) -> DataError:
        """A one-line error about one of the files."""
        return DataError(f"{self.where(name)}: {what}; {self.cure}")

    def check_sha256(self, name: str, content: bytes, expected: str) -> None:
        """Raise :class:`DataError` unless this is the published content of the file."""
        found = hashlib.sha256(content).hexdigest()
        if found != expected:
            raise self.error(name, f"sha256 {found[:16]}... instead of {expected[:16]}..., so not the published file")

    def _members(self, archive: Path) -> list[str]:
        with archive.open("rb") as file:
            check_head(file.read(HEAD_BYTES), str(archive), self.cure)
        try:
            if archive.suffix == ".zip":
                with zipfile.ZipFile(archive) as packed:
                    return [name for name in packed.namelist() if not name.endswith("/")]
            with tarfile.open(archive) as packed_tar:
                return [member.name for member in packed_tar if member.isfile()]
        except BROKEN as error:
            raise DataError(f"{archive}: truncated, or no archive ({error}); {self.cure}") from error


def check_head(head: bytes, where: str, cure: str) -> None:
    """Reject empty files and pointers to data stored elsewhere."""
    if not head:
        raise DataError(f"{where}: is empty; {cure}")
    if head.startswith(LFS_POINTER):
        raise DataError(
            f"{where}: is a Git-LFS pointer and not the data; run git lfs pull where it comes from, or {cure}"
        )


def _paths(place: Path) -> Iterator[Path]:
    if not place.is_dir():
        yield place
        return
    for path in sorted(place.iterdir()):
        if path.is_file():
            yield path
        elif path.is_dir():
            yield from sorted(inner for inner in path.iterdir() if inner.is_file())


def _unpack(archive: Path, member: str) -> bytes:
    if archive.suffix == ".zip":
        with zipfile.ZipFile(archive) as packed:
            return packed.read(member)
    with tarfile.open(archive) as packed_tar:
        content = packed_tar.extractfile(member)
        if content is None:
            raise OSError("is no plain file")
        return content.read()
