"""Jobs on a cluster for tests: random ones, a replay that checks the record, and an independent simulation."""

from __future__ import annotations

import math
import random
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

from runtime.virtual.counts import CountsReplay
from strategies.protocol import JobRequest, Machine, Placement, Policy

Note = tuple[float, str, dict[str, Any]]


def machines_of(*gpus: int, **about: Any) -> list[Machine]:
    return [Machine(number=number, gpus=count, **about) for number, count in enumerate(gpus)]


def random_jobs(
    seed: int,
    count: int,
    gpus: Sequence[int] = (1, 1, 2, 4),
    *,
    every_s: float = 10.0,
    mean_s: float = 60.0,
    whole: bool = False,
    servers: Sequence[int] = (0,),
) -> list[JobRequest]:
    """Poisson arrivals; ``whole``: all times are whole numbers, so that many things happen at once."""
    draws, t, found = random.Random(seed), 0.0, []
    for number in range(count):
        t += draws.expovariate(1 / every_s)
        lasts_s = draws.expovariate(1 / mean_s)
        found.append(
            JobRequest(
                job=f"job{number}",
                submit_s=math.floor(t) if whole else t,
                gpus=draws.choice(gpus),
                servers=draws.choice(servers),
                duration_s=math.ceil(lasts_s) if whole else lasts_s,
            )
        )
    return found


@dataclass
class Played:
    """A replay and its record."""

    notes: list[Note] = field(default_factory=list)
    replay: CountsReplay | None = None

    def note(self, t: float, kind: str, /, **fields: Any) -> None:
        self.notes.append((t, kind, fields))

    def times(self, kind: str) -> dict[str, float]:
        """When each job had its last note of a kind."""
        return {fields["job"]: t for t, own, fields in self.notes if own == kind}


def play(
    jobs: Iterable[JobRequest],
    machines: Sequence[Machine],
    policy: Policy,
    placement: Placement,
    restart_s: float = 0.0,
) -> Played:
    played = Played()
    played.replay = CountsReplay(jobs, machines, policy, placement, played.note, restart_s)
    played.replay.run()
    return played


# ---- the independent simulation --------------------------------------------------------------------------------------


@dataclass
class _Job:
    number: int
    request: JobRequest
    left_s: float
    had_s: float = 0.0
    runs: bool = False
    level: int = 0
    forgiven_s: float = 0.0
    waited_s: float = 0.0
    ended_s: float = math.nan


Choice = Callable[[float, list[_Job], int], list[_Job]]
"""Given the time, all jobs in the cluster and the number of GPUs: those that hold GPUs from now on."""


def by_hand(
    jobs: Sequence[JobRequest],
    total_gpus: int,
    choose: Choice,
    thresholds: Sequence[float] = (),
    promote: float = math.inf,
) -> list[float]:
    """When every job ends. It knows GPUs as one number, looks at all jobs at every change, and keeps nothing between.

    ``thresholds``: GPU-seconds at which there is a decision, too. ``promote``: a job that has waited for so many times
    as long as it has run begins again.
    """
    pending = sorted(
        (_Job(n, one, one.duration_s or 0.0) for n, one in enumerate(jobs)), key=lambda j: j.request.submit_s
    )
    inside: list[_Job] = []
    over: list[_Job] = []
    t = 0.0
    while pending or inside:
        ends = [t + job.left_s for job in inside if job.runs]
        rises = [
            t + (limit - (job.had_s - job.forgiven_s) * job.request.gpus) / job.request.gpus
            for job in inside
            if job.runs
            for limit in thresholds[job.level : job.level + 1]
        ]
        hopes = [t + promote * (job.had_s - job.forgiven_s) - job.waited_s for job in inside if starves(job)]
        then = min([*ends, *rises, *hopes, *(job.request.submit_s for job in pending[:1])])
        for job in inside:
            if job.runs:
                job.left_s -= then - t
                job.had_s += then - t
                service = (job.had_s - job.forgiven_s) * job.request.gpus
                if job.level < len(thresholds) and service >= thresholds[job.level] - 1e-6:
                    job.level += 1
            elif job.had_s > job.forgiven_s:
                job.waited_s += then - t
                if starves(job) and job.waited_s >= promote * (job.had_s - job.forgiven_s) - 1e-6:
                    job.level, job.forgiven_s, job.waited_s = 0, job.had_s, 0.0
        t = then
        for job in [job for job in inside if job.runs and job.left_s <= 1e-7]:
            inside.remove(job)
            job.ended_s = t
            over.append(job)
        while pending and pending[0].request.submit_s <= t:
            inside.append(pending.pop(0))
        chosen = choose(t, inside, total_gpus)
        assert sum(job.request.gpus for job in chosen) <= total_gpus
        for job in inside:
            job.runs = job in chosen
    return [job.ended_s for job in sorted(over, key=lambda job: job.number)]


def starves(job: _Job) -> bool:
    """Whether it waits in a later queue after it has run."""
    return not job.runs and job.level > 0 and job.had_s > job.forgiven_s


def greedy(value: Callable[[_Job], float]) -> Choice:
    """Preemptive: by value, who holds GPUs first among equals; each gets its GPUs if so many are left."""

    def choose(t: float, inside: list[_Job], total: int) -> list[_Job]:
        chosen = []
        for job in sorted(inside, key=lambda job: (round(value(job), 6), not job.runs, job.number)):
            if job.request.gpus <= total:
                total -= job.request.gpus
                chosen.append(job)
        return chosen

    return choose


def keeping(value: Callable[[_Job], float], *, blocks: bool) -> Choice:
    """Not preemptive: who runs stays; the others by value, up to the first that does not fit (``blocks``) or all."""

    def choose(t: float, inside: list[_Job], total: int) -> list[_Job]:
        chosen = [job for job in inside if job.runs]
        total -= sum(job.request.gpus for job in chosen)
        for job in sorted((job for job in inside if not job.runs), key=lambda job: (value(job), job.number)):
            if job.request.gpus <= total:
                total -= job.request.gpus
                chosen.append(job)
            elif blocks:
                break
        return chosen

    return choose


def easy(t: float, inside: list[_Job], total: int) -> list[_Job]:
    """EASY in its textbook form: a shadow time and a number of extra GPUs."""
    chosen = [job for job in inside if job.runs]
    free = total - sum(job.request.gpus for job in chosen)
    queue = sorted((job for job in inside if not job.runs), key=lambda job: job.number)
    while queue and queue[0].request.gpus <= free:
        free -= queue[0].request.gpus
        chosen.append(queue.pop(0))
    if not queue:
        return chosen
    head, then, shadow_s, extra = queue.pop(0), free, math.nan, 0
    for job in sorted(chosen, key=lambda job: job.left_s):
        then += job.request.gpus
        if then >= head.request.gpus:
            shadow_s, extra = t + job.left_s, then - head.request.gpus
            break
    for job in queue:
        ends_in_time = t + job.left_s <= shadow_s + 1e-7
        if job.request.gpus <= free and (ends_in_time or job.request.gpus <= extra):
            free -= job.request.gpus
            extra -= 0 if ends_in_time else job.request.gpus
            chosen.append(job)
    return chosen
