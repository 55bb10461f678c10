"""The interface of a runtime: its abilities, its input and its result."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar, Literal, Protocol

import msgspec

from injectors.schedule import Schedule
from runtime.backends.base import Backend
from runtime.config.parse import MIN_PERIOD_S, Config
from runtime.containment import Isolation
from runtime.core.collectives.known import Summing
from runtime.core.job import Job, RecordSink, Status
from runtime.core.scheduling import ConstantPending, Scheduler
from strategies.protocol import (
    AggregatorsAt,
    CoresAs,
    Strategy,
)

if TYPE_CHECKING:  # checks need neither
    from runtime.core.coordinator import Coordinator

TELEMETRY_S = 0.5
"""Default seconds between two samples of what tasks use, where there are samples."""

INTERRUPTED_S = 5.0
"""Seconds that the evaluation of the final parameters may take in a job that a signal has ended.

A kill soon follows such a signal: Docker kills after 10 s, Slurm and Kubernetes after 30 s.
"""


def check_telemetry(every_s: float | Literal["auto"] | None) -> None:
    """Raise ``ValueError`` for seconds between two samples that are no period; ``auto`` and None are not seconds."""
    if isinstance(every_s, int | float) and not every_s >= MIN_PERIOD_S:
        raise ValueError(f"telemetry_every_s={every_s:g}: must be at least {MIN_PERIOD_S} (null for none)")


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """Requirements of a run that must be prepared before it starts."""

    isolation: Isolation = Isolation.NONE
    janitor: bool = False
    """Whether it creates control groups, which no namespace removes."""
    broker: bool = False
    """Whether somebody outside of its namespaces has to find other machines for it."""

    def with_those_of(self, other: Needs) -> Needs:
        """Requirements that satisfy both."""
        return Needs(
            isolation=max(self.isolation, other.isolation),
            janitor=self.janitor or other.janitor,
            broker=self.broker or other.broker,
        )


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """The parts of a configuration that a runtime must support."""

    num_servers: int = 1
    transport: str = "tcp"
    asked: frozenset[tuple[str, str]] = frozenset()
    """(kind, target) of all disturbances in the plan."""
    cpu_left: frozenset[tuple[str, float]] = frozenset()
    """(target, remaining fraction) of all throttled processors in the plan."""
    commands: frozenset[str] = frozenset()
    """Names of the commands that the strategy needs."""
    containment: str = "auto"
    """``auto`` or ``none``."""
    cores_as: CoresAs = "limit"
    """Whether the cores that the strategy allocates are a limit or a request."""
    collective: str = ""
    """The collective of replicas; empty: there are servers."""
    watches_use: bool = False
    """Whether the strategy watches what nodes use."""
    aggregators: int = 0
    """Tasks that sum gradients on their way to the servers."""
    aggregators_at: AggregatorsAt = "free"
    """Where these are."""
    replicas: int = 0
    """Servers that hold a copy of all parameters and follow the others."""
    gpus: tuple[int, ...] = ()
    """Devices that workers use in turn; empty: they compute on the CPU."""
    trains: bool = True
    """Whether it trains; else it is a job of a set that only holds its GPUs."""

    @property
    def kinds(self) -> set[str]:
        """Kinds of the disturbances in the plan."""
        return {kind for kind, _ in self.asked}

    @property
    def disturbed(self) -> set[str]:
        """Targets of all disturbances."""
        return {target for _, target in self.asked}

    def targets_of(self, kind: str) -> list[str]:
        """Targets of one kind of disturbance, sorted."""
        return sorted(target for asked, target in self.asked if asked == kind)


@dataclass(kw_only=True)
class RunSpec:
    """One job: the objects that its configuration names, and their plain specs for other processes."""

    job: Job
    strategy: Strategy
    record: RecordSink
    run_dir: Path
    transport: str
    backend: Backend
    task: Any
    backend_spec: dict[str, Any]
    """The spec from which other processes build the same backend."""
    task_spec: dict[str, Any]
    optimizer: dict[str, Any]
    save_parameters_to: Path | None
    around: RunContext = field(default_factory=RunContext)
    collective: str = ""
    """The collective that sums the gradients of replicas (``topology=allreduce``); empty: there are servers."""
    summing: Summing = field(default_factory=Summing)
    """The same as a schedule of transfers, which the virtual clock carries out."""
    transfer_bits: int = 32
    """Bits of each parameter and gradient element between workers and servers."""
    tick: Callable[[float], None]
    """Called a few times per second with the job's time, for the view."""
    scheduler: Scheduler = field(default_factory=ConstantPending)
    """The scheduler of the cluster."""
    interrupted_by: int = 0
    """The signal that ended the run, if one did."""
    engine: str = ""
    """How a job on the virtual clock runs: ``event_loop``, or ``python: `` and the reason. Empty: not known yet."""


RunStatus = Status | Literal["disk_full"]
"""Ways in which a run ends: as its job does, or because the disk is full."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The outcome of a run, which is the last line of its record."""

    status: RunStatus
    reason: str
    t: float
    version: int
    epochs_done: int
    samples_applied: int
    shards_done: int
    shards_total: int | None
    parameters_sha256: str
    memory: dict[str, int]
    """Memory private to every task at the end, in bytes."""
    num_parameters: int
    """Number of the model's parameters; 0 if unknown."""
    warning: str = ""
    """To readers of the results: the strategy's own, and what is missing; omitted if empty."""


Crashed = Callable[[Exception], str]
"""Notes an unexpected error in what belongs to one job of several; returns the reason for which that job fails."""


class Runtime(Protocol):
    """Runs jobs. ``runtime=NAME`` chooses one; its class is built with the ``cluster`` on which it runs."""

    name: ClassVar[str]
    needs_gradients: ClassVar[bool]
    """Whether it requires a backend that computes gradients."""
    real_time: ClassVar[bool]
    """Whether it runs in wall-clock time; it then needs this machine for itself."""

    @property
    def num_hosts(self) -> int:
        """Number of emulated hosts of the cluster; 0 where each task has its own machine."""

    def base_iter_s(self, batch_samples: int) -> float | None:
        """Nominal seconds of an undisturbed iteration over a number of samples; None: unknown."""

    def can(self, config: Config) -> dict[str, str | None]:
        """For every ability (:mod:`runtime.config.abilities`) None, or why this runtime lacks it there.

        A reason is written as a refusal: the setting that prevents it, its value, what is wrong, the cure.
        """

    def check(self, around: RunContext) -> Needs:
        """Requirements of a run; raises ``ConfigError`` for disturbances and hosts that are not available."""

    def machine(self, around: RunContext) -> dict[str, Any]:
        """The description of the machine for ``meta.json``."""

    def await_nodes(self, task: dict[str, Any], framework: str, device: str) -> None:
        """Wait for the machines of a job, before its record is opened; raises ``ConfigError`` if they do not come.

        ``task``: the spec of its task; ``framework``: the library that computes gradients; ``device``: where, as in
        ``backend.device``.
        """

    def calibration(self, batch_samples: int) -> str | None:
        """The cost model of the cluster, as records name it; None: real time needs none."""

    def run(self, spec: RunSpec, schedule: Schedule) -> Outcome:
        """Run the job to its end; the record is written by ``spec.record``."""


class AgentStart(msgspec.Struct, frozen=True, kw_only=True):
    """The arguments of an agent at its start; it gets everything else from the coordinator."""

    spec: bytes
    """The encoded task description, with the job's secret: it must not appear in arguments or the environment."""
    log: Path
    """Path of its log."""
    fds: tuple[int, ...] = ()
    """Descriptors that it inherits if it is a process of this machine."""
    saves: bool = False
    """Whether the final parameters are wanted from it, if it is elsewhere."""


class Launcher(Protocol):
    """Starts and ends the agents of a job, one on each node. A node is a host's name."""

    def start(self, node: str, agent: AgentStart) -> None:
        """Start the agent of a node; it connects to the coordinator when ready."""

    def ended(self, node: str) -> str | None:
        """How the agent ended (or that it was never started); None while it runs."""

    def end(self, node: str) -> None:
        """End the agent with all its tasks, if it still runs; returns when it is gone."""

    def replace(self, node: str) -> float:
        """Seconds for which another machine may take the place of a node whose agent has ended; 0: none will.

        When one has, :meth:`ended` is None again, and the node's agent can be started.
        """

    def address(self, node: str) -> str | None:
        """The address at which tasks of a node listen; None: that does not depend on the node."""

    def cores(self, node: str) -> int:
        """The cores that the tasks of a node may use together."""

    def kill_all(self) -> None:
        """End all agents at once without waiting: called from a signal handler, before this process itself ends."""


UNSCORED = "the final parameters were not evaluated"
UNSAVED = "save_parameters=true: the final parameters were not saved, as the evaluator was lost or took too long"


def outcome_of(
    coordinator: Coordinator,
    *,
    failure: str | None,
    interrupted: bool,
    t: float,
    parameters_sha256: str,
    num_parameters: int,
    memory: dict[str, int] | None = None,
    failed: RunStatus = "failed",
    unscored: bool = False,
    unsaved: bool = False,
) -> Outcome:
    """The outcome of the coordinator's job; if the runtime gave up, it failed with the reason ``failure``.

    ``unscored``: whether the evaluation of its final parameters was given up. One that is given up for a signal is
    missing of the job's work, so the job is interrupted, though it trained to its end. ``unsaved``: whether the final
    parameters were to be saved, and are not known to be. The job has failed then, since its user counts on the file.
    """
    shards, epochs = coordinator.shards, coordinator.job.epochs
    status: RunStatus | None = coordinator.status
    reason = failure or coordinator.reason
    if failure is not None:
        status = "interrupted" if interrupted else failed
    elif status == "done" and (unsaved or (interrupted and unscored)):
        status = "interrupted" if interrupted else "failed"
        reason = f"{reason}; {UNSAVED if unsaved else UNSCORED}"
    assert status is not None, "neither has the job ended nor has the runtime given up"
    warnings = [str(coordinator.strategy_state.get("warning", ""))]
    if status == "done" and unscored:
        warnings.append(UNSCORED)
    return Outcome(
        status=status,
        reason=reason,
        t=t,
        version=coordinator.version,
        epochs_done=shards.epochs_done,
        samples_applied=shards.samples_applied,
        shards_done=shards.shards_done,
        shards_total=None if epochs is None else epochs * coordinator.cut.num_shards,
        parameters_sha256=parameters_sha256,
        memory=memory or {},
        num_parameters=num_parameters,
        warning="; ".join(filter(None, warnings)),
    )


def never_began(reason: str) -> Outcome:
    """The outcome of a job that could not even be created."""
    return Outcome(
        status="failed",
        reason=reason,
        t=0.0,
        version=0,
        epochs_done=0,
        samples_applied=0,
        shards_done=0,
        shards_total=None,
        parameters_sha256="",
        memory={},
        num_parameters=0,
    )


def record_outcome(record: RecordSink, outcome: Outcome) -> None:
    """Write the last line of a record."""
    about = msgspec.to_builtins(outcome)
    record.note(about.pop("t"), "Finished", **about)
