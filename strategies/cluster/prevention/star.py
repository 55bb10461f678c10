"""STAR's prevention upon a change of the mode (section IV-D1): how much each task gives, and whether it pays (pure)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Annotated, ClassVar, final

from reading.ranges import Checked, OneOf, PositiveFrac
from strategies.cluster.prevention.shares import (
    NOTHING,
    Task,
    free_of,
    held_shares,
    model_sensitivity,
    reductions,
    weight_of,
)
from strategies.cluster.prevention.times import iteration_s, rate_of, waited_for_s, work_of
from strategies.protocol import RESOURCES, Asked, Grant, JobLoad, Resource, Share, TaskLoad

LEAST_GAIN, MOST_GAIN = 1e-4, 1.0
"""Bounds of a job's gain, so that one that has converged does not give everything."""


@final
@dataclass(frozen=True, kw_only=True)
class StarPrevention(Checked):
    """Grants what a host has left; else takes what fast workers do not need, then from all in proportion to 1 / (S A).

    1. The missing amount of a resource is the demand minus the host's free capacity.
    2. Workers of other jobs that wait for a slower worker of their group can give as much as lets them end together
       with it. Each gives the same part of this amount, as much as is missing.
    3. The rest is taken from all tasks of other jobs on that host, in proportion to 1 / (S A), with the sensitivity S
       of the job's model to this resource and its gain A; every task keeps ``floor_frac``.
    4. If any task gives anything, it must pay: the other jobs' iterations must lose less time than the asking job
       gains. Otherwise, and if there is not enough, the answer is no.

    Departures: in 2 no task gives more than is missing, and the floor holds there, too; the sum in 4 counts seconds per
    global batch, because an iteration of ASGD is one of a single worker.

    Attributes:
        reduce_by: ``sensitivity``, or ``equal``: 3 divides equally (the ablation /RS).
        floor_frac: part of its share that every task keeps.
    """

    takes: ClassVar[bool] = True

    reduce_by: Annotated[str, OneOf("sensitivity", "equal")] = "sensitivity"
    floor_frac: PositiveFrac = 0.1

    def answer(self, asked: Asked) -> Grant:
        books = _Books(asked, self.floor_frac)
        missing = False
        for host in asked.hosts:
            for resource in RESOURCES:
                extra = books.extra(host.host, resource)
                lacking = extra - books.free(host.host, resource)
                if not extra or lacking <= NOTHING * extra:
                    continue
                missing = True
                lacking -= books.equalise(host.host, resource, lacking)
                if lacking > NOTHING * extra:
                    lacking -= books.reduce(host.host, resource, lacking, self._weights(asked, resource))
                if lacking > NOTHING * extra:
                    return Grant(ok=False, reason=f"{host.host}: {lacking:.4g} {resource} more than all can give")
        added_s = books.added_s()
        if missing and not added_s < asked.worth_s:
            return Grant(
                ok=False,
                reason=f"costs other jobs {added_s:.4g} s per iteration, and is worth {asked.worth_s:.4g} s",
                added_s=added_s,
            )
        return Grant(ok=True, shares=books.changed_shares(), added_s=added_s)

    def _weights(self, asked: Asked, resource: Resource) -> dict[str, float]:
        """1 / (S A) by job, or the same of all."""
        if self.reduce_by == "equal":
            return dict.fromkeys((job.job for job in asked.jobs), 1.0)
        return {
            job.job: weight_of(model_sensitivity(job.model, resource), min(MOST_GAIN, max(LEAST_GAIN, job.gain)))
            for job in asked.jobs
        }


class _Books:
    """The shares of all tasks while one question is answered."""

    def __init__(self, asked: Asked, floor_frac: float) -> None:
        self.asked, self.floor_frac = asked, floor_frac
        self.room = {host.host: host for host in asked.hosts}
        self.loads: dict[Task, tuple[JobLoad, TaskLoad]] = {
            (job.job, task.node): (job, task) for job in asked.jobs for task in job.tasks
        }
        self.demands = {demand.node: demand for demand in asked.demands}
        self.held: dict[Resource, dict[Task, float]] = {resource: {} for resource in RESOURCES}
        for host in asked.hosts:
            for resource in RESOURCES:
                if (capacity := getattr(host, resource)) is not None:
                    self.held[resource] |= self._shares_on(host.host, resource, capacity)
        self.before = {resource: dict(held) for resource, held in self.held.items()}
        self.changed: dict[Resource, dict[Task, float]] = {resource: {} for resource in RESOURCES}

    def _shares_on(self, host: str, resource: Resource, capacity: float) -> dict[Task, float]:
        here = {key: load for key, (_, load) in self.loads.items() if load.host == host}
        fixed = {key: rate_of(load, resource) for key, load in here.items() if resource in load.fixed}
        wanted = {key: rate_of(load, resource) for key, load in here.items() if key not in fixed}
        return held_shares(capacity, wanted, fixed)

    def on(self, host: str) -> list[Task]:
        """Tasks of other jobs on a host."""
        return [key for key, (_, load) in self.loads.items() if load.host == host and key[0] != self.asked.job]

    def extra(self, host: str, resource: Resource) -> float:
        """The sum that the job's tasks on a host ask for."""
        own = [load.node for key, (_, load) in self.loads.items() if load.host == host and key[0] == self.asked.job]
        amounts: list[float] = [getattr(self.demands[node], resource) for node in own if node in self.demands]
        return sum(amounts)

    def free(self, host: str, resource: Resource) -> float:
        """The part of the host's resource that no task holds; infinite without a limit."""
        capacity = getattr(self.room[host], resource)
        if capacity is None:
            return float("inf")
        held = {key: share for key, share in self.held[resource].items() if self.loads[key][1].host == host}
        return free_of(capacity, held)

    def floor(self, key: Task, resource: Resource) -> float:
        """The least that a task keeps."""
        return self.floor_frac * self.before[resource][key]

    def equalise(self, host: str, resource: Resource, lacking: float) -> float:
        """Take from workers that wait anyway; returns how much."""
        spare = dict[Task, float]()
        for key in self.on(host):
            job, load = self.loads[key]
            work, rate = work_of(load, resource), rate_of(load, resource)
            if load.iter_s is None or not work or not rate:
                continue
            slack_s = waited_for_s(job, self.changed)[load.node]
            enough = rate / (1.0 + slack_s * rate / work)
            spare[key] = max(0.0, self.held[resource][key] - max(enough, self.floor(key, resource)))
        total = sum(spare.values())
        part = min(1.0, lacking / total) if total > 0 else 0.0
        for key, most in spare.items():
            self.take(key, resource, part * most)
        return part * total

    def reduce(self, host: str, resource: Resource, lacking: float, weights: Mapping[str, float]) -> float:
        """Take from all, whatever it costs; returns how much."""
        keys = self.on(host)
        most = {key: max(0.0, self.held[resource][key] - self.floor(key, resource)) for key in keys}
        given = reductions(lacking, {key: weights[key[0]] for key in keys}, most)
        for key, amount in given.items():
            self.take(key, resource, amount)
        return sum(given.values())

    def take(self, key: Task, resource: Resource, amount: float) -> None:
        """A task holds less."""
        if amount > 0:
            self.held[resource][key] -= amount
            self.changed[resource][key] = self.held[resource][key]

    def added_s(self) -> float:
        """Seconds by which the iterations of all jobs that give something take longer."""
        nothing: dict[Resource, dict[Task, float]] = {resource: {} for resource in RESOURCES}
        giving = {key[0] for changed in self.changed.values() for key in changed}
        loads = [job for job in self.asked.jobs if job.job in giving]
        return sum(iteration_s(load, self.changed) - iteration_s(load, nothing) for load in loads)

    def changed_shares(self) -> dict[tuple[str, str], Share]:
        """The shares of all tasks that give something or were granted something."""
        shares = dict[tuple[str, str], Share]()
        for key in self.loads:
            job, node = key
            found = {resource: self.changed[resource].get(key) for resource in RESOURCES}
            if job == self.asked.job and (demand := self.demands.get(node)) is not None:
                for resource in RESOURCES:
                    extra, held = getattr(demand, resource), self.held[resource].get(key)
                    found[resource] = held + extra if extra and held is not None else None
            if any(share is not None for share in found.values()):
                shares[key] = Share(node=node, **found)
        return shares
