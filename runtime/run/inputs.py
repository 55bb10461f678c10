"""The inputs of a job besides its settings: files whose change makes it another job, though its settings stay."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from injectors.plan import plan_sha256
from runtime.house import ROOT
from runtime.run.checks.job import CheckedJob
from runtime.run.probing import reason
from runtime.run.sweep_note import SHOWN
from runtime.virtual.costs import KIND, load_costs

if TYPE_CHECKING:
    from runtime.run.checking import Checked

LARGEST_BYTES = 1 << 26
"""Size of files that are read for their fingerprint; for larger ones, data sets, size and time count."""
NO_INPUTS = {("launcher",), ("runtime", "launcher"), ("cluster", "costs"), *((name,) for name in SHOWN)}
"""Settings whose files change no result: launchers (a token), settings of the view, and the cost model, of which the
values count and no comment."""
_known: dict[tuple[str, Path, int, int], str] = {}
"""Fingerprints by kind, path, size and time of change: jobs of a sweep name the same files."""


def inputs_of(checked: Checked, raw: Mapping[str, Any]) -> list[str]:
    """Fingerprints of the inputs of a sweep's job, in a fixed order.

    Of a job: the files that its strategy was fitted to, its plan, its cost model. Of a set: the same of every job, its
    entries in the source and in the table of models, and the cost model of the hosts. Of both: files that settings name
    by a path. Raises :class:`ConfigError` for a cost model that cannot be read.
    """
    if isinstance(checked, CheckedJob):
        found = _of_job(checked)
    else:
        found = [_costs_sha256(checked.config.cluster.costs)]
        known: dict[int, list[str]] = {}  # jobs that train nothing share what was checked
        for job in checked.jobs:
            said = repr(job.request), repr(job.submission), str(job.iterations)
            if (one := id(job.checked)) not in known:
                known[one] = _of_job(job.checked)
            found += [*said, *known[one]]
    return found + [f"{file} {_content_of(file)}" for file in sorted(set(files_in(raw)))]


def _of_job(job: CheckedJob) -> list[str]:
    cluster = job.config.cluster
    return [*job.strategy.fitted, plan_sha256(job.plan), repr(cluster), _costs_sha256(cluster.costs)]


def files_in(value: Any, path: tuple[str, ...] = ()) -> Iterator[Path]:
    """Files that texts anywhere in the settings name, as they are found: from here, or from the repository."""
    if path in NO_INPUTS:
        return
    if isinstance(value, Mapping):
        for name, one in value.items():
            yield from files_in(one, (*path, str(name)))
    elif isinstance(value, list | tuple):
        for one in value:
            yield from files_in(one, (*path, ""))
    elif isinstance(value, str) and (os.sep in value or "." in value):
        for file in (Path(value), ROOT / value):
            try:
                if file.is_file():
                    yield file
                    break
            except (OSError, ValueError):  # no name of a file at all
                break


def _content_of(file: Path) -> str:
    try:
        about = file.stat()
        if about.st_size > LARGEST_BYTES:
            return f"{about.st_size} {about.st_mtime_ns}"
        return _once("content", file, lambda: hashlib.sha256(file.read_bytes()).hexdigest())
    except OSError as error:  # a job that needs it says so itself
        return reason(error)


def _costs_sha256(name: str) -> str:
    try:
        return _once("costs", KIND.path_of(name), lambda: load_costs(name).sha256)
    except OSError:  # it is not there, which that says in one line
        return load_costs(name).sha256


def _once(what: str, file: Path, read: Callable[[], str]) -> str:
    """Return ``read`` of a file, called once while its size and time stay; raises ``OSError``."""
    about = file.stat()
    key = (what, file.absolute(), about.st_size, about.st_mtime_ns)
    if key not in _known:
        _known[key] = read()
    return _known[key]
