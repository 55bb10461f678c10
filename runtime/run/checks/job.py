"""Whether one job can run: the objects that its configuration names are built, once, and checked against each other.

These very objects run later, so nothing can pass these checks and differ afterwards. No framework is imported.
"""

from __future__ import annotations

import socket
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from importlib.util import find_spec
from math import ceil
from pathlib import Path
from typing import Any

from injectors.plan import NO_HOSTS, OF_MEMBERS, ClusterShape, Plan, ReplicaShape, validate_plan
from runtime.api import Needs, RunContext, Runtime
from runtime.config.abilities import CHILDREN, CUTS, MEANWHILE
from runtime.config.anchoring import anchored
from runtime.config.instantiate import explain, instantiate
from runtime.config.parse import ON_THIS_MACHINE, Config
from runtime.config.rules import check_combinations
from runtime.containment import is_linux
from runtime.core.scheduling import Request, Scheduler
from runtime.errors import ConfigError
from runtime.run.checks.devices import check_devices, gpus_in_turn
from runtime.run.checks.facts import Facts, facts_of
from runtime.run.checks.hogs import check_hogs
from runtime.run.checks.resources import check_fits
from runtime.run.checks.rules import OF_JOB
from runtime.run.probing import reason
from runtime.training.lr_schedules import make_schedule
from runtime.training.optimizers import make_optimizer
from strategies.protocol import DATA_POLICIES, Strategy

LOOPBACK = "127.0.0.1"
NOT_ELSEWHERE = "launcher={launcher} disturbs workers, servers and links, and no hosts; name worker:0 or the like"


@dataclass(frozen=True, kw_only=True)
class Undisturbed(Facts):
    """A job that can run if nothing disturbs it, with all objects that its configuration names."""

    written: Config
    """The configuration as the user wrote it, for the record."""
    gpus: tuple[int, ...]
    """GPUs that its workers use, in turn."""


@dataclass(frozen=True, kw_only=True)
class CheckedJob(Undisturbed):
    """A job that can run. It runs once: strategies have a state."""

    plan: Plan
    """The plan: all disturbances of the run."""
    around: RunContext
    needs: Needs
    """Requirements to prepare before it starts."""

    @property
    def draws(self) -> bool:
        """Whether its summary and figures are made at its end."""
        return self.config.draw

    @property
    def real_time(self) -> bool:
        """Whether it runs in wall-clock time."""
        return self.runtime.real_time


def check_job(written: Config, start: Path | None = None) -> CheckedJob:
    """Build the objects that the configuration names and check them against each other; raises :class:`ConfigError`.

    Relative paths are below ``start`` (None: the current directory).
    """
    return disturbed(check_undisturbed(written, start))


def check_undisturbed(written: Config, start: Path | None = None) -> Undisturbed:
    """The same of everything but what disturbs the job."""
    job = facts_of(anchored(written, start or Path.cwd()))
    config, strategy, runtime = job.config, job.strategy, job.runtime
    check_system(runtime, config)
    check_strategy(strategy, config)
    check_sizes(strategy, config)
    check_combinations(OF_JOB, job)
    check_rules(config)
    check_backend(job)
    check_devices(job)
    check_samples(strategy, job.task, config)
    if config.launcher == ON_THIS_MACHINE:
        check_port(config.runtime.get("port"))
        check_fits(config, job.task, runtime, job.backend, strategy)
    check_commands(strategy, runtime, config)
    check_scheduler(strategy, job.scheduler, config)
    return Undisturbed(written=written, gpus=gpus_in_turn(job), **vars(job))


def disturbed(job: Undisturbed, plan: Plan | None = None) -> CheckedJob:
    """The job with the plan of what its configuration says disturbs it; raises :class:`ConfigError`.

    ``plan`` may come from another job with the same straggler, seed, time and :func:`shape_of`.
    """
    config, strategy, runtime, gpus = job.config, job.strategy, job.runtime, job.gpus
    if plan is None:
        pattern = instantiate(config.straggler, "straggler")
        plan = make_plan(pattern, runtime, config, strategy.replicas, gpus)
    check_hogs(job, plan, gpus)
    around = RunContext(
        num_servers=config.topology.num_servers,
        transport=config.topology.transport,
        asked=frozenset((one.kind, one.target) for one in plan.disturbances),
        cpu_left=frozenset((one.target, one.magnitude) for one in plan.disturbances if one.kind == "cpu"),
        commands=frozenset(command.__name__ for command in strategy.needs),
        containment=config.containment,
        cores_as=strategy.cores_as,
        collective=config.topology.collective or "",
        watches_use=strategy.watches_use,
        aggregators=strategy.aggregators,
        aggregators_at=strategy.aggregators_at,
        replicas=strategy.replicas,
        gpus=gpus,
        trains=config.replay.detail != "gpus_only",
    )
    return CheckedJob(**vars(job), plan=plan, around=around, needs=runtime.check(around))


def check_system(runtime: Runtime, config: Config) -> None:
    """Refuse live runs elsewhere: their containment, disturbance and measurement need Linux."""
    if runtime.real_time and not is_linux():
        raise ConfigError(
            f"runtime={config.names.runtime}: real processes need Linux, and this is {sys.platform}; choose "
            "runtime=virtual (or a virtual machine with Linux)"
        )


def check_strategy(strategy: object, config: Config) -> None:
    """Check that it is a strategy whose hyper-parameters fit the number of workers."""
    if not isinstance(strategy, Strategy):
        raise ConfigError(f"strategy={config.names.strategy}: {type(strategy).__name__} is not a strategy")
    if strategy.data not in DATA_POLICIES:
        raise ConfigError(f"strategy.data={strategy.data}: must be one of {', '.join(DATA_POLICIES)}")
    with explained(config.strategy, "strategy"):
        strategy.validate(config.num_workers)


def check_sizes(strategy: Strategy, config: Config) -> None:
    """Check that its bounds leave a split of the global batch, and that the job is long enough."""
    with explained(config.strategy, "strategy"):
        strategy.validate_batch(config.num_workers, config.workload.global_batch_samples)
        strategy.validate_length(config.workload.epochs)


def check_backend(job: Facts) -> None:
    """Check that the framework is installed, or that estimates of the metric are of this workload."""
    backend, workload = job.backend, job.workload
    if backend.computes and find_spec(backend.framework) is None:
        raise ConfigError(
            f"backend={job.names.backend}: {backend.framework} is not installed; pip install "
            f"'stragglab[{backend.framework}]'"
        )
    if not backend.computes and (progress := backend.load_progress()) is not None:
        progress.model.check(workload.name, workload.metric)


def refuse_empty(config: Config, num_samples: int, validation_samples: int) -> int:
    """Number of samples left to train on; raises ``ConfigError`` if they are fewer than one batch."""
    left, batch = num_samples - validation_samples, config.workload.global_batch_samples
    if validation_samples and left < batch:
        raise ConfigError(
            f"strategy.validation_samples={validation_samples}: leaves {max(0, left)} of the {num_samples} training "
            f"samples, fewer than workload.global_batch_samples={batch}; hold out fewer"
        )
    if left < batch:
        raise ConfigError(f"workload.global_batch_samples={batch}: more than the {num_samples} samples there are")
    return left


def check_rules(config: Config) -> None:
    """Check that optimizer and learning-rate schedule exist and accept their fields."""
    optimizer = {name: value for name, value in config.workload.optimizer.items() if name != "lr"}
    with explained(config.workload.optimizer, "workload.optimizer"):
        make_optimizer(optimizer.pop("name"), 1, **optimizer)
    with explained(config.workload.lr_schedule, "workload.lr_schedule"):
        make_schedule(**config.workload.lr_schedule, epoch_samples=1)  # any number: only a run knows it


def check_samples(strategy: Strategy, task: object, config: Config) -> None:
    """Refuse fewer than two shards per worker, with which some would idle, if the task knows its size without data.

    Samples that are held out for reference gradients leave some to train on.
    """
    num_samples = getattr(task, "num_samples", None)
    if num_samples is None:
        return
    if strategy.validation_samples:
        refuse_empty(config, num_samples, strategy.validation_samples)
    if strategy.data == "even":
        return
    num_samples -= strategy.validation_samples
    workload, num_workers = config.workload, config.num_workers
    num_shards = ceil(num_samples / (workload.batches_per_shard * ceil(workload.global_batch_samples / num_workers)))
    if num_shards < 2 * num_workers:
        raise ConfigError(
            f"workload.batches_per_shard={workload.batches_per_shard}: makes {num_shards} shards of {num_samples} "
            f"samples, fewer than two for each of {num_workers} workers; use fewer batches per shard, a smaller "
            "workload.global_batch_samples or fewer workers"
        )


def check_port(port: object) -> None:
    """Check that the runtime's port is free now; 0 means any."""
    if not isinstance(port, int) or port == 0:
        return
    if not 0 < port < 65536:
        raise ConfigError(f"runtime.port={port}: must be 0 (any free port) or up to 65535")
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            sock.bind((LOOPBACK, port))
        except OSError as error:
            raise ConfigError(f"runtime.port={port}: {reason(error)}; choose another, or 0 for any free one") from None


def check_commands(strategy: Strategy, runtime: Runtime, config: Config) -> None:
    """Check that the runtime can carry out, in this job, every command that the strategy needs."""
    can = runtime.can(config)
    needs = {command.__name__ for command in strategy.needs}
    declared = ((CHILDREN, strategy.attaches), (CUTS, strategy.cuts), (MEANWHILE, strategy.sums_meanwhile))
    needs |= {name for name, needed in declared if needed}
    for command in sorted(needs):
        unable = can.get(command, f"runtime={config.names.runtime}: does not know it")
        if unable is not None:
            raise ConfigError(f"{unable} (strategy={config.names.strategy} needs {command})")


def check_scheduler(strategy: Strategy, scheduler: Scheduler, config: Config) -> None:
    """Check that the scheduler grants the nodes of the start what is allocated to them."""
    counts = {"worker": config.num_workers, "server": config.topology.num_servers}
    each = {role: strategy.start_cores.get(role, 0.0) for role in counts}
    cores = sum(counts[role] * each[role] for role in counts)
    denied = scheduler.refuses(Request(cpu_cores=cores, priority="normal", in_use_cores=0.0)) if cores else None
    if denied is not None:
        told = ", ".join(f"{each[role]:g} to every {role} ({counts[role]})" for role in counts)
        raise ConfigError(
            f"scheduler: denies the nodes of the start ({denied}); strategy={config.names.strategy} gives cores from "
            f"the beginning, {told}: allow more, or start with fewer nodes or fewer cores"
        )


def shape_of(config: Config, runtime: Runtime, replicas: int = 0, gpus: tuple[int, ...] = ()) -> ClusterShape:
    """The description of the cluster for a pattern; servers that are replicas can be disturbed like others."""
    elsewhere = config.launcher != ON_THIS_MACHINE
    return ClusterShape(
        no_hosts=NOT_ELSEWHERE.format(launcher=config.names.launcher) if elsewhere else NO_HOSTS,
        num_workers=config.num_workers,
        num_servers=config.topology.num_servers + replicas,
        num_hosts=runtime.num_hosts,
        num_machines=config.launcher["nodes"] if elsewhere else 0,
        num_devices=1 + max(gpus, default=-1),
        replica=_inside(config.cluster.replica),
        base_iter_s=runtime.base_iter_s(ceil(config.workload.global_batch_samples / config.num_workers)),
    )


def _inside(replica: Mapping[str, Any] | None) -> ReplicaShape | None:
    """The ranks of each worker, from a section ``cluster.replica`` that a runtime has accepted."""
    if replica is None:
        return None
    return ReplicaShape(replica["pipeline"], replica["tensor"], is_ring=replica["chunks"] > 1)


def make_plan(pattern: Any, runtime: Runtime, config: Config, replicas: int = 0, gpus: tuple[int, ...] = ()) -> Plan:
    """The plan of the whole run, whose targets all exist."""
    shape = shape_of(config, runtime, replicas, gpus)
    with explained(config.straggler, "straggler"):
        plan: Plan = pattern.plan(shape, config.max_time_s, config.seed)
    try:
        validate_plan(plan, shape)
    except ValueError as error:
        raise ConfigError(f"straggler={config.names.straggler}: {error}") from None
    if any(one.kind in OF_MEMBERS for one in plan.disturbances):
        can = runtime.can(config)
        if (fixed := can.get("Launch") or can.get("Retire")) is not None:
            raise ConfigError(f"{fixed} (straggler={config.names.straggler} lets workers join or leave)")
    return plan


@contextmanager
def explained(fields: Mapping[str, Any], path: str) -> Iterator[None]:
    """Re-raise an error about one of the fields under the user's name of the field."""
    try:
        yield
    except ConfigError:
        raise
    except (ValueError, TypeError) as error:
        raise explain(error, fields, path) from error
