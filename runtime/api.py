"""What a runtime gets to run, and what it gives back."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Literal

import msgspec

from runtime.containment import Isolation
from runtime.core.coordinator import Coordinator
from runtime.core.job import Job, Record, Status
from runtime.core.scheduling import ConstantPending, Scheduler
from runtime.record.columns import IterationWriter
from strategies.protocol import Strategy


class Needs(msgspec.Struct, frozen=True, kw_only=True):
    """What must be prepared around a run before it starts."""

    isolation: Isolation = Isolation.NONE
    janitor: bool = False
    """It makes control groups, which no namespace takes away."""

    def with_those_of(self, other: Needs) -> Needs:
        """What serves both."""
        return Needs(isolation=max(self.isolation, other.isolation), janitor=self.janitor or other.janitor)


class Circumstances(msgspec.Struct, frozen=True, kw_only=True):
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
class Experiment:
    """One job with everything that is to be instantiated elsewhere still as plain specs."""

    job: Job
    strategy: Strategy
    record: Record
    run_dir: Path
    transport: str
    backend: dict[str, Any]
    task: dict[str, Any]
    optimizer: dict[str, Any]
    save_parameters_to: Path | None
    around: Circumstances = field(default_factory=Circumstances)
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


def record_outcome(record: Record, outcome: Outcome) -> None:
    """The last line of a record."""
    about = msgspec.to_builtins(outcome)
    record.note(about.pop("t"), "Finished", **about)
