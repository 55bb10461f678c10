"""What a runtime is: what it can do, what it gets to run, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, ClassVar, Literal, Protocol, get_args

import msgspec

from injectors.schedule import Schedule
from runtime.backends.base import Backend
from runtime.config.instantiate import TARGET, locate
from runtime.config.parse import Config
from runtime.containment import Isolation
from runtime.core.coordinator import Coordinator
from runtime.core.job import Job, RecordSink, Status
from runtime.core.scheduling import ConstantPending, Scheduler
from runtime.record.columns import IterationWriter
from strategies.protocol import AnyCommand, Strategy

COMMANDS: tuple[str, ...] = tuple(command.__name__ for command in get_args(AnyCommand))
"""Names of all commands of the vocabulary. The coordinator carries out each of them, whatever the runtime."""


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What must be prepared around a run before it starts."""

    isolation: Isolation = Isolation.NONE
    janitor: bool = False
    """It makes control groups, which no namespace takes away."""

    def with_those_of(self, other: Needs) -> Needs:
        """What serves both."""
        return Needs(isolation=max(self.isolation, other.isolation), janitor=self.janitor or other.janitor)


class RunContext(msgspec.Struct, frozen=True, kw_only=True):
    """What a runtime is to cope with, as far as a configuration tells."""

    num_servers: int = 1
    transport: str = "tcp"
    asked: frozenset[tuple[str, str]] = frozenset()
    """(kind, target) of all disturbances in the plan."""
    containment: str = "auto"
    """``auto`` or ``none``."""

    @property
    def kinds(self) -> set[str]:
        """Of the disturbances in the plan."""
        return {kind for kind, _ in self.asked}

    @property
    def disturbed(self) -> set[str]:
        """All targets."""
        return {target for _, target in self.asked}

    def targets_of(self, kind: str) -> list[str]:
        """Of one kind, sorted."""
        return sorted(target for asked, target in self.asked if asked == kind)


@dataclass(kw_only=True)
class RunSpec:
    """One job, with what its configuration names built, and as plain specs for processes of their own."""

    job: Job
    strategy: Strategy
    record: RecordSink
    run_dir: Path
    transport: str
    backend: Backend
    task: Any
    backend_spec: dict[str, Any]
    """What processes of their own build the same backend from."""
    task_spec: dict[str, Any]
    optimizer: dict[str, Any]
    save_parameters_to: Path | None
    around: RunContext = field(default_factory=RunContext)
    columns: IterationWriter | None = None
    """Where a runtime may write rows itself, if the record has any (``record=iterations``)."""
    collective: str = ""
    """Who sums the gradients of replicas (``topology=allreduce``); empty: there are servers."""
    tick: Callable[[float], None]
    """Called a few times per second with the job's time, for the view."""
    scheduler: Scheduler = field(default_factory=ConstantPending)
    """Of the cluster that the job runs on."""
    interrupted_by: int = 0
    """The signal that ended the run, if one did."""


RunStatus = Status | Literal["disk_full"]
"""How a run ends: as its job does, or for want of room for its record or its parameters."""


class Outcome(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """How a run ended; what the last line of its record says."""

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
    """Unique bytes of every task at the end."""
    num_parameters: int
    """Of the model; 0 if nobody came to know."""
    warning: str = ""
    """What the strategy says that whoever reads the figures should know; left out where it is nothing."""


class Runtime(Protocol):
    """Who runs jobs. ``runtime=NAME`` chooses one; its class is built with the ``cluster`` that it is to run on."""

    name: ClassVar[str]
    needs_gradients: ClassVar[bool]
    """Whether it cannot do without a backend that computes."""
    real_time: ClassVar[bool]
    """Whether its seconds are those of this machine, which it then needs for itself."""

    @property
    def num_hosts(self) -> int:
        """Emulated machines of the cluster; 0 where each task has one to itself."""
        ...

    def base_iter_s(self, batch_samples: int) -> float | None:
        """Nominal seconds of an undisturbed iteration over so many samples; None: nobody knows."""
        ...

    def can(self, config: Config) -> dict[str, str | None]:
        """For every command of the vocabulary None, or why this runtime cannot carry it out in that job.

        A reason is written as a refusal: the setting that stands in the way, its value, what is wrong, the cure.
        """
        ...

    def check(self, around: RunContext) -> Needs:
        """What a run needs around it; raises ``ConfigError`` for disturbances and hosts that are not to be had."""
        ...

    def machine(self, around: RunContext) -> dict[str, Any]:
        """What ``meta.json`` is to say of the machine."""
        ...

    def calibration(self, batch_samples: int) -> str | None:
        """The cost model that stands for the cluster, as records name it; None: real time needs none."""
        ...

    def run(self, experiment: RunSpec, schedule: Schedule) -> Outcome:
        """Run the job to its end; the record is written by ``experiment.record``."""
        ...


class AgentStart(msgspec.Struct, frozen=True, kw_only=True):
    """What an agent is started with."""

    spec: bytes
    """The encoded task description, with the job's secret: it must not stand in arguments or the environment."""
    log: Path
    """Where it writes."""
    fds: tuple[int, ...] = ()
    """Descriptors that it inherits where it is a process of this machine."""


class Launcher(Protocol):
    """Starts the agents of a job, one on each node, and knows what became of them. A node is a host's name."""

    def start(self, node: str, agent: AgentStart) -> None:
        """Start the agent of a node; it calls the coordinator when it is ready."""
        ...

    def ended(self, node: str) -> str | None:
        """How it ended (or that it was never started); None while it runs."""
        ...

    def end(self, node: str) -> None:
        """End it, with all its tasks, if it still runs; returns when it is gone."""
        ...

    def kill_all(self) -> None:
        """End all at once without waiting: called from a signal handler, before this process itself ends."""
        ...


def commands_on(config: Config) -> dict[str, str | None]:
    """What topology, collective and backend of a job let any runtime carry out: the answer that each refines.

    Live and virtual agree here, so that a job on the virtual clock is one that could be run.
    """
    unable: dict[str, str] = {}
    if config.topology.name == "allreduce":
        unable["Partition"] = (
            "topology=allreduce: parts of a round are decoded where all gradients come together; use topology=ps"
        )
        unable["Score"] = "topology=allreduce: servers compare gradients with the reference; use topology=ps"
    if config.topology.collective == "ddp":
        ring = "use topology.collective=ring"
        unable["Restart"] = f"topology.collective=ddp: ends with the first replica that is killed; {ring}"
        unable["Drop"] = f"topology.collective=ddp: a gradient is in the sum as soon as it is computed; {ring}"
    if not locate(config.backend[TARGET]).computes:  # type: ignore[attr-defined]
        backend = f"backend={config.names.backend}"
        unable.setdefault("Score", f"{backend}: computes no gradients that could be scored; use backend=torch")
        if config.backend.get("progress") is None:
            unable["Evaluate"] = (
                f"{backend}: measures no {config.workload.metric}; estimate it with backend.progress=NAME"
            )
    return {name: unable.get(name) for name in COMMANDS}


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
) -> Outcome:
    """How the coordinator's job ended; if the runtime gave up, ``failure`` says why, and the status is ``failed``."""
    shards, epochs = coordinator.shards, coordinator.job.epochs
    status: RunStatus | None = coordinator.status
    if failure is not None:
        status = "interrupted" if interrupted else failed
    assert status is not None, "neither has the job ended nor has the runtime given up"
    return Outcome(
        status=status,
        reason=failure or coordinator.reason,
        t=t,
        version=coordinator.version,
        epochs_done=shards.epochs_done,
        samples_applied=shards.samples_applied,
        shards_done=shards.shards_done,
        shards_total=None if epochs is None else epochs * coordinator.cut.num_shards,
        parameters_sha256=parameters_sha256,
        memory=memory or {},
        num_parameters=num_parameters,
        warning=str(coordinator.strategy_state.get("warning", "")),
    )


def record_outcome(record: RecordSink, outcome: Outcome) -> None:
    """The last line of a record."""
    about = msgspec.to_builtins(outcome)
    record.note(about.pop("t"), "Finished", **about)
