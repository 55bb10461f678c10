"""How long iterations take with smaller shares (pure).

STAR's regression, T = a + c1 / processor share + c2 / bandwidth share, with what was measured: a share is work over
time, so an iteration takes work / share. Only what a task holds less than it used is added, for each resource; one that
keeps its shares keeps its measured time.
"""

from __future__ import annotations

from collections.abc import Mapping

from strategies.cluster.prevention.shares import Task
from strategies.protocol import RESOURCES, JobLoad, Resource, TaskLoad

Held = Mapping[Resource, Mapping[Task, float]]
"""Shares of the tasks that have been changed, by resource."""


def work_of(load: TaskLoad, resource: Resource) -> float:
    """An iteration's use of a resource: core-seconds, or bytes sent."""
    return load.cpu_s if resource == "cpu_cores" else load.sent_bytes


def rate_of(load: TaskLoad, resource: Resource) -> float:
    """The share with which it was measured (work over time)."""
    return load.cpu_cores if resource == "cpu_cores" else load.link_bytes_per_s


def added_s(job: str, load: TaskLoad, changed: Held) -> float:
    """Seconds by which its part of an iteration takes longer."""
    total = 0.0
    for resource in RESOURCES:
        rate, share = rate_of(load, resource), changed[resource].get((job, load.node))
        if share is not None and share < rate:
            total += work_of(load, resource) * (1.0 / share - 1.0 / rate)
    return total


def iteration_s(load: JobLoad, changed: Held) -> float:
    """Seconds per global batch: members of a group, not groups, wait for each other, and all for servers."""
    times_s, servers_s = dict[str, float](), 0.0
    for task in load.tasks:
        longer_s = added_s(load.job, task, changed)
        if task.iter_s is None:
            servers_s = max(servers_s, longer_s)
        else:
            times_s[task.node] = task.iter_s + longer_s
    rate = 0.0
    for group in groups_of(load):
        rate += len(group) / max(times_s[node] for node in group)
    return (len(times_s) / rate if rate else 0.0) + servers_s


def groups_of(load: JobLoad) -> list[list[str]]:
    """The measured workers by group, each that is in none by itself."""
    known = {task.node for task in load.tasks if task.iter_s is not None}
    groups = [[node for node in group if node in known] for group in load.groups]
    named = {node for group in groups for node in group}
    return [group for group in groups if group] + [[node] for node in sorted(known - named)]


def waited_for_s(load: JobLoad, changed: Held) -> dict[str, float]:
    """The time of the slowest of its group, by worker, before anything is taken."""
    times_s = {task.node: task.iter_s for task in load.tasks if task.iter_s is not None}
    slowest_s = {node: max(times_s[one] for one in group) for group in groups_of(load) for node in group}
    own_s = {
        task.node: task.iter_s + added_s(load.job, task, changed) for task in load.tasks if task.iter_s is not None
    }
    return {node: max(0.0, slowest_s[node] - own_s[node]) for node in own_s}
