"""``runtime=live``: real processes on this machine, as it is or divided into emulated hosts."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, final

import msgspec

from runtime.api import TELEMETRY_S, Needs, Outcome, RunContext, RunSpec, check_telemetry
from runtime.backends.devices.choice import CPU, CUDA
from runtime.backends.devices.found import num_devices
from runtime.cluster.device import DeviceProfile, parse_device, profiles_of, slowest_s
from runtime.cluster.gpus import on_nodes, parse_gpus
from runtime.cluster.hosts import Hosts, HostsSpec, aggregator_hosts, parse_hosts
from runtime.cluster.leases import longest_silence_s
from runtime.config.abilities import commands_on
from runtime.config.checking import convert
from runtime.config.parse import MIN_PERIOD_S, Cluster, Config
from runtime.containment import inside
from runtime.errors import ConfigError
from runtime.importing import importing
from runtime.live.joining.shared_folder import MEETING_PLACE
from runtime.live.launchers.local import ThisMachine
from runtime.live.launchers.starter import Starter
from runtime.live.machines.doctor import missing
from runtime.live.machines.mechanisms import CpuBy, Look, Mechanisms, Missing, TicksWanted, choose_mechanisms
from runtime.live.machines.mps import mps_daemon
from runtime.live.transport.address import congestion_control
from runtime.live.transport.auxiliaries import EVALUATOR
from runtime.record.checkpoint import CHECKPOINTS

if TYPE_CHECKING:  # modules that carry out a job are imported when it starts: no check waits for them
    from injectors.schedule import Schedule
    from runtime.live.control.job import LiveJob
    from runtime.live.control.job_resources import JobResources
    from runtime.live.control.lab import LiveLab
    from runtime.live.control.settings import Processes

MAX_NICENESS = 19
VIRTUAL = "choose runtime=virtual"
DIRECTORIES = ("logs", "checkpoints")
"""Folder of a run to which its processes write."""


@final
@dataclass(kw_only=True)
class LiveRuntime:
    """Runs a job on worker and server processes.

    ``conf/runtime/live.yaml`` describes every field, ``conf/cluster/local.yaml`` the fields of ``cluster``.
    """

    name: ClassVar[str] = "live"
    needs_gradients: ClassVar[bool] = True
    real_time: ClassVar[bool] = True

    cluster: Cluster
    launcher: Starter = field(default_factory=ThisMachine)
    cpu_by: CpuBy = "auto"
    ticks: TicksWanted = "auto"
    port: int = 0
    heartbeat_s: float = 0.5
    lease_s: float | None = None
    iteration_deadline_s: float = 60.0
    start_deadline_s: float | None = None
    max_restarts: int | None = None
    telemetry_every_s: float | Literal["auto"] | None = "auto"
    evaluator_niceness: int = 5
    look: ClassVar[Look] = staticmethod(missing)
    """Finds the capabilities that this machine lacks; tests replace it."""

    def __post_init__(self) -> None:
        """Check the fields, and what the cluster describes."""
        if not self.heartbeat_s >= MIN_PERIOD_S:
            raise ValueError(f"heartbeat_s={self.heartbeat_s:g}: must be at least {MIN_PERIOD_S}")
        if not self.iteration_deadline_s > 0:
            raise ValueError(f"iteration_deadline_s={self.iteration_deadline_s}: must be more than 0")
        if self.start_deadline_s is not None and not self.start_deadline_s > 0:
            raise ValueError(f"start_deadline_s={self.start_deadline_s}: must be more than 0 (null for one that suits)")
        if self.lease_s is not None and not self.lease_s > 0:
            raise ValueError(f"lease_s={self.lease_s}: must be more than 0 (null for one that suits)")
        if self.longest_silence_s < 2 * self.heartbeat_s:
            raise ValueError(f"lease_s={self.longest_silence_s}: must be at least twice heartbeat_s={self.heartbeat_s}")
        if not 0 <= self.port <= 65535:
            raise ValueError(f"port={self.port}: must be between 0 (any free one) and 65535")
        if self.max_restarts is not None and self.max_restarts < 0:
            raise ValueError(f"max_restarts={self.max_restarts}: must be 0 or more (null for no limit)")
        check_telemetry(self.telemetry_every_s)
        if not 0 <= self.evaluator_niceness <= MAX_NICENESS:
            raise ValueError(f"evaluator_niceness={self.evaluator_niceness}: must be between 0 and {MAX_NICENESS}")
        self._look_at(self.cluster)

    def _look_at(self, cluster: Cluster) -> None:
        """Refuse a cluster that processes of this machine cannot emulate."""
        if cluster.only_modelled is not None:
            raise ConfigError(f"runtime=live: the cluster is only modelled ({cluster.only_modelled}); {VIRTUAL}")
        if cluster.replica is not None:
            raise ConfigError(f"runtime=live: cluster.replica is only modelled; {VIRTUAL}, or leave it out")
        for role in ("worker", "server"):
            if getattr(cluster, f"{role}_cores") is not None:
                raise ConfigError(
                    f"runtime=live: cluster.{role}_cores is only modelled, and processes of this machine can only have "
                    f"emulated hosts; {VIRTUAL}, or set cluster.hosts"
                )
        self._gpus, self._mps_pipes = parse_gpus(cluster.gpus), ""
        spec = None if cluster.hosts is None else convert(dict(cluster.hosts), HostsSpec, "cluster.hosts")
        self._num_hosts = 0 if spec is None else spec.count
        try:
            self._host_profile = None if spec is None else parse_device(spec.device, "hosts.device")
            self._profiles = profiles_of(
                cluster.device, cluster.devices, cluster.num_workers, on_hosts=cluster.hosts is not None
            )
        except ConfigError:
            raise
        except ValueError as error:
            raise ConfigError(f"cluster.{error}") from None

    @property
    def longest_silence_s(self) -> float:
        """``lease_s``, or a default for the cluster."""
        return longest_silence_s(self.lease_s, self.cluster)

    def base_iter_s(self, batch_samples: int) -> float | None:
        """Nominal seconds of an undisturbed iteration of the slowest worker, if a device or a setting gives them.

        Overrides of single hosts do not count.
        """
        profiles = self._profiles if self._host_profile is None else (self._host_profile,)
        seconds = slowest_s(profiles, batch_samples)
        return self.cluster.nominal_iter_s if seconds is None else seconds

    def device_fields(self) -> list[dict[str, float]] | None:
        """The device of every worker, if they differ, as sent to them."""
        if self.cluster.devices is None:
            return None
        names = DeviceProfile.__struct_fields__
        return [{name: getattr(profile, name) for name in names} for profile in self._profiles]

    @property
    def num_hosts(self) -> int:
        """Number of emulated hosts; 0 without any."""
        return int(self._num_hosts)

    def can(self, config: Config) -> dict[str, str | None]:
        """Whether topology and backend can carry out each command."""
        unable = self.launcher.unable()
        if self.launcher.elsewhere and config.strategy.get("limit_memory"):
            unable["Launch"] = (
                "strategy.limit_memory=true: agents elsewhere limit no memory; set strategy.limit_memory=false"
            )
        return {**commands_on(config), **unable}

    def check(self, around: RunContext) -> Needs:
        """Check what a run needs of this machine; raises ``ConfigError`` for what is impossible here."""
        if around.aggregators and self.launcher.elsewhere:
            raise ConfigError(
                f"strategy: has aggregators ({around.aggregators}; num_aggregators or tree_fanout), which are "
                "processes of this machine, and tasks are elsewhere; choose a strategy without them, or launcher=local"
            )
        if around.replicas and self.launcher.elsewhere:
            raise ConfigError(
                f"strategy.num_replicas={around.replicas}: replicas share memory with their server, in which their "
                "distance is measured, and tasks are elsewhere; set it to 0, or launcher=local"
            )
        self.launcher.check(self.cluster, around, self.port)
        if (hosts := self.parse_hosts(around.num_servers + around.replicas)) is not None:
            aggregator_hosts(hosts, around.aggregators, around.aggregators_at)
        mechanisms = self.mechanisms(around)
        return Needs(isolation=mechanisms.isolation, janitor=mechanisms.cgroups, broker=self.launcher.needs_broker)

    def mechanisms(self, around: RunContext) -> Mechanisms:
        """The mechanisms for hosts and plan on this machine."""
        hosts = self.parse_hosts(around.num_servers + around.replicas)
        paced = bool(self.cluster.device or self.cluster.devices)
        return choose_mechanisms(hosts, self._cpu_by, paced, around, self._look, self.ticks)

    def _look(self, name: str) -> Missing | None:
        """As :attr:`look`; control groups of this machine serve nobody elsewhere."""
        if self.launcher.elsewhere and name.startswith("cgroup"):
            return Missing(reason="agents elsewhere make no control groups", cure="set launcher=local")
        return type(self).look(name)

    @property
    def _cpu_by(self) -> CpuBy:
        """Elsewhere, only agents can throttle tasks."""
        if not self.launcher.elsewhere:
            return self.cpu_by
        if self.cpu_by not in ("auto", "duty"):
            raise ConfigError(
                f"runtime.cpu_by={self.cpu_by}: agents elsewhere throttle by duty cycles; use runtime.cpu_by=duty"
            )
        return "duty"

    def await_nodes(self, task: dict[str, Any], framework: str, device: str) -> None:
        """Wait for the machines, if the launcher has to."""
        self.launcher.await_nodes(task, framework, device, self.port)

    def parse_hosts(self, num_servers: int) -> Hosts | None:
        """The emulated hosts, if there are any."""
        cluster = self.cluster
        return None if cluster.hosts is None else parse_hosts(cluster.hosts, cluster.num_workers, num_servers)

    def machine(self, around: RunContext) -> dict[str, Any]:
        """Properties of the machine that matter to a live run."""
        hosts = self.parse_hosts(around.num_servers + around.replicas)
        return {
            "congestion_control": congestion_control(),
            "containment": inside().name.lower(),
            "means": msgspec.to_builtins(self.mechanisms(around)),
            "hosts": None if hosts is None else hosts.describe(),
            "nodes": self.launcher.describe(),
            **({"gpus": list(around.gpus)} if around.gpus else {}),
        }

    def calibration(self, batch_samples: int) -> None:
        """No calibration: time is real."""

    def _processes(self, watches_use: bool, device: str) -> Processes:
        from runtime.live.control.settings import Processes

        every_s = self.telemetry_every_s
        if every_s == "auto":
            every_s = TELEMETRY_S if self.cluster.hosts is not None or watches_use else None
        return Processes(
            port=self.port,
            heartbeat_s=self.heartbeat_s,
            lease_s=self.longest_silence_s,
            iteration_deadline_s=self.iteration_deadline_s,
            start_deadline_s=self.start_deadline_s,
            max_restarts=self.max_restarts,
            telemetry_every_s=every_s,
            niceness={EVALUATOR.name: self.evaluator_niceness},
            device=self.cluster.device,
            devices=self.device_fields(),
            gpus=self._gpus_in_turn(device),
            mps_pipes=self._mps_pipes,
            mps_percent=tuple(self._gpus.mps_percent or ()),
        )

    def _gpus_in_turn(self, device: str) -> tuple[int, ...]:
        """The GPUs that workers use in turn; of fake ones there is one."""
        if device == CPU:
            return ()
        if self.launcher.elsewhere:
            return on_nodes(getattr(self.launcher, "nodes", 1), getattr(self.launcher, "gpus_per_node", 0))
        return self._gpus.in_turn(num_devices() if device == CUDA else 1)

    def run(self, spec: RunSpec, schedule: Schedule) -> Outcome:
        """A lab with one job."""
        with self._sharing(str(spec.backend_spec.get("device", CPU))):
            lab, name = self.lab(spec), ""
            lab.add(name, partial(self.job, spec, schedule))
            outcome = lab.run()[name]
        self.clear(spec)
        return outcome

    @contextmanager
    def _sharing(self, device: str) -> Iterator[None]:
        """Provide what tasks need to share GPUs, while they run."""
        if self._gpus.share == "time" or device != CUDA:
            yield
            return
        with mps_daemon() as pipes:
            self._mps_pipes = str(pipes)
            yield
        self._mps_pipes = ""

    def lab(self, spec: RunSpec) -> LiveLab:
        """For this job, and for others on the same hosts."""
        with importing():
            from runtime.live.control.lab import LiveLab

        hosts = self._hosts_of(spec)
        starter = self.launcher
        return LiveLab(hosts, self.mechanisms(spec.around), starter.make, starter.loop(), starter.release)

    def job(self, spec: RunSpec, schedule: Schedule, resources: JobResources) -> LiveJob:
        """A job of a lab; the record is written by ``spec.record``."""
        from runtime.live.control.job import LiveJob

        for directory in DIRECTORIES:
            (spec.run_dir / directory).mkdir(exist_ok=True)
        hosts = self._hosts_of(spec)
        return LiveJob(
            resources,
            self._processes(spec.strategy.watches_use, str(spec.backend_spec.get("device", CPU))),
            spec,
            schedule,
            hosts,
            self.launcher.site(),
        )

    def _hosts_of(self, spec: RunSpec) -> Hosts | None:
        return self.parse_hosts(spec.job.num_servers + spec.job.num_replicas)

    @staticmethod
    def clear(spec: RunSpec) -> None:
        """Remove files that served only while the job ran."""
        clear_checkpoints(spec.run_dir / "checkpoints")
        shutil.rmtree(spec.run_dir / MEETING_PLACE, ignore_errors=True)


def clear_checkpoints(directory: Path) -> None:
    """Remove the checkpoints, which serve this run only, and nothing that somebody else has put there."""
    if directory.is_symlink():
        return
    for path in directory.glob(CHECKPOINTS):
        path.unlink(missing_ok=True)
    with suppress(OSError):  # something else is in it, or it is gone
        directory.rmdir()
