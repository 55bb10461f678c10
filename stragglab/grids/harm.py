"""The jobs of the harm-and-gain grid: what each is, and how long it takes (``python run.py harm``)."""

from __future__ import annotations

import argparse
import csv
import hashlib
import json
from collections.abc import Iterator, Sequence
from contextlib import suppress
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, NamedTuple

from rich.console import Console

from analysis.measures.harm import REFERENCE
from injectors.plan import ClusterShape, Plan
from injectors.schedule import Schedule
from runtime.config.command_line import parse_arguments
from runtime.config.compose import Composer, composing
from runtime.config.parse import Config, parse
from runtime.errors import ConfigError
from runtime.house import ROOT
from runtime.importing import importing
from runtime.run.checks.job import CheckedJob, Undisturbed, check_job, check_undisturbed, disturbed, shape_of
from runtime.virtual.costs import load_costs
from stragglab.grids.forks import in_forks
from stragglab.grids.grid import JobFailed, progress

CODE = ("strategies", "injectors", "predictors", "reading", "runtime", "workloads")
MADE = (".pyc", ".so")
"""Endings of files that are made of the others."""
COSTS = Path("runtime", "fitted", "costs")
"""Cost models: the key of a job has the contents of its own."""
WHOLE = (
    "backend=none",
    "workload.target=null",
    "eval_every_s=null",
    "checkpoint_every_s=null",
    "topology.num_servers=4",
    "max_time_s=900",
    "view=none",
    "draw=false",
)
"""Settings of every job: only time matters."""


class Setting(NamedTuple):
    """The environment that a pattern is tried in."""

    words: tuple[str, ...]
    epochs: dict[int, int]
    """Epochs by number of workers; other numbers use the next smaller one's."""


PACED = Setting(("runtime=virtual", "workload=digits"), {4: 150, 16: 150, 64: 75})
HOSTS = Setting(
    (
        "runtime=virtual",
        "cluster=hosts",
        "cluster.hosts.count=${cluster.num_workers}",
        "cluster.hosts.real_cores_per_core=0.01",
        "workload=digits_cnn",
        "backend.num_parameters=75000",
    ),
    {4: 60, 16: 30, 64: 6},
)
PATTERNS = {
    **dict.fromkeys(
        (
            "none",
            "transient",
            "persistent",
            "persistent_server",
            "slowdown",
            "heterogeneity",
            "random_workers",
            "power_law",
            "kill",
            "pause",
        ),
        PACED,
    ),
    "cpu_throttle": HOSTS,
    "link_throttle": HOSTS,
}
WORKERS = (4, 16, 64)


class Task(NamedTuple):
    """One job of the grid."""

    workers: int
    straggler: str
    strategy: str
    seed: int
    key: str
    """Hash of its settings, cost model and code."""
    raw: dict[str, Any]

    @property
    def case(self) -> tuple[int, str, int]:
        """What it shares with its BSP job."""
        return self.workers, self.straggler, self.seed


class Timed(NamedTuple):
    """The result of a job; a line of ``jobs.csv``."""

    key: str
    workers: int
    straggler: str
    strategy: str
    seed: int
    outcome: str
    jct_s: float | None
    updates: int | None
    note: str


def tasks_of(asked: argparse.Namespace) -> Iterator[Task]:
    """All jobs, BSP's first: composed once per pattern, and once per strategy and setting, and combined."""
    code = code_sha256()
    strategies = [REFERENCE, *(name for name in asked.strategies if name != REFERENCE)]
    with composing(parse_arguments([])) as composer:
        examples = {setting_of(straggler).words: straggler for straggler in asked.stragglers}
        chosen = {  # of a setting, since some strategies read what they train from its workload
            words: {name: composed(composer, name, example, asked.workers[0], asked)["strategy"] for name in strategies}
            for words, example in examples.items()
        }
        for workers, straggler in product(asked.workers, asked.stragglers):
            around = composed(composer, REFERENCE, straggler, workers, asked)
            costs = load_costs(around["cluster"]["costs"]).sha256
            words = setting_of(straggler).words
            for strategy, seed in product(strategies, asked.seeds):
                names = {**around["names"], "strategy": strategy}
                raw = {**around, "strategy": chosen[words][strategy], "names": names, "seed": seed}
                key = hashlib.sha256(json.dumps([raw, costs, code], sort_keys=True).encode()).hexdigest()[:16]
                yield Task(workers, straggler, strategy, seed, key, raw)


def composed(
    composer: Composer, strategy: str, straggler: str, workers: int, asked: argparse.Namespace
) -> dict[str, Any]:
    """The configuration of one job, as plain data. Settings of strategies apply to strategies only."""
    of_others = strategy == REFERENCE
    mine = [word for word in asked.overrides if not (of_others and word.startswith("strategy."))]
    setting = setting_of(straggler)
    return composer.raw(
        [
            *WHOLE,
            *setting.words,
            f"workload.epochs={epochs_of(setting, workers)}",
            f"cluster.num_workers={workers}",
            f"straggler={straggler}",
            f"strategy={strategy}",
            *mine,
        ]
    )


def setting_of(straggler: str) -> Setting:
    """The environment that a pattern is tried in."""
    return PATTERNS.get(straggler, PACED)


def epochs_of(setting: Setting, workers: int) -> int:
    """The epochs of the largest listed number of workers up to this one."""
    known = [number for number in sorted(setting.epochs) if number <= workers]
    return setting.epochs[known[-1] if known else min(setting.epochs)]


def code_sha256(root: Path = ROOT) -> str:
    """Hash of all that affects how long a virtual job takes: Python and C, and what was fitted or recorded.

    Cost models do not count (``COSTS``), nor what is hidden: caches of tools.
    """
    found = hashlib.sha256()
    for folder in CODE:
        for path in sorted(path for path in (root / folder).rglob("*") if path.is_file()):
            name = path.relative_to(root)
            hidden = any(part.startswith(".") for part in name.parts)
            if path.suffix not in MADE and not hidden and COSTS not in name.parents:
                found.update(path.read_bytes())
    return found.hexdigest()


def run(tasks: Sequence[Task], asked: argparse.Namespace, console: Console) -> dict[str, Timed]:
    """The result of every task, by its key; tasks with a stored result are not run again."""
    path = asked.out / "jobs.csv"
    there = {} if asked.again else stored(path)
    missing = [task for task in tasks if task.key not in there]
    if len(missing) < len(tasks):
        console.print(f"{len(tasks) - len(missing)} of {len(tasks)} jobs exist already")
    with progress(console) as bar:
        number = bar.add_task("", total=len(missing))
        path.parent.mkdir(parents=True, exist_ok=True)
        with path.open("a", newline="") as file:
            lines = csv.writer(file)
            if not file.tell():
                lines.writerow(Timed._fields)
            for done in timed(missing, asked.jobs):
                there[done.key] = done
                lines.writerow(done)
                file.flush()
                told = f"{done.strategy} {done.straggler} {done.workers}"
                bar.update(number, advance=1, description=told, refresh=True)
    return there


def stored(path: Path) -> dict[str, Timed]:
    """The results in the file, without a torn last line."""
    if not path.exists():
        return {}
    found = {}
    with path.open(newline="") as file:
        for row in csv.DictReader(file):
            if None in row.values() or set(row) != set(Timed._fields):
                continue
            read: dict[str, Any] = {
                **row,
                "workers": int(row["workers"]),
                "seed": int(row["seed"]),
                "jct_s": float(row["jct_s"]) if row["jct_s"] else None,
                "updates": int(row["updates"] or 0),
            }
            found[row["key"]] = Timed(**read)
    return found


def timed(tasks: Sequence[Task], jobs: int) -> Iterator[Timed]:
    """Results as they end: the longest jobs first, to avoid a straggler at the end. Raises :class:`JobFailed`."""
    by_key = {task.key: task for task in sorted(tasks, key=lambda task: -task.workers)}
    shared = Shared()

    def prepared() -> Iterator[str]:
        for key, task in by_key.items():
            shared.prepare(task)
            yield key

    with TemporaryDirectory() as folder:

        def work(key: str) -> int:
            Path(folder, key).write_text(json.dumps(time_job(by_key[key], shared)))
            return 0

        for key, code in in_forks(prepared(), work, jobs):
            if code != 0:
                told = by_key[key]
                raise JobFailed(f"{told.strategy} under {told.straggler}, {told.workers} workers: exit code {code}")
            yield Timed(*json.loads(Path(folder, key).read_text()))


class Shared:
    """The plan of a case, made once for all of its jobs: ``power_law`` has a million windows.

    Forks inherit it with all that was imported to make it.
    """

    def __init__(self) -> None:
        self._case: tuple[int, str, int] | None = None
        self._made: tuple[ClusterShape, Plan, Schedule] | None = None

    def prepare(self, task: Task) -> None:
        """Make the plan of this task's case, unless it is the present one."""
        if task.case == self._case:
            return
        self._case, self._made = task.case, None
        with suppress(ConfigError), importing():  # the task itself says why it is refused
            job = check_job(parse(task.raw))
            self._made = _shape_of(job), job.plan, Schedule(job.plan)

    def checked(self, config: Config) -> tuple[CheckedJob, Schedule]:
        """A job of this case, which uses up the schedule; raises :class:`ConfigError`."""
        job = check_undisturbed(config)
        if self._made is None or self._made[0] != _shape_of(job):  # a replica can be disturbed, too
            whole = disturbed(job)
            return whole, Schedule(whole.plan)
        _, plan, schedule = self._made
        return disturbed(job, plan), schedule


def _shape_of(job: Undisturbed) -> ClusterShape:
    return shape_of(job.config, job.runtime, job.strategy.replicas, job.gpus)


def time_job(task: Task, shared: Shared) -> Timed:
    """Run it on the virtual clock, in this process, which can run no other job with the same ``shared`` afterwards."""
    from runtime.run.timing import outcome_of_job

    about = task.key, task.workers, task.straggler, task.strategy, task.seed
    try:
        config = parse(task.raw)
        job, schedule = shared.checked(config)
        outcome = outcome_of_job(job, schedule=schedule)
    except ConfigError as error:
        return Timed(*about, "refused", None, None, str(error))
    if outcome.status == "interrupted":
        raise KeyboardInterrupt
    if outcome.status != "done":
        return Timed(*about, "failed", None, None, outcome.reason)
    state = "done" if outcome.epochs_done == config.workload.epochs else "cut"
    return Timed(*about, state, outcome.t, outcome.version, "" if state == "done" else outcome.reason)
