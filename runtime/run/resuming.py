"""A sweep that was interrupted continues where it stopped: jobs that have ended well are kept, the rest is run (again).

With ``hydra.sweep.dir=DIR`` it continues in that directory, otherwise in the newest one next to its own that the same
command on the same code has left unfinished. Without a note (``runtime/run/sweep_note.py``) nothing continues.
"""

from __future__ import annotations

import os
import shutil
from collections import deque
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NamedTuple

from omegaconf import OmegaConf

from runtime.config.compose import ComposedJob, announce, written_lines
from runtime.errors import ConfigError
from runtime.run.claiming import claim, forget, holds_record, is_of_a_job, refuse_used, release
from runtime.run.inputs import inputs_of
from runtime.run.preflight import Jobs
from runtime.run.probing import reason
from runtime.run.sweep_note import FILE, Ended, Head, Note, begin, content_of, head_of, read

if TYPE_CHECKING:
    from runtime.run.checking import Checked

SWEEP_DIR = "hydra.sweep.dir"


class Part(NamedTuple):
    """A job of a sweep and its place."""

    composed: ComposedJob
    checked: Checked
    job: str
    """Its directory below the sweep's."""
    content_sha256: str


class Claimed(NamedTuple):
    """A sweep whose directory is ours, and what is left of it."""

    directory: Path
    num_jobs: int
    pending: deque[Part]
    kept: tuple[Ended, ...] = ()
    """Jobs that have ended well there before."""
    continues: bool = False
    damaged: tuple[int, ...] = ()
    """Lines of the sweep's note that cannot be read."""


def claim_sweep(jobs: Jobs) -> Claimed:
    """Choose the directory and claim it; raises :class:`ConfigError`. Remnants of jobs that have to run are removed."""
    parts, head = list(_parts(jobs)), head_of(tuple(written_lines(jobs.master.hydra.overrides.task)))
    resume = all(part.checked.config.resume == "auto" for part in parts) and _are_apart(parts)
    for directory in _candidates(jobs, head) if resume else ():
        try:
            claim(jobs.setting, directory, with_record=True)
        except ConfigError:  # another process writes there
            continue
        note = read(directory)  # again: only now nobody else writes it
        claimed = _continue(directory, parts, note, head) if note is not None else None
        if claimed is not None and (claimed.pending or _is_named(jobs)):
            _refuse_foreign((part for part in claimed.pending if not is_of_a_job(directory / part.job)), directory)
            _begin(jobs.setting, directory, head, claimed.kept)
            _remove_remnants(claimed)
            return claimed
        release(directory)
    claim(jobs.setting, jobs.directory)
    try:
        _refuse_foreign(parts, jobs.directory)
    except ConfigError:
        forget(jobs.directory)
        raise
    _begin(jobs.setting, jobs.directory, head)
    return Claimed(jobs.directory, len(parts), deque(parts))


def _begin(setting: str, directory: Path, head: Head, kept: tuple[Ended, ...] = ()) -> None:
    try:
        begin(directory, head, kept)
    except OSError as error:
        raise ConfigError(
            f"{setting}={directory}: cannot be written ({reason(error)}); choose another directory"
        ) from None


def words(claimed: Claimed) -> str:
    """One line that a sweep continues; empty for a new one."""
    if not claimed.continues:
        return ""
    lines = ", ".join(map(str, claimed.damaged))
    damaged = f"; {FILE} cannot be read in line {lines}, and what it said there is run again" if lines else ""
    return (
        f"continues in {claimed.directory}: {len(claimed.kept)} of {claimed.num_jobs} jobs are there "
        f"(resume=never starts all again){damaged}"
    )


def _parts(jobs: Jobs) -> Iterator[Part]:
    for composed, checked in jobs.pending:
        announce(composed.config)
        content = content_of(composed.raw, inputs_of(checked, composed.raw))
        yield Part(composed, checked, str(OmegaConf.select(composed.config, "hydra.sweep.subdir")), content)
    announce(jobs.master)


def _are_apart(parts: list[Part]) -> bool:
    """Whether each job has a directory of its own below the sweep's, so that removing one removes nothing else.

    With ``hydra.sweep.subdir`` a user may choose others.
    """
    places = [os.path.normpath(part.job) for part in parts]
    below = not any(os.path.isabs(place) or place == "." or place.split(os.sep)[0] == ".." for place in places)
    inside = any(other.startswith(f"{place}{os.sep}") for place in places for other in places)
    return below and not inside and len(set(places)) == len(places)


def _is_named(jobs: Jobs) -> bool:
    """Whether the user has named the directory."""
    return any(str(line).startswith(f"{SWEEP_DIR}=") for line in jobs.master.hydra.overrides.hydra)


def _candidates(jobs: Jobs, head: Head) -> Iterator[Path]:
    """Directories of this very sweep, the newest first; raises :class:`ConfigError` where the code has changed."""
    if not _is_named(jobs):
        found = sorted((file.parent for file in jobs.directory.parent.glob(f"*/{FILE}")), reverse=True)
        yield from (folder for folder in found if (note := read(folder)) is not None and note.head == head)
        return
    note = read(jobs.directory)
    if note is None:
        return
    if note.head is not None and note.head.settings == head.settings and note.head != head:
        raise ConfigError(
            f"{SWEEP_DIR}={jobs.directory}: holds this sweep as other code has made it; choose another directory"
        )
    yield jobs.directory


def _continue(directory: Path, parts: list[Part], note: Note, head: Head) -> Claimed | None:
    """Return the jobs that remain of the sweep in the note; None if the note is another sweep's.

    Without a readable head nothing is kept, and the directories must belong to jobs that the note still knows.
    """
    if note.head not in (None, head):
        return None
    kept, pending = [], deque[Part]()
    for part in parts:
        ended = note.ended.get(part.job)
        ours = ended is not None and ended.content_sha256 == part.content_sha256
        if note.head is None and not ours and (directory / part.job).exists():
            return None
        there = ended is not None and not ended.exit_code and holds_record(directory / part.job)
        if ended is not None and there and ours and note.head:
            kept.append(ended)
        else:
            pending.append(part)
    return Claimed(directory, len(parts), pending, tuple(kept), continues=True, damaged=note.damaged)


def _refuse_foreign(parts: Iterable[Part], directory: Path) -> None:
    """Raise :class:`ConfigError` if a job would run where something is that no job has begun."""
    for part in parts:
        refuse_used("hydra.sweep.subdir", directory / part.job)


def _remove_remnants(claimed: Claimed) -> None:
    for part in claimed.pending:
        shutil.rmtree(claimed.directory / part.job, ignore_errors=True)
