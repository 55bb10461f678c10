"""A checked set of jobs on the virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

from injectors.schedule import Schedule
from runtime.api import Outcome
from runtime.record.cluster import ClusterRecorder
from runtime.run.jobs.checked import CheckedSet
from runtime.run.jobs.running import RunningJob
from runtime.virtual.clock import Clock
from runtime.virtual.cluster.cluster import VirtualCluster
from runtime.virtual.cluster.counted import CountedCluster
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import load_costs
from runtime.virtual.machines.sites import sites_of_hosts
from runtime.virtual.machines.tenancy import Tenancy
from runtime.virtual.runtime import VirtualRuntime, make_model_state
from strategies.protocol import Places


@final
class _OnClock:
    def __init__(self, job: RunningJob) -> None:
        self._job = job

    def begin(self, places: Places, clock: Clock, tenancy: Tenancy | None) -> VirtualSession:
        checked, spec = self._job.open(places)
        runtime = checked.runtime
        assert isinstance(runtime, VirtualRuntime)
        session = runtime.session(spec, Schedule(checked.plan), make_model_state(spec), clock, tenancy)
        session.reports.watched = self._job.use.observe
        self._job.begun = True
        return session

    def end(self, outcome: Outcome) -> None:
        self._job.end(outcome)

    def crashed(self, error: Exception) -> str:
        return self._job.crashed(error)


def on_clock(
    checked: CheckedSet, jobs: Mapping[str, RunningJob], record: ClusterRecorder, tick: Callable[[float], None]
) -> VirtualCluster | CountedCluster:
    """Make the runner of jobs on the clock; ``jobs`` by name."""
    replay, requests = checked.config.replay, [job.request for job in checked.jobs]
    cluster = checked.config.cluster
    if replay.detail == "gpus_only":
        return CountedCluster(
            checked.machines,
            requests,
            checked.policy,
            checked.placement,
            record,
            use_every_s=replay.use_every_s,
            restart_s=replay.restart_s,
            tick=tick,
        )
    return VirtualCluster(
        sites_of_hosts(checked.hosts, load_costs(cluster.costs, changes=cluster.cost_changes).values),
        checked.machines,
        requests,
        checked.policy,
        checked.placement,
        record,
        jobs={name: _OnClock(job) for name, job in jobs.items()},
        prevention=checked.prevention,
        use_every_s=replay.use_every_s,
        restart_s=replay.restart_s,
        grace_s=replay.grace_s,
        tick=tick,
        start_cores=checked.start_cores,
        node_wait_s=replay.node_wait_s,
        brain_away_s=replay.brain_away_s,
    )
