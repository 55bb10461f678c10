"""Whether the files of a record are those whose SHA-256 was written when the run ended."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Sequence
from pathlib import Path

from analysis.records.load import CLUSTER_EVENTS, LOG
from analysis.records.schema import ROWS

SUMS = "SHA256SUMS"
OF_JOB = (LOG, ROWS, "meta.json", "plan.json")
OF_CLUSTER = (CLUSTER_EVENTS, "hosts.parquet", "jobs.parquet", "meta.json")
_LINE = re.compile(r"([0-9a-f]{64})  (\S+)")


def stored_sums(folder: Path) -> dict[str, str]:
    """SHA-256 by name; raises ``ValueError`` for a file that is not of ``sha256sum``'s format, ``OSError`` for none."""
    found = [_LINE.fullmatch(line) for line in (folder / SUMS).read_text().splitlines()]
    if not all(found):
        raise ValueError(f"{SUMS}: is not what sha256sum writes")
    return {match[2]: match[1] for match in found if match is not None}


def changed(folder: Path, sums: dict[str, str], names: Sequence[str]) -> list[str]:
    """Those of ``names`` that have another content than ``sums`` say, are missing, or came after the run's end."""
    return [name for name in names if _sum(folder / name) != sums.get(name)]


def _sum(path: Path) -> str | None:
    if not path.is_file():
        return None
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
