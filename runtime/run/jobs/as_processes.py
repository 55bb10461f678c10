"""A checked set of jobs as real processes on emulated hosts."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import msgspec

from injectors.schedule import Schedule
from runtime.api import Outcome, RunSpec
from runtime.errors import ConfigError
from runtime.live.cluster.cluster import LiveCluster
from runtime.live.control.job import LiveJob
from runtime.live.control.job_resources import JobResources
from runtime.live.control.lab import LiveLab
from runtime.live.launchers.local import LocalLauncher
from runtime.live.machines.mechanisms import Mechanisms
from runtime.live.runtime import LiveRuntime
from runtime.record.cluster import ClusterRecorder
from runtime.run.jobs.checked import CheckedSet
from runtime.run.jobs.running import RunningJob
from strategies.protocol import Places


def shared_mechanisms(checked: CheckedSet) -> Mechanisms:
    """Choose the mechanisms by which this machine emulates the hosts and carries out the plans of all jobs together.

    Raises :class:`ConfigError` for what is impossible here.
    """
    jobs, limits = [job.checked for job in checked.jobs], checked.limits
    first = jobs[0]
    assert isinstance(first.runtime, LiveRuntime)
    arounds = [job.around for job in jobs]
    together = msgspec.structs.replace(
        first.around,
        asked=frozenset().union(*(around.asked for around in arounds)),
        commands=frozenset({"Allocate"} if limits else ()).union(*(around.commands for around in arounds)),
        cores_as="request" if any(around.cores_as == "request" for around in arounds) else "limit",
    )
    mechanisms = first.runtime.mechanisms(together)
    if mechanisms.host_quotas == "duty":
        raise ConfigError(
            f"cluster.hosts.cpu_cores={(first.config.cluster.hosts or {}).get('cpu_cores')}: without control groups "
            "each job would get all of it; jobs that share hosts need runtime.cpu_by=cgroup (python run.py doctor), or "
            "cluster.hosts.cpu_cores=null"
        )
    if limits and mechanisms.allocations == "cpulimit":
        raise ConfigError(
            f"runtime.cpu_by=cpulimit: grants whole percents of a core, and prevention={first.config.names.prevention} "
            "limits tasks to any part of one; use runtime.cpu_by=auto"
        )
    return mechanisms


@final
class _AsProcesses:
    def __init__(self, job: RunningJob) -> None:
        self._job = job
        self._spec: RunSpec | None = None

    def begin(self, places: Places, resources: JobResources) -> LiveJob:
        checked, self._spec = self._job.open(places)
        assert isinstance(checked.runtime, LiveRuntime)
        job = checked.runtime.job(self._spec, Schedule(checked.plan), resources)
        job.watched = self._job.use.observe
        self._job.begun = True
        return job

    def end(self, outcome: Outcome) -> None:
        if self._spec is not None:
            LiveRuntime.clear(self._spec)
        self._spec = None
        self._job.end(outcome)

    def crashed(self, error: Exception) -> str:
        return self._job.crashed(error)


def as_processes(
    checked: CheckedSet, jobs: Mapping[str, RunningJob], record: ClusterRecorder, tick: Callable[[float], None]
) -> LiveCluster:
    """Make the runner of jobs as processes; ``jobs`` by name."""
    mechanisms = shared_mechanisms(checked)
    return LiveCluster(
        LiveLab(checked.hosts, mechanisms, LocalLauncher),
        checked.machines,
        [job.request for job in checked.jobs],
        checked.policy,
        checked.placement,
        record,
        prevention=checked.prevention,
        jobs={name: _AsProcesses(job) for name, job in jobs.items()},
        use_every_s=checked.config.replay.use_every_s,
        grace_s=checked.config.replay.grace_s,
        tick=tick,
        start_cores=checked.start_cores,
        node_wait_s=checked.config.replay.node_wait_s,
        brain_away_s=checked.config.replay.brain_away_s,
    )
