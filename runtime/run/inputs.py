"""What a job reads besides its settings: files whose change makes it another job, though its settings stay."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from injectors.plan import plan_sha256
from runtime.house import ROOT
from runtime.run.checking import Checked
from runtime.run.checks.job import CheckedJob
from runtime.virtual.costs import load_costs

LARGEST_BYTES = 1 << 26
"""Of files that are read for their fingerprint; of larger ones, data sets, size and time count."""


def inputs_of(checked: Checked, raw: Mapping[str, Any]) -> list[str]:
    """Fingerprints of what a job of a sweep reads, in an order that does not change.

    Of a job: the files that its strategy was fitted to, its plan, its cost model. Of a set: the same of every job, and
    what its source and its table of models say of that. Of both: files that settings name by a path.
    """
    if isinstance(checked, CheckedJob):
        found = _of_job(checked)
    else:
        found = [
            text
            for job in checked.jobs
            for text in (repr(job.request), repr(job.submission), str(job.iterations), *_of_job(job.checked))
        ]
    return found + [f"{file} {_content_of(file)}" for file in sorted(set(_files(raw)))]


def _of_job(job: CheckedJob) -> list[str]:
    cluster = job.config.cluster
    return [*job.strategy.fitted, plan_sha256(job.plan), repr(cluster), load_costs(cluster.costs).sha256]


def _files(value: Any) -> Iterator[Path]:
    """Files that texts anywhere in the settings name, as they are found: from here, or from the repository."""
    if isinstance(value, Mapping):
        for one in value.values():
            yield from _files(one)
    elif isinstance(value, list | tuple):
        for one in value:
            yield from _files(one)
    elif isinstance(value, str) and (os.sep in value or "." in value):
        for file in (Path(value), ROOT / value):
            try:
                if file.is_file():
                    yield file
                    break
            except (OSError, ValueError):  # no name of a file at all
                break


def _content_of(file: Path) -> str:
    about = file.stat()
    if about.st_size > LARGEST_BYTES:
        return f"{about.st_size} {about.st_mtime_ns}"
    return hashlib.sha256(file.read_bytes()).hexdigest()
