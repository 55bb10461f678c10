"""``runtime=virtual``: time from an event heap and a cost model, gradients from a real backend or from none."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from functools import partial
from typing import Any, ClassVar, Literal, cast, final

from injectors.schedule import Schedule
from runtime.api import TELEMETRY_S, Needs, Outcome, RunContext, RunSpec, check_telemetry
from runtime.cluster.device import DEVICES, DeviceProfile, Profiles, WorkerDevice, parse_device, profiles_of, slowest_s
from runtime.cluster.hosts import Hosts, HostsSpec, aggregator_hosts, parse_hosts
from runtime.cluster.leases import longest_silence_s
from runtime.cluster.replica import REPLICA, as_replicas, parse_replica
from runtime.cluster.requests import REQUESTS
from runtime.config.abilities import commands_on
from runtime.config.checking import convert
from runtime.config.parse import Cluster, Config
from runtime.config.rules import check_combinations
from runtime.core.executor import cut_for
from runtime.errors import ConfigError
from runtime.importing import importing
from runtime.virtual.clock import PLAN, Clock
from runtime.virtual.control.refusals import HIDDEN, Shown, refuse_without_kernel
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.costs import load_costs
from runtime.virtual.event_loop.obstacles import refuse_misspelt
from runtime.virtual.lab import VirtualLab
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.speeds import SETTING as SPEEDS
from runtime.virtual.machines.speeds import changes_of, parse_speeds
from runtime.virtual.machines.tenancy import Tenancy
from runtime.virtual.stand_in import SETTING, parse_stand_in
from runtime.virtual.tasks.model_state import ModelState, NoModelState, RealModelState
from strategies.protocol import NodeId, StepAlone, Strategy

HOSTS = "cluster.hosts"


@final
@dataclass(kw_only=True)
class VirtualRuntime:
    """Runs a job on a virtual clock.

    ``conf/runtime/virtual.yaml`` describes every field, ``conf/cluster/local.yaml`` the fields of ``cluster``. The
    comparison with live runs on hosts gives ``speeds`` (:mod:`runtime.virtual.machines.speeds`), which no YAML lists.
    """

    name: ClassVar[str] = "virtual"
    needs_gradients: ClassVar[bool] = False
    real_time: ClassVar[bool] = False

    cluster: Cluster
    decisions: Literal["fixed", "measured"] = "fixed"
    lease_s: float | None = None
    telemetry_every_s: float | Literal["auto"] | None = "auto"
    stand_in: dict[str, Any] | None = None
    speeds: list[float] | None = None

    def __post_init__(self) -> None:
        if self.decisions not in ("fixed", "measured"):
            raise ValueError(f"decisions={self.decisions}: must be fixed or measured")
        if self.lease_s is not None and not self.lease_s > 0:
            raise ValueError(f"lease_s={self.lease_s:g}: must be more than 0")
        check_telemetry(self.telemetry_every_s)
        self._stand_in = parse_stand_in(self.stand_in)
        self._speeds = parse_speeds(self.speeds)
        try:
            self._look_at(self.cluster)
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"cluster.{error}") from None

    def _look_at(self, cluster: Cluster) -> None:
        """Refuse a cluster in which the virtual clock could not advance."""
        hosts = cluster.hosts
        self._cores = {"worker": cluster.worker_cores, "server": cluster.server_cores}
        for role, cores in self._cores.items():
            if cores is not None and hosts is not None:
                raise ValueError(
                    f"{role}_cores={cores:g}: on hosts, tasks have the cores of theirs; leave one of the two out"
                )
        self._profile = parse_device(cluster.device)
        self._profiles = profiles_of(cluster.device, cluster.devices, cluster.num_workers, on_hosts=hosts is not None)
        self._model = load_costs(cluster.costs, changes=cluster.cost_changes)
        self._values = self._model.values
        if self._stand_in is not None:
            self._values = self._stand_in.costs(self._values)
            self._profile = self._stand_in.device(self._profile)
            self._profiles = self._stand_in.devices(self._profiles)
        self._spec: HostsSpec | None = None if hosts is None else convert(dict(hosts), HostsSpec, HOSTS)
        self._host_profile = None if self._spec is None else parse_device(self._spec.device, "hosts.device")
        if cluster.devices is not None:
            _refuse_timeless_types(self._profiles)
        elif self._spec is None:
            self._refuse_timeless(self._profile, "device")
        if cluster.replica is not None:
            if hosts is not None:
                raise ConfigError(f"{REPLICA}: ranks have machines of their own; leave it or cluster.hosts out")
            if self._values.compute_s(1):
                raise ConfigError(
                    f"{REPLICA}: the cost model {cluster.costs} has times of one rank that computes; use one without, "
                    "such as cluster.costs=local_tcp, and cluster.device"
                )
            self._profiles = as_replicas(self._profiles, parse_replica(cluster.replica, cluster.num_workers))

    def _refuse_timeless(self, profile: DeviceProfile | None, setting: str) -> None:
        """Refuse a ``profile``, given by ``setting``, with which an iteration takes no time."""
        if profile is None and not self._values.compute_s(1):
            raise ValueError(
                f"{setting}=null: the cost model {self.cluster.costs} does not say how long computing takes; give "
                "a device profile, or a model that was calibrated on runs without one"
            )
        if profile is not None and not profile.seconds(1):
            raise ValueError(f"{setting}: an iteration must take some time, or the clock would not advance; set base_s")

    @property
    def num_hosts(self) -> int:
        """Number of emulated hosts; 0 where each task has its own machine."""
        return 0 if self._spec is None else self._spec.count

    def base_iter_s(self, batch_samples: int) -> float | None:
        """Nominal seconds of an undisturbed iteration, alone on a host without overrides.

        Of a mix of devices it is the slowest's, for which a synchronous job waits. A device counts as it is described,
        as live: one plan for both.
        """
        if self.cluster.devices is not None or self.cluster.replica is not None:
            return slowest_s(self._profiles, batch_samples)
        profile, costs, cores = self._profile, self._values, self.cluster.worker_cores
        if self._spec is not None:
            profile = self._host_profile or profile
            if self._spec.cpu_cores is not None:
                cores = self._spec.cpu_cores * self._spec.real_cores_per_core
        if profile is not None:
            return profile.seconds(batch_samples)
        real_s = costs.compute_s(batch_samples)
        if cores is not None and cores < costs.worker_cores:
            real_s = real_s * costs.worker_cores / cores
        return self.cluster.nominal_iter_s or real_s

    def can(self, config: Config) -> dict[str, str | None]:
        """Whether topology and backend can carry out each command, and the record can hold it."""
        return commands_on(config)

    def check(self, around: RunContext) -> Needs:
        """Refuse what cannot work, or would have no effect; it needs nothing of this machine."""
        refuse_misspelt()
        hosts = self._parse_hosts(around.num_servers + around.replicas)
        refuse_without_kernel(hosts, self._values, around)
        self._check_stand_in(hosts, around)
        if self._speeds and hosts is None:
            raise ConfigError(f"{SPEEDS}: is of the processors that hosts share; choose cluster=hosts")
        if around.aggregators and hosts is None:
            raise ConfigError(
                f"strategy: has aggregators ({around.aggregators}; num_aggregators or tree_fanout), which are tasks of "
                "hosts; choose cluster=hosts"
            )
        if hosts is not None:
            aggregator_hosts(hosts, around.aggregators, around.aggregators_at)
        if around.cores_as == "request":
            check_combinations(REQUESTS, hosts)
        if hosts is not None and ("Launch" in around.commands or "join" in around.kinds):
            self._refuse_timeless_hosts(hosts)
        devices = [*self._profiles, *(host.device for host in hosts.hosts)] if hosts is not None else self._profiles
        paced_s = max((device.seconds(1) for device in devices if device is not None), default=0.0)
        check_combinations(HIDDEN, Shown(hosts=hosts, costs=self._values, around=around, paced_s=paced_s))
        return Needs()

    def _check_stand_in(self, hosts: Hosts | None, around: RunContext) -> None:
        """Refuse what would not be timed as the other model."""
        if self._stand_in is None:
            return
        if hosts is not None and any(host.device is not None for host in hosts.hosts):
            raise ConfigError(f"{SETTING}: times of hosts with devices of their own are not known; use cluster.device")
        if around.replicas:
            raise ConfigError(f"{SETTING}: replicas hold the task's own parameters; set strategy.num_replicas=0")

    def _parse_hosts(self, num_servers: int) -> Hosts | None:
        if self.cluster.hosts is None:
            return None
        hosts = parse_hosts(self.cluster.hosts, self.cluster.num_workers, num_servers, HOSTS)
        of_workers = {hosts.host_of[str(NodeId.worker(worker))] for worker in range(self.cluster.num_workers)}
        self._refuse_timeless_hosts(hosts, of_workers)
        return hosts

    def _refuse_timeless_hosts(self, hosts: Hosts, numbers: Collection[int] | None = None) -> None:
        """Refuse hosts (all, or these) on which an iteration takes no time."""
        try:
            for host in hosts.hosts:
                if numbers is None or host.number in numbers:
                    profile = self._profile if host.device is None else host.device
                    self._refuse_timeless(profile, "device" if host.device is None else "hosts.device")
        except ValueError as error:
            raise ConfigError(f"cluster.{error}") from None

    def machine(self, around: RunContext) -> dict[str, Any]:
        """Nothing: virtual time depends only on modelled machines."""
        hosts = self._parse_hosts(around.num_servers + around.replicas)
        devices = {"gpus": list(around.gpus)} if around.gpus and "gpu" in around.kinds else {}
        return devices if hosts is None else {"hosts": hosts.describe(), **devices}

    def await_nodes(self, task: dict[str, Any], framework: str, device: str) -> None:
        """Nothing to wait for."""

    def calibration(self, batch_samples: int) -> str:
        """The cost model, as records and captions name it."""
        model = self._model
        beyond = ", extrapolated" if model.extrapolates(batch_samples, self.cluster.num_workers) else ""
        return f"{model.known_as}{beyond}"

    def run(self, spec: RunSpec, schedule: Schedule) -> Outcome:
        """A lab with one job."""
        model_state = make_model_state(spec)
        lab, name = VirtualLab(), "job"
        lab.add(name, partial(self.session, spec, schedule, model_state))
        return lab.run()[name]

    def session(
        self, spec: RunSpec, schedule: Schedule, model_state: ModelState, clock: Clock, tenancy: Tenancy | None
    ) -> VirtualSession:
        """A job of a lab, on its clock; the record is written by ``spec.record``."""
        session = VirtualSession(
            spec,
            schedule,
            model_state,
            self._values,
            self._profiles,
            measures_decisions=self.decisions == "measured",
            hosts=self._parse_hosts(spec.job.num_servers + spec.job.num_replicas),
            lease_s=longest_silence_s(self.lease_s, self.cluster),
            clock=clock,
            tenancy=tenancy,
            telemetry_every_s=self.telemetry_s(spec.strategy),
            sent_parameters=None if self._stand_in is None else self._stand_in.parameters,
        )
        for node in session.members.layout.nodes:
            if (cores := self._cores[node.role]) is not None:
                session.places.allocate(str(node), cores)
        if self._speeds:
            assert isinstance(session.machines, ModelledMachines), "jobs without hosts, and sets of jobs, are refused"
            for at_s, speed in changes_of(self._speeds):
                clock.at(at_s, PLAN, session.machines.run_at, speed)
        return session

    def telemetry_s(self, strategy: Strategy) -> float | None:
        """Seconds between two samples; by default, only strategies that watch what nodes use are given any."""
        if self.telemetry_every_s == "auto":
            return TELEMETRY_S if strategy.watches_use else None
        return self.telemetry_every_s


def _refuse_timeless_types(profiles: Profiles) -> None:
    """Refuse a device of a mix that takes no time."""
    for profile in profiles:
        if isinstance(profile, WorkerDevice) and not profile.seconds(1):
            raise ConfigError(
                f"{DEVICES}.{profile.type}: an iteration must take some time, or the clock would not advance; set "
                "base_s"
            )


def make_model_state(spec: RunSpec) -> ModelState:
    """The model of the job's task on its backend."""
    job = spec.job
    task, backend = spec.task, cast(Any, spec.backend)  # one without gradients has methods of its own
    if not backend.computes:
        return NoModelState(backend.parameters_of(task), backend.load_progress())
    cut = cut_for(job, spec.strategy.data)
    with importing():
        backend.preload()
    model = backend.prepare(task, job.seed)
    outer = spec.strategy.outer if StepAlone in spec.strategy.needs else None
    return RealModelState(model, spec.optimizer, cut, job.seed, job.validation_samples, outer)
