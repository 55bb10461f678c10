"""Jobs of Microsoft's Philly clusters (Jeon et al., ATC 2019)."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import final

from injectors.arrivals.base import Arrivals, Submission
from injectors.arrivals.cells import MAX_JOBS, in_order
from injectors.arrivals.drawing import Draws, Servers, check_models, check_range, check_servers
from injectors.arrivals.philly_files import TracedJob, read_trace
from injectors.arrivals.times import PACIFIC, seconds_of, zone_of
from injectors.patterns.fields import check_number


@final
@dataclass(frozen=True, kw_only=True)
class Philly(Arrivals):
    """Jobs that were submitted in a window of time, all of them or a sample.

    Attributes:
        path: of ``cluster_job_log`` or of ``philly.csv``; relative to the working directory or the repository.
        begin: local Pacific time at which the window begins and the cluster's clock is 0; None: at the first job.
        end: at which it ends; jobs submitted then are not in it; None: after the last job.
        num_jobs: so many of them, drawn with the seed; None: all.
        min_gpus: jobs with fewer are left out, before the sample is drawn.
        max_gpus: jobs with more likewise; None: no limit.
        workers: the number of workers is drawn again, uniform from [least, most]; None: one for every GPU of the trace.
        servers: of every job, or ``uniform``: from 1 to its workers; None: as the run has it.
        models: every job trains one of them, all equally likely; none: the run's own.
        time_scale: times of submission and durations are multiplied by it.
        max_duration_s: longer jobs are cut to it, after scaling; None: they are not.
    """

    path: str
    begin: str | None = None
    end: str | None = None
    num_jobs: int | None = None
    min_gpus: int = 1
    max_gpus: int | None = None
    workers: tuple[int, int] | None = None
    servers: Servers = None
    models: tuple[str, ...] = ()
    time_scale: float = 1.0
    max_duration_s: float | None = None

    def __post_init__(self) -> None:
        for name in ("begin", "end"):
            if (text := getattr(self, name)) is not None:
                _seconds(name, text)
        if self.begin is not None and self.end is not None and _seconds("", self.end) <= _seconds("", self.begin):
            raise ValueError(f"end={self.end}: must be after begin={self.begin}")
        if self.num_jobs is not None:
            check_number("num_jobs", self.num_jobs, least=1, most=MAX_JOBS)
        check_number("min_gpus", self.min_gpus, least=1)
        if self.max_gpus is not None:
            check_number("max_gpus", self.max_gpus, least=self.min_gpus)
        check_range("workers", self.workers)
        check_servers(self.servers)
        check_models(self.models)
        check_number("time_scale", self.time_scale, above=0)
        if self.max_duration_s is not None:
            check_number("max_duration_s", self.max_duration_s, above=0)

    def submissions(self, seed: int) -> list[Submission]:
        """Raises ``ValueError`` naming the row and column, or the setting that leaves no jobs."""
        jobs, draws = self._choose(read_trace(self.path)), Draws(seed, "philly")
        if self.num_jobs is not None:
            if self.num_jobs > len(jobs):
                raise ValueError(
                    f"num_jobs={self.num_jobs}: the window has {len(jobs)} jobs of these sizes; use fewer, a longer "
                    "window, or the whole trace (path)"
                )
            jobs = [jobs[place] for place in draws.sample(self.num_jobs, len(jobs))]
        zero_s = jobs[0].submit_s if self.begin is None else _seconds("begin", self.begin)
        try:
            return in_order([(one.place, self._submission(one, zero_s, draws)) for one in jobs])
        except ValueError as error:
            raise ValueError(f"path={self.path}: {error}") from None

    def _choose(self, jobs: Sequence[TracedJob]) -> list[TracedJob]:
        """Jobs in the window and of the right size, by time of submission."""
        if not jobs:
            raise ValueError(f"path={self.path}: has no usable job")
        since_s = min(one.submit_s for one in jobs) if self.begin is None else _seconds("begin", self.begin)
        before_s = max(one.submit_s for one in jobs) + 1 if self.end is None else _seconds("end", self.end)
        inside = [one for one in jobs if since_s <= one.submit_s < before_s]
        if not inside:
            first, last = (_text(pick(one.submit_s for one in jobs)) for pick in (min, max))
            raise ValueError(
                f"begin={self.begin}: no job was submitted until end={self.end}; the trace is from {first} to {last}"
            )
        most = max(one.gpus for one in inside) if self.max_gpus is None else self.max_gpus
        fitting = [one for one in inside if self.min_gpus <= one.gpus <= most]
        if not fitting:
            raise ValueError(f"min_gpus={self.min_gpus}: of {len(inside)} jobs in the window none has so many GPUs")
        return sorted(fitting, key=lambda one: one.submit_s)

    def _submission(self, one: TracedJob, zero_s: float, draws: Draws) -> Submission:
        gpus = one.gpus if self.workers is None else draws.gpus(*self.workers)
        lasts_s = one.duration_s * self.time_scale
        return Submission(
            job=one.job,
            submit_s=(one.submit_s - zero_s) * self.time_scale,
            gpus=gpus,
            duration_s=lasts_s if self.max_duration_s is None else min(lasts_s, self.max_duration_s),
            servers=draws.servers(self.servers, gpus),
            user=one.user,
            model=draws.model(self.models),
        )


def _seconds(name: str, text: object) -> float:
    try:
        return seconds_of("", "", text, zone_of(PACIFIC))
    except ValueError:
        raise ValueError(f"{name}={text}: must be a time such as 2017-10-09 or 2017-10-09 12:00:00") from None


def _text(seconds: float) -> str:
    return datetime.fromtimestamp(seconds, UTC).astimezone(zone_of(PACIFIC)).strftime("%Y-%m-%d %H:%M:%S")
