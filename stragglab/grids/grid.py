"""The records of a grid of runs: existing ones are kept, missing ones are made, one after another or in forks."""

from __future__ import annotations

import contextlib
import errno
import os
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from analysis.records.cluster import Cluster
from analysis.records.either import load_record
from analysis.records.load import Run
from reading import Unreadable
from reading.plain import load_yaml
from runtime.containment.process import die_with
from runtime.errors import FAILED, NO_SPACE, REFUSED, ConfigError
from runtime.house import NAME, run_py
from stragglab.grids.forks import in_forks

PATIENCE_S, GRACE_S = 60.0, 10.0
BUSY_LOAD = 0.5
"""Load average above which live timings are not trustworthy."""
QUIET = ("draw=false", "view=none")
"""Settings of every run of a grid."""
GRID = ("records", "unfinished")
"""Contents of the directory of a grid, besides its results."""
Runner = Callable[[Sequence[str], Path], int]
"""Runs ``run.py`` with these arguments, writing its output to that file; returns the exit code."""


class JobFailed(RuntimeError):
    """A run ended with an error."""


def record_of(out: Path, name: str) -> Path:
    """Path of the complete record of the run ``name``."""
    return out / "records" / name


def fill(
    wanted: Mapping[str, Sequence[str]],
    found: Mapping[str, Any],
    out: Path,
    console: Console,
    runner: Runner,
    *,
    live: bool,
    forks: int = 0,
    failing: bool = False,
) -> dict[str, Any]:
    """The ``found`` records and the missing ones, which are made in the order of ``wanted``: ``Run`` or ``Cluster``.

    ``wanted`` holds the settings of every run by name; ``live``: some are timed on this machine. With ``forks`` the
    runner is called in forks of this process, this many at a time; otherwise here, one run after another. A failure
    does not stop the others and is raised at the end, as :class:`JobFailed`; a refusal ends everything at once
    (:class:`ConfigError`). ``failing``: jobs of a set may fail, and the record of one that is over is kept.
    """
    missing = [name for name in wanted if found.get(name) is None]
    there = {name: run for name in wanted if (run := found.get(name)) is not None}
    if there:
        console.print(f"{len(there)} of {len(wanted)} records exist already")
    if missing and live and (load := os.getloadavg()[0]) > BUSY_LOAD:
        console.print(f"the machine is busy (load {load:.1f}): live runs will take longer than they should")
    failed = []
    with progress(console) as bar:
        task = bar.add_task("", total=len(missing))

        def begin(name: str) -> int:
            clear(out, name)
            if not forks:
                bar.update(task, description=name, refresh=True)
            return runner([*wanted[name], f"hydra.run.dir={quote(unfinished_dir(out, name))}"], log_of(out, name))

        ended = in_forks(missing, begin, forks) if forks else ((name, begin(name)) for name in missing)
        with contextlib.closing(ended):
            for number, (name, code) in enumerate(ended, start=1):
                try:
                    there[name] = run = settle(name, out, code, failing=failing)
                    outcome = f"{'JCT' if isinstance(run, Run) else 'all jobs'} {run.end_s:.1f} s"
                except JobFailed as error:
                    failed.append(name)
                    outcome = f"failed: {error}"
                bar.update(task, description=name, completed=number, refresh=True)
                console.print(f"{number}/{len(missing)}  {name}  {outcome}")
    with contextlib.suppress(OSError):  # missing, or not empty: something failed
        (out / "unfinished").rmdir()
    if failed:
        raise JobFailed(
            f"{len(failed)} of {len(missing)} runs failed, {failed[0]} first; the same command repeats them"
        )
    return {name: there[name] for name in wanted}


def progress(console: Console) -> Progress:
    """A progress bar that is redrawn only on request.

    Not by a thread: that would compute during live runs, and processes must be forked from a single-threaded program.
    """
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    return Progress(*columns, console=console, auto_refresh=False, transient=True, disable=not console.is_terminal)


def quote(value: object) -> str:
    """The value, quoted for Hydra's override grammar."""
    text = str(value).replace("'", "\\'")
    return f"'{text}'"


def stored_record(name: str, words: Iterable[str], out: Path, *, apart: str | tuple[str, ...] = "") -> Any:
    """The record of these settings (``Run`` or ``Cluster``), or None; those that begin with ``apart`` do not count."""
    path = record_of(out, name)
    if not path.exists():
        return None
    run = load_record(path)
    differing = sorted(word for word in {*words_of(path)} ^ {*words} if not (apart and word.startswith(apart)))
    if differing:
        raise ConfigError(f"{path}: of other settings ({', '.join(differing)}); choose another -o, or remove it")
    return run


def words_of(path: Path) -> list[str]:
    """The settings of a record, as they were given to ``run.py``."""
    place = path / ".hydra" / "overrides.yaml"
    try:
        return [str(word) for word in load_yaml(place) or ()]
    except (Unreadable, TypeError) as error:
        raise ConfigError(f"{place}: {error}; choose another -o, or remove it") from None


def unfinished_dir(out: Path, name: str) -> Path:
    """Directory of the record while the run is in progress, so that its final place never holds a partial one."""
    return out / "unfinished" / name


def outdated_dir(out: Path, name: str) -> Path:
    """Directory of an earlier record while a new one takes its place."""
    return unfinished_dir(out, f"{name}.outdated")


def log_of(out: Path, name: str) -> Path:
    """Path of the run's output while its record is incomplete."""
    return unfinished_dir(out, f"{name}.log")


def clear(out: Path, name: str) -> None:
    """Remove what an earlier attempt left."""
    for path in (unfinished_dir(out, name), outdated_dir(out, name)):
        shutil.rmtree(path, ignore_errors=True)
    for folder in (unfinished_dir(out, name).parent, record_of(out, name).parent):
        folder.mkdir(parents=True, exist_ok=True)


def settle(name: str, out: Path, code: int, *, failing: bool = False) -> Any:
    """Move the record of a run that ended with ``code`` to its final place; raises as described at :func:`fill`."""
    new, place, log = unfinished_dir(out, name), record_of(out, name), log_of(out, name)
    if code != 0 and not (failing and code == FAILED and is_over(new)):
        lines = [line for line in log.read_text(errors="replace").splitlines() if not line.startswith("record: ")]
        why = (lines[-1] if lines else f"exit code {code}").removeprefix(f"{NAME}: ")
        if code == NO_SPACE:
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), str(out))  # other runs would fail alike
        raise ConfigError(why) if code == REFUSED else JobFailed(why)
    with contextlib.suppress(FileNotFoundError):  # out of the way at once: an interruption leaves no half of a record
        place.rename(outdated_dir(out, name))
    new.rename(place)
    shutil.rmtree(outdated_dir(out, name), ignore_errors=True)
    log.unlink(missing_ok=True)
    return load_record(place)


def is_over(path: Path) -> bool:
    """Whether this is the record of a set of jobs that ran to its end."""
    if not (path / "meta.json").exists():
        return False
    record = load_record(path)
    return isinstance(record, Cluster) and record.status == "done"


def run_child(words: Sequence[str], log: Path) -> int:
    """Run it in a new session: a Ctrl-C in the terminal reaches only this program, which then ends the run, once."""
    with log.open("wb") as output:
        process = subprocess.Popen(
            run_py(*words),
            stdin=subprocess.DEVNULL,
            stdout=output,
            stderr=output,
            start_new_session=True,
            preexec_fn=partial(die_with, os.getpid()),
        )
    try:
        while True:  # the job has its own deadline
            with contextlib.suppress(subprocess.TimeoutExpired):
                return process.wait(PATIENCE_S)
    finally:
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            try:
                process.wait(GRACE_S)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait(GRACE_S)
