"""The SHA-256 of what a run has recorded, in a file of its own as ``sha256sum`` writes it, so that it can check it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from pathlib import Path

from runtime.errors import is_full
from runtime.record.checkpoint import publish

SUMS = "SHA256SUMS"
OF_JOB = ("events.jsonl", "iterations.parquet", "meta.json", "plan.json", "parameters.npy")
OF_CLUSTER = ("cluster.jsonl", "hosts.jsonl", "hosts.parquet", "jobs.parquet")
OF_SWEEP = ("multirun.yaml", "sweep.jsonl")
FOLDERS = (".hydra", "checkpoints", "logs")
JOBS = "jobs"
"""The folder of a set in which its jobs have records of their own."""


def write_sums(run_dir: Path) -> None:
    """Write ``SHA256SUMS`` of all files of the run; no file is added afterwards.

    Of a set of jobs, the sums of theirs are in it, too. A full disk leaves the file out: nothing of the run is in it,
    and the log says how the run ended.
    """
    try:
        lines = [f"{_sum(run_dir / name)}  {name}\n".encode() for name in _names(run_dir)]
        publish(run_dir / SUMS, [*lines, *_of_jobs(run_dir)])
    except OSError as error:
        if not is_full(error):
            raise


def _names(run_dir: Path) -> Iterator[str]:
    for name in sorted((*OF_JOB, *OF_CLUSTER, *OF_SWEEP)):
        if (run_dir / name).is_file():
            yield name
    for folder in FOLDERS:
        yield from (f"{folder}/{path.name}" for path in sorted((run_dir / folder).glob("*")) if path.is_file())


def _of_jobs(run_dir: Path) -> Iterator[bytes]:
    """Return the sums that the jobs have just written, from their directories."""
    for path in sorted((run_dir / JOBS).glob(f"*/{SUMS}")):
        for line in path.read_bytes().splitlines():
            found, _, name = line.partition(b"  ")
            yield b"%s  %s/%s/%s\n" % (found, JOBS.encode(), path.parent.name.encode(), name)


def _sum(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()
