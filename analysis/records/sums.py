"""``SHA256SUMS`` of a record: the hashes of its files when they were written, by their writer.

A run sums the files that it recorded, an analysis the files that it derived: drawing a record again
does not vouch for a log that was changed meanwhile.
"""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cache
from pathlib import Path

from analysis.files import write_file, written_files

SUMS = "SHA256SUMS"
_LINE = re.compile(r"([0-9a-f]{64})  (.+)")


def stored_sums(folder: Path) -> dict[str, str]:
    """SHA-256 by name; raises ``ValueError`` for a file that is not of ``sha256sum``'s format, ``OSError`` for none."""
    found = [_LINE.fullmatch(line) for line in (folder / SUMS).read_text(encoding="utf-8").splitlines()]
    if not all(found):
        raise ValueError(f"{SUMS}: is not what sha256sum writes")
    return {match[2]: match[1] for match in found if match is not None}


@contextmanager
def summed(folder: Path, *, new: bool = False) -> Iterator[None]:
    """Add sums to ``folder`` for files that are written below it meanwhile, by :func:`analysis.files.write_file`.

    Lines of other files stay. Of a run that was killed there are no sums, and none are begun, unless they are ``new``:
    of a directory in which all is derived.
    """
    with written_files() as written:
        try:
            yield
        finally:
            here = dict.fromkeys(path.relative_to(folder) for path in written if path.is_relative_to(folder))
            _write(folder, {path.as_posix(): found for path in here if (found := sum_of(folder / path))}, new)


def _write(folder: Path, derived: Mapping[str, str], new: bool) -> None:
    try:
        before = stored_sums(folder) if (folder / SUMS).exists() or not new else {}
    except (OSError, ValueError):  # none to be kept up, or they were changed: verify says so
        return
    lines = (f"{found}  {name}\n" for name, found in {**before, **derived}.items())
    write_file(folder / SUMS, "".join(lines))


@cache
def code_of(*rooms: Path) -> str:
    """A hash of the modules in these folders, read once: other code may have derived other files."""
    found = hashlib.blake2b()
    for path in (path for room in rooms for path in sorted(room.glob("*.py"))):
        found.update(path.read_bytes())
    return found.hexdigest()


def sum_of(path: Path) -> str | None:
    """The SHA-256 of a file; None if it is none, or cannot be read."""
    try:
        with path.open("rb") as file:
            return hashlib.file_digest(file, "sha256").hexdigest()
    except OSError:
        return None
