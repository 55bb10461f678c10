"""Sets of jobs for tests: sources that list them, and the way from settings to a checked set."""

from __future__ import annotations

import os
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any, final

import msgspec
import pandas as pd

from injectors.arrivals.base import Submission
from runtime.config.command_line import parse_arguments
from runtime.config.compose import composing
from runtime.config.instantiate import ALLOW_VARIABLE
from runtime.config.parse import parse
from runtime.run.jobs.checked import CheckedSet
from runtime.run.jobs.checks import check_set
from runtime.run.jobs.replay import run_set
from strategies.protocol import Apply, Command, Compute, Event, Started, Strategy

WORDS = (
    "runtime=virtual",
    "cluster=star_servers",
    "backend=none",
    "straggler=none",
    "view=none",
    "replay.use_every_s=5",
)
"""Of most sets here."""

Row = Mapping[str, Any]


@final
@dataclass(frozen=True, kw_only=True)
class Given:
    """The jobs that are written in the configuration."""

    rows: list[dict[str, Any]]

    def submissions(self, seed: int) -> list[Submission]:
        return msgspec.convert(self.rows, list[Submission])


@final
@dataclass(kw_only=True)
class Lawless(Strategy):
    """Applies a gradient that does not exist."""

    data: str = "dynamic"

    def handle(self, event: Event) -> list[Command]:
        return [Apply(grads=(999_999,), weights=(1.0,))] if isinstance(event, Started) else []


@final
@dataclass(kw_only=True)
class Raising(Strategy):
    """Has a bug that shows with the first gradient."""

    data: str = "dynamic"

    def handle(self, event: Event) -> list[Command]:
        if isinstance(event, Started):
            batches = zip(event.workers, event.batch_samples, strict=True)
            return [Compute(worker=worker, num_samples=samples) for worker, samples in batches]
        raise RuntimeError("a bug of this strategy")


def checked_set(
    rows: Sequence[Row],
    *words: str,
    again: Callable[[dict[str, Any], tuple[str, ...]], Mapping[str, Any]] | None = None,
) -> CheckedSet:
    """What ``jobs=given`` with these rows and ``words`` is; ``again(raw, settings)`` composes settings of single jobs.

    Raises ``ConfigError``.
    """
    with allowed(), composing(parse_arguments([*WORDS, *words])) as composer:
        raw = composer.raw(composer.lines)
        raw["jobs"] = {"_target_": "tests.support.job_sets.Given", "rows": [dict(row) for row in rows]}
        raw["names"]["jobs"] = "given"

        def recompose(settings: tuple[str, ...]) -> Mapping[str, Any]:
            if again is not None:
                return again(raw, settings)
            return {**composer.raw([*composer.lines, *settings]), "jobs": raw["jobs"]}

        return check_set(raw, parse(raw), Path.cwd(), recompose)


@contextmanager
def allowed() -> Iterator[None]:
    """Configurations may name what is here."""
    before = os.environ.get(ALLOW_VARIABLE)
    os.environ[ALLOW_VARIABLE] = "tests"
    try:
        yield
    finally:
        del os.environ[ALLOW_VARIABLE]
        if before is not None:
            os.environ[ALLOW_VARIABLE] = before


def run_rows(run_dir: Path, rows: Sequence[Row], *words: str) -> pd.DataFrame:
    """Run them; returns ``jobs.parquet`` by the names of the jobs."""
    assert run_set(checked_set(rows, *words), run_dir).exit_code == 0
    return table_of(run_dir)


def table_of(run_dir: Path) -> pd.DataFrame:
    return pd.read_parquet(run_dir / "jobs.parquet").set_index("job", drop=False)


def notes_of(run_dir: Path) -> list[dict[str, Any]]:
    """The notes of ``cluster.jsonl`` with their times."""
    lines = [msgspec.json.decode(line) for line in (run_dir / "cluster.jsonl").read_bytes().splitlines()]
    assert [line["seq"] for line in lines] == list(range(len(lines)))
    return [{"t": line["t"], **line["note"]} for line in lines]


def gpu_violations(notes: Iterable[dict[str, Any]], gpus: list[int]) -> list[str]:
    """Hosts that hold more workers than they have GPUs, at any instant."""
    workers: dict[str, list[int]] = {}
    found = []
    for note in notes:
        if note["type"] == "Placed":
            workers[note["job"]] = list(note["workers"])
        elif note["type"] == "Moved" and note["task"].startswith("worker:"):
            workers[note["job"]][int(note["task"].removeprefix("worker:"))] = note["host"]
        elif note["type"] in ("Ended", "Queued"):  # as a preempted job does when its GPUs are free
            workers.pop(note["job"], None)
        used = sum(map(Counter, workers.values()), Counter())
        found += [f"host {host} at {note['t']}" for host, count in used.items() if count > gpus[host]]
    return found


def row(job: str, submit_s: float = 0.0, gpus: int = 2, iterations: int = 5, **more: Any) -> dict[str, Any]:
    """A small job of ResNet-20."""
    size = {"gpus": gpus, "servers": 1, "iterations": iterations, "model": "resnet20"}
    return {"job": job, "submit_s": submit_s, **size, **more}
