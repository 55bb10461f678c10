"""The SHA-256 of what a run has recorded, in a file of its own as ``sha256sum`` writes it, so that it can check it."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from pathlib import Path

from runtime.errors import is_full
from runtime.record.checkpoint import publish

SUMS = "SHA256SUMS"
OF_JOB = ("events.jsonl", "iterations.parquet", "meta.json", "plan.json")
OF_CLUSTER = ("cluster.jsonl", "hosts.parquet", "jobs.parquet", "meta.json")


def write_sums(run_dir: Path, names: Sequence[str]) -> None:
    """Write ``SHA256SUMS`` of those files that are there, complete from now on.

    A full disk leaves the file out: it is no part of the record's data, and the record itself says how the run ended.
    """
    try:
        publish(run_dir / SUMS, [_line(run_dir / name) for name in names if (run_dir / name).exists()])
    except OSError as error:
        if not is_full(error):
            raise


def _line(path: Path) -> bytes:
    with path.open("rb") as file:
        return f"{hashlib.file_digest(file, 'sha256').hexdigest()}  {path.name}\n".encode()
