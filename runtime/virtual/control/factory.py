"""The models of a job: servers and workers with times known beforehand, or on shared machines."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from injectors.plan import target_of
from injectors.schedule import Schedule
from runtime.api import RunSpec
from runtime.cluster.device import DeviceProfile, Profiles
from runtime.cluster.hosts import Hosts
from runtime.core.inputs import GradientArrived
from runtime.core.job import Job
from runtime.core.membership import Membership
from runtime.virtual.clock import Clock
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import one_thread
from runtime.virtual.machines.machines import SHARED, ModelledMachines
from runtime.virtual.machines.network import Network
from runtime.virtual.machines.sites import THREAD_CORES, sites_of, sites_of_hosts
from runtime.virtual.machines.tenancy import Machines, Tenancy
from runtime.virtual.tasks.aggregators import Aggregators, Summed
from runtime.virtual.tasks.host_replicas import HostReplicas
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.iteration import Arrived, WorkerModel
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import ServerGroup, Servers
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import NodeId

Modelled = tuple[ServerGroup, WorkerModel, Machines | None]
"""The chosen models; no machines where only links are shared and nothing disturbs work in progress."""


def assemble(
    clock: Clock,
    spec: RunSpec,
    members: Membership,
    schedule: Schedule,
    costs: Costs,
    num_parameters: int,
    profiles: Profiles,
    hosts: Hosts | None,
    arrived: Arrived,
    tenancy: Tenancy | None,
    aggregators: Mapping[str, str],
    summed: Summed,
    tell: Callable[[GradientArrived], None],
    *,
    held: Arrived | None = None,
    note: Callable[..., object] = lambda *_, **__: None,
) -> Modelled:
    """Choose the simplest sufficient models; ``profiles[k]`` paces worker k unless its host has a device.

    ``arrived`` is called for gradients that are taken, or on machines ``tell``, ``control_s`` later; ``held`` for those
    that workers hold, in a job whose strategy schedules transfers. ``aggregators``: the hosts of tasks that sum
    gradients; ``summed`` is called when the servers have a sum.
    ``tenancy``: the job lives on machines that it shares, which have the names of its ``hosts``.
    """
    job = spec.job
    sizes = (num_parameters, job.num_servers, schedule.delay_for)
    replicas = None
    if not job.num_servers and hosts is None:
        ranks = 1 if profiles[0] is None else profiles[0].ranks
        replicas = Replicas(clock, costs, num_parameters, members, ranks=ranks, summing=spec.summing)
    shares_memory = spec.transport == "shm" or not job.num_servers
    if hosts is None and not schedule.kinds & SHARED:
        servers = replicas or Servers(costs, *sizes)
        servers.divide(job.start_layout)
        network = None
        if costs.link_bytes_per_s is not None and num_parameters and not shares_memory:
            network = Network(clock, costs.link_bytes_per_s, job.num_workers, job.num_servers)
            if job.num_replicas:  # any of the servers may be one, at some time
                for server in job.start_layout.servers:
                    network.add_replica(str(server))
        workers = Workers(
            clock,
            costs,
            profiles,
            servers,
            network,
            shares_memory=shares_memory,
            seed=job.seed,
            arrived=arrived,
            held=held,
        )
        return servers, workers, None
    machines = tenancy if tenancy and hosts else own_machines(clock, job, schedule, costs, hosts)
    if isinstance(machines, Tenancy):
        homes = sites_of(hosts, costs, job.num_workers, job.num_servers + job.num_replicas)
        disturbed = {change.target for change in schedule.changes(SHARED | {"kill"})}
        machines.admit({task: site.name for task, site in homes.items()}, disturbed, uses_of(costs))
    on_hosts = replicas or (
        HostServers(machines, costs, *sizes)
        if job.num_servers
        else HostReplicas(
            machines, costs, num_parameters, members, spec.summing, meanwhile=spec.strategy.sums_meanwhile, note=note
        )
    )
    on_hosts.divide(job.start_layout)
    paced = [device_of(worker, profiles[worker], hosts) for worker in range(job.num_workers)]
    default = profiles[0]  # for workers that move between hosts, if all have the same
    sums = None
    if aggregators:
        assert isinstance(on_hosts, HostServers)
        for name, host in aggregators.items():
            machines.enter(name, host, costs.server_cores)
        sums = Aggregators(machines, costs, on_hosts, sum(on_hosts.num_bytes), summed)
    host_workers = HostWorkers(
        machines,
        costs,
        paced,
        on_hosts,
        default=default,
        uses_cores=THREAD_CORES if hosts is None else costs.worker_cores,
        on_devices="gpu" in schedule.kinds,
        cuts=spec.strategy.cuts,
        shares_memory=shares_memory,
        seed=job.seed,
        arrived=arrived,
        held=held,
        tell=tell,
        aggregators=sums,
    )
    return on_hosts, host_workers, machines


def replicas_of(job: Job) -> tuple[int, ...]:
    """The numbers of the servers that begin as replicas."""
    return tuple(node.number for node in job.start_layout.servers if node not in job.start_layout.holders)


def own_machines(clock: Clock, job: Job, schedule: Schedule, costs: Costs, hosts: Hosts | None) -> ModelledMachines:
    """Machines of this job alone."""
    routes = sorted({change.target for change in schedule.changes(SHARED) if target_of(change.target).form == "route"})
    others = () if hosts is None else sites_of_hosts(hosts, costs)
    sites = sites_of(hosts, costs, job.num_workers, job.num_servers + job.num_replicas)
    return ModelledMachines(clock, sites, routes, others, one_thread if hosts is None else uses_of(costs))


def uses_of(costs: Costs) -> Callable[[str], float]:
    """The cores of a host that a task's computing uses at full speed, by the task's name."""
    uses = {"worker": costs.worker_cores, "server": costs.server_cores}
    return lambda task: uses[NodeId.parse(task).role]


def device_of(worker: int, profile: DeviceProfile | None, hosts: Hosts | None) -> DeviceProfile | None:
    """The profile that paces a worker: its host's device, or else the cluster's."""
    own = None if hosts is None else hosts.hosts[hosts.host_of[str(NodeId.worker(worker))]].device
    return profile if own is None else own
