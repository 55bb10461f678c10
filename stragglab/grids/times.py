"""Runs without a record (``times_only`` of an experiment): of each remains a small file with the time of its job."""

from __future__ import annotations

import argparse
import hashlib
import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import pandas as pd
from rich.console import Console

from analysis.experiments.results import base_of
from analysis.experiments.spec import PAIRED, Spec, cells, settings_of
from analysis.files import write_file
from analysis.records.load import RecordError
from injectors.plan import ClusterShape, Plan
from injectors.schedule import Schedule
from runtime.config import project
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.parse import parse
from runtime.errors import ConfigError
from runtime.importing import importing
from runtime.run.checks.job import CheckedJob, check_undisturbed, disturbed, shape_of
from runtime.run.inputs import files_in
from stragglab.grids.code import sha256_of_all
from stragglab.grids.forks import in_forks, processors
from stragglab.grids.grid import QUIET, JobFailed, progress

TIMES = "times"
"""The folder of these files within a grid's folder."""
SIZE = "cluster.num_workers="


class Task(NamedTuple):
    """A run that is timed. ``path``: of its result, named by a hash of its settings and of all that it reads."""

    name: str
    words: list[str]
    path: Path


def time_cells(spec: Spec, out: Path, asked: argparse.Namespace, console: Console) -> pd.DataFrame:
    """A row per run, as :func:`analysis.experiments.results.measure_runs` has it, with ``outcome`` and ``note``.

    ``outcome`` is done, cut (at ``max_time_s``, so that ``jct_s`` is a lower bound), refused or failed. Runs that have
    results are not repeated, unless ``asked.again``; ``asked.jobs`` run at a time. Raises :class:`JobFailed`.
    """
    there, tasks = list(cells(spec)), list(tasks_of(spec, out))
    missing = [task for task in tasks if asked.again or not task.path.exists()]
    if missing and asked.redraw:
        raise RecordError(f"{out}: {len(missing)} of {len(tasks)} runs are missing; run it without --redraw first")
    if len(missing) < len(tasks):
        console.print(f"{len(tasks) - len(missing)} of {len(tasks)} jobs exist already")
    with progress(console) as bar:
        number = bar.add_task("", total=len(missing))
        for name, code in in_turn(missing, asked.jobs or processors()):
            if code != 0:
                raise JobFailed(f"{name}: exit code {code}")
            bar.update(number, advance=1, description=name, refresh=True)
    about = {"runtime": "virtual", "calibration": "", "plan_sha256": None}
    found = [json.loads(task.path.read_bytes()) for task in tasks]
    rows = [{**cell.levels, "seed": cell.seed, **about, **one} for cell, one in zip(there, found, strict=True)]
    frame = pd.DataFrame(rows).astype({"jct_s": float})
    frame["completed"] = frame["outcome"] == "done"
    return frame.assign(**{PAIRED: frame["jct_s"] / base_of(spec, frame)}) if spec.paired else frame


def tasks_of(spec: Spec, out: Path) -> Iterator[Task]:
    """All runs in the order of the experiment."""
    code = sha256_of_all() + project.fingerprint()
    for cell in cells(spec):
        words = [*settings_of(spec, cell), *QUIET]
        files = [path.read_bytes().hex() for path in sorted({*files_in([word.partition("=")[2] for word in words])})]
        key = hashlib.sha256(json.dumps([words, files, code]).encode()).hexdigest()[:16]
        yield Task(cell.name, words, out / TIMES / f"{key}.json")


def in_turn(tasks: Sequence[Task], jobs: int) -> Iterator[tuple[str, int]]:
    """Time them in forks, which write the results: the largest first. Names and exit codes as they end.

    The plan of a case is made once, by this process: ``power_law`` has a million windows.
    """
    by_name = {task.name: task for task in sorted(tasks, key=_size, reverse=True)}
    raw: dict[str, Any] = {}
    composed: dict[str, dict[str, Any]] = {}
    shared = Shared()

    def compose_each() -> Iterator[str]:
        nonlocal raw
        case = ""
        for name, task in by_name.items():
            raw = composed.pop(name) if name in composed else composer.raw(task.words)
            if case_of(raw) != case:
                with suppress(ConfigError), importing():  # the task itself says why it is refused
                    shared.check(raw)
                    case = case_of(raw)
            yield name

    def work(name: str) -> int:
        write_file(by_name[name].path, json.dumps(time_job(raw, shared)))
        return 0

    with composing(parse_arguments([])) as composer:
        # a mistake in a setting is found before the first run
        composed |= {name: composer.raw(by_name[name].words) for name in one_of_each(by_name.values())}
        yield from in_forks(compose_each(), work, jobs)


def one_of_each(tasks: Iterable[Task]) -> Iterator[str]:
    """Name as many tasks as it takes to have each of their settings once."""
    seen: set[str] = set()
    for task in tasks:
        if not seen.issuperset(task.words):
            seen.update(task.words)
            yield task.name


def _size(task: Task) -> int:
    return max((int(word.removeprefix(SIZE)) for word in task.words if word.startswith(SIZE)), default=0)


def case_of(raw: Mapping[str, Any]) -> str:
    """Settings that all jobs with the same plan share, if their clusters have the same shape."""
    return json.dumps([raw[name] for name in ("straggler", "seed", "max_time_s")], sort_keys=True)


class Shared:
    """The plan that was made last; forks inherit it with all that was imported to make it."""

    def __init__(self) -> None:
        self._made: dict[tuple[str, ClusterShape], tuple[Plan, Schedule]] = {}

    def check(self, raw: dict[str, Any]) -> tuple[CheckedJob, Schedule]:
        """A job, which uses up the schedule of its plan; raises :class:`ConfigError`."""
        job = check_undisturbed(parse(raw))
        case = case_of(raw), shape_of(job.config, job.runtime, job.strategy.replicas, job.gpus)
        if case not in self._made:
            whole = disturbed(job)
            self._made = {case: (whole.plan, Schedule(whole.plan))}
        plan, schedule = self._made[case]
        return disturbed(job, plan), schedule


def time_job(raw: dict[str, Any], shared: Shared) -> dict[str, object]:
    """Run it on the virtual clock, in this process, which can run no other job with the same ``shared`` afterwards."""
    from runtime.run.timing import outcome_of_job

    try:
        job, schedule = shared.check(raw)
        outcome = outcome_of_job(job, schedule=schedule)
    except ConfigError as error:
        return {"outcome": "refused", "jct_s": None, "note": str(error)}
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.status != "done":
        return {"outcome": "failed", "jct_s": None, "note": outcome.reason}
    done = outcome.epochs_done == job.config.workload.epochs
    return {"outcome": "done" if done else "cut", "jct_s": outcome.t, "note": "" if done else outcome.reason}
