"""The typed configuration of one job: the composition of ``conf/``, checked field by field.

Sections with a ``_target_``, and those with a ``name`` that selects a class or function, keep
their own fields as a plain mapping; those are checked when the thing is built (``runtime/run/checks/job.py`` builds
them all before any process starts). Everything else has a type, a range and no default: the YAML holds the numbers.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

from runtime.config import checking
from runtime.core.convergence import Convergence
from runtime.core.recovery.rules import Failover
from runtime.errors import ConfigError

Count = Annotated[int, Meta(ge=1)]
Positive = Annotated[float, Meta(gt=0)]
MAX_TASKS = 100_000
"""Most workers, and most servers: with more, memory would not suffice for a job to start."""
Tasks = Annotated[int, Meta(ge=1, le=MAX_TASKS)]
MIN_PERIOD_S = 0.001
"""Shortest period of a repeated action; with less, a run would do nothing else."""
Period = Annotated[float, Meta(ge=MIN_PERIOD_S)]
Spec = dict[str, Any]
"""A section with ``_target_`` and the fields of its class."""

MAX_SEED = 2**63 - 1
CORE: dict[str, Any] = {
    "workload.optimizer.name": str,
    "workload.optimizer.lr": Positive,
    "workload.lr_schedule.name": str,
}
"""Required fields of the free sections."""
FRACTIONS = ("accuracy", "auc")
"""Endings of the names of metrics that are fractions."""
NEARBY = "0.95 for 95 %"
NO_JOBS: Spec = {"_target_": "injectors.arrivals.none.NoArrivals"}
"""The source of a run that is one job."""
ON_THIS_MACHINE: Spec = {"_target_": "runtime.live.launchers.local.ThisMachine"}
"""The launcher of a run whose processes are all on this machine."""
MAX_JOB_S = 7 * 24 * 3600.0
"""Longest job: a week. Plans are written before the job starts, so they need an end."""


class _Strict(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Immutable; a key that is not a field is an error."""


class Names(_Strict, frozen=True):
    """Labels of the record: the choices of the config groups."""

    strategy: str
    straggler: str
    runtime: str
    cluster: str
    backend: str
    launcher: str
    jobs: str
    policy: str
    placement: str
    prevention: str


class Cluster(_Strict, frozen=True):
    """Machines as data, for any runtime; ``conf/cluster/local.yaml`` explains every field."""

    num_workers: Tasks
    device: dict[str, float] | None
    devices: dict[str, Any] | None
    hosts: dict[str, Any] | None
    nominal_iter_s: Positive | None
    costs: str
    cost_changes: dict[str, float] | None
    """Values in place of the cost model's, also of the models of a set of jobs."""
    worker_cores: Positive | None
    server_cores: Positive | None
    only_modelled: str | None
    gpus: dict[str, Any] | None
    replica: dict[str, Any] | None
    """The inside of every worker (``conf/cluster/hybrid.yaml``); None: a worker is one rank."""


class Topology(_Strict, frozen=True):
    """Where the parameters are held and how they are transferred."""

    name: Literal["ps", "allreduce"]
    num_servers: Annotated[int, Meta(ge=0, le=MAX_TASKS)]
    """Number of servers; 0 where the workers hold the parameters themselves."""
    transport: Literal["tcp", "shm"]
    transfer_bits: Literal[16, 32]
    """Bits of each parameter and of each element of a gradient on their way; 32 is exact."""
    collective: (
        Literal["ring", "tree", "halving_doubling", "transpose", "stragglar", "trace", "gloo", "nccl", "ddp"] | None
    )
    """The collective that sums the gradients of replicas; None where there are servers."""
    server_shares: tuple[Positive, ...] | None
    """Shares of the parameters by server, in any unit, wherever there are so many servers; None: the same for all."""
    blocks: Annotated[int, Meta(ge=1, le=1024)]
    """Blocks into which a sum's schedule cuts the vector, each a round behind the one before."""
    late_worker: Annotated[int, Meta(ge=0)] | None
    """The worker that the others do not wait for in a sum; None: there is none."""
    trace_dir: str | None
    """The folder with the execution traces of a sum; None: there is none."""
    bound_s: Positive | None
    """Seconds that a replica gives a sum, each round its part, so that late messages are lost; None: it waits."""


class Workload(_Strict, frozen=True):
    """The model, the data and the length of training."""

    name: str
    task: Spec
    backends: tuple[str, ...]
    """Choices of ``backend`` that can train it."""
    global_batch_samples: Count
    epochs: Count | None
    """Number of epochs; None: until ``max_time_s``."""
    batches_per_shard: Count
    epoch_overlap: bool
    optimizer: dict[str, Any]
    """``name``, ``lr`` and the fields of that rule."""
    lr_schedule: dict[str, Any]
    """``name`` and the fields of that schedule."""
    metric: str
    higher_is_better: bool
    target: float | None
    """Value of ``metric`` for time-to-accuracy; None: not measured."""
    eval_every_s: Period | None
    """Default of the job's own setting."""
    convergence: Convergence | None
    """The rule by which ``metric`` has converged; None: there is none."""


class Replay(_Strict, frozen=True):
    """How a set of jobs is replayed; ``conf/config.yaml`` explains every field."""

    detail: Literal["iterations", "gpus_only"]
    use_every_s: Period
    duration_scale: Positive
    max_iterations: Annotated[int, Meta(ge=2)] | None
    max_slowdown: Annotated[float, Meta(gt=1)]
    restart_s: Annotated[float, Meta(ge=0)]
    grace_s: Annotated[float, Meta(ge=0)]
    models: str | None
    stand_in: bool
    node_wait_s: Positive
    brain_away_s: tuple[Annotated[float, Meta(ge=0)], Annotated[float, Meta(ge=0)]] | None
    history: bool


class Config(_Strict, frozen=True):
    """The complete configuration of one job, or of a set of jobs, for each of which it is the template."""

    names: Names
    strategy: Spec
    straggler: Spec
    workload: Workload
    runtime: Spec
    cluster: Cluster
    launcher: Spec
    """Starts the agents of a live run; part of ``runtime``, too, if that starts any."""
    backend: Spec
    topology: Topology
    seed: Annotated[int, Meta(ge=0, le=MAX_SEED)]
    max_time_s: Annotated[float, Meta(gt=0, le=MAX_JOB_S)]
    eval_every_s: Period | None
    checkpoint_every_s: Period | None
    stuck_after_s: Positive | None
    scheduler: Spec
    failover: Failover
    max_losses: Annotated[int, Meta(ge=0)] | None
    target_evals: Annotated[int, Meta(ge=1)]
    stop_at_target: bool
    stop_at_convergence: bool
    save_parameters: bool
    record: Literal["events", "iterations"]
    containment: Literal["auto", "none"]
    draw: bool
    caption: bool
    resume: Literal["auto", "never"]
    metric: Literal["tta", "jct", "final"] | None
    """The value that the run returns to a sweeper of Hydra's."""
    view: Literal["auto", "live", "plain", "none"]
    jobs: Spec
    """The source of a set of jobs; ``NO_JOBS``: this is one job."""
    policy: Spec
    placement: Spec
    prevention: Spec
    replay: Replay

    @property
    def is_set(self) -> bool:
        """Whether it describes a set of jobs."""
        return self.jobs != NO_JOBS

    @property
    def num_workers(self) -> int:
        """The number of workers of the cluster."""
        return self.cluster.num_workers


def parse(raw: Mapping[str, Any]) -> Config:
    """The composed configuration as a :class:`Config`; raises :class:`ConfigError` with one line for users."""
    checking.refuse_nonfinite(raw)
    if raw.get("replay", {}).get("detail") == "measured":  # which records of before name
        raise ConfigError(
            "replay.detail=measured: iterations are not skipped any more; use replay.detail=iterations, which carries "
            "out all of them"
        )
    config: Config = checking.convert(raw, Config, "")
    for path, kind in CORE.items():
        checking.convert(_at(raw, path), kind, path)
    batch = config.workload.global_batch_samples
    if config.failover == "checkpoint" and config.checkpoint_every_s is None:
        raise ConfigError("failover=checkpoint: needs checkpoints; set checkpoint_every_s, or choose failover=shards")
    if batch < config.num_workers:
        raise ConfigError(
            f"workload.global_batch_samples={batch}: smaller than cluster.num_workers={config.num_workers}, "
            "every worker needs at least one sample"
        )
    _refuse_endless(config)
    refuse_impossible_target(config.workload.metric, config.workload.target, "workload.target")
    return config


def _refuse_endless(config: Config) -> None:
    """Raise :class:`ConfigError` for an end by the metric that cannot come."""
    workload, stops = config.workload, {"target": config.stop_at_target, "convergence": config.stop_at_convergence}
    if config.stop_at_target and workload.target is None:
        raise ConfigError(
            "stop_at_target=true: there is no target to reach; set workload.target (and backend.progress, with "
            "backend=none), or stop_at_target=false"
        )
    if config.stop_at_convergence and workload.convergence is None:
        raise ConfigError(
            f"stop_at_convergence=true: workload={workload.name} has no rule; "
            "set workload.convergence={evaluations:5,max_change:0.001}"
        )
    for name, stops_there in stops.items():
        if stops_there and config.eval_every_s is None:
            raise ConfigError(
                f"stop_at_{name}=true: eval_every_s=null evaluates nothing while the job trains; give it seconds, or "
                f"set stop_at_{name}=false"
            )


def refuse_impossible_target(metric: str, target: float | None, setting: str) -> None:
    """Raise :class:`ConfigError` for a target outside the range of a fraction, 0 to 1."""
    if target is not None and metric.endswith(FRACTIONS) and not 0 <= target <= 1:
        raise ConfigError(
            f"{setting}={target:g}: {metric} is between 0 and 1, so it would never be there; use {NEARBY}"
        )


def _at(raw: Mapping[str, Any], path: str) -> Any:
    value: Any = raw
    for name in path.split("."):
        if name not in value:
            raise ConfigError(f"{path}: missing")
        value = value[name]
    return value
