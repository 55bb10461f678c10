"""Commands that a job's settings rule out in any runtime, as rules in an order (pure).

Live and virtual agree here, so that a job on the virtual clock could also run live.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import get_args

from runtime.config.instantiate import TARGET, locate
from runtime.config.parse import Config
from runtime.config.rules import Rule
from strategies.protocol import Allocate, AnyCommand, Command, Launch, Repartition, Retire, Strategy

COMMANDS: tuple[str, ...] = tuple(command.__name__ for command in get_args(AnyCommand))
"""Names of all commands of the vocabulary. The coordinator carries out each of them, whatever the runtime."""
CHILDREN = "Apply.children"
"""The ability to let replicas leave the ring, and attach them to others (``Strategy.attaches``)."""
CUTS = "Compute.within_s"
"""The ability to end iterations early (``Strategy.cuts``)."""
MEANWHILE = "Apply.meanwhile"
"""The ability of replicas to sum while they compute (``Strategy.sums_meanwhile``)."""
ABILITIES = (*COMMANDS, CHILDREN, CUTS, MEANWHILE)
OF_NODES: tuple[type[Command], ...] = (Launch, Retire, Repartition, Allocate)
"""Commands that change which nodes there are, and what they may use."""
NODES = tuple(command.__name__ for command in OF_NODES)


@dataclass(frozen=True)
class Unable(Rule[Config]):
    """A combination in which some abilities are missing."""

    abilities: tuple[str, ...]


def _ps(config: Config) -> bool:
    return config.topology.name != "allreduce"


def _of_another_collective(config: Config) -> bool:
    return config.topology.collective not in (None, "ring")


def _ddp(config: Config) -> bool:
    return config.topology.collective == "ddp"


def _shm(config: Config) -> bool:
    return config.topology.transport == "shm"


def _even(config: Config) -> bool:
    """Whether data is cut into one part per worker of the start."""
    strategy = config.strategy
    return strategy.get("data", getattr(locate(strategy[TARGET]), "data", None)) == "even"


def _computes(config: Config) -> bool:
    return bool(locate(config.backend[TARGET]).computes)  # type: ignore[attr-defined]


def _rows(config: Config) -> bool:
    return config.record == "iterations"


UNABLE: tuple[Unable, ...] = (
    Unable(
        "parts of gradients and replicas",
        lambda job: not _ps(job),
        "topology=allreduce: parts of a round are decoded where all gradients come together",
        "use topology=ps",
        ("Partition",),
    ),
    Unable(
        "scores and replicas",
        lambda job: not _ps(job),
        "topology=allreduce: servers compare gradients with the reference",
        "use topology=ps",
        ("Score",),
    ),
    Unable(
        "reservations and replicas",
        lambda job: not _ps(job),
        "topology=allreduce: jobs reserve what their servers need of hosts",
        "use topology=ps",
        ("Reserve",),
    ),
    Unable(
        "ordered transfers and replicas",
        lambda job: not _ps(job),
        "topology=allreduce: replicas sum their gradients together",
        "no single one is sent, so use topology=ps",
        ("Send",),
    ),
    Unable(
        "own steps and parameter servers",
        _ps,
        "topology=ps: servers hold the parameters, so workers have none of their own to step",
        "use topology=allreduce",
        ("StepAlone", "Average", "PushHalf", "SumFragment"),
    ),
    Unable(
        "own steps and a collective that sums gradients",
        lambda job: job.topology.collective in ("ddp", "nccl"),
        "topology.collective={topology.collective}: sums gradients where they are computed, not moves of parameters",
        "use topology.collective=ring",
        ("StepAlone",),
    ),
    Unable(
        "repartitioning and replicas",
        lambda job: not _ps(job),
        "topology=allreduce: every worker holds all parameters",
        "use topology=ps",
        ("Repartition",),
    ),
    Unable(
        "replicas outside of the ring and another collective",
        _of_another_collective,
        "topology.collective={topology.collective}: all replicas take part in every sum",
        "use topology.collective=ring",
        (CHILDREN, "Average", "PushHalf"),
    ),
    Unable(
        "fragments and another collective",
        _of_another_collective,
        "topology.collective={topology.collective}: sums whole vectors",
        "use topology.collective=ring",
        ("SumFragment",),
    ),
    Unable(
        "replicas outside of the ring and parameter servers",
        _ps,
        "topology=ps: servers hold the parameters, not other workers",
        "use topology=allreduce",
        (CHILDREN,),
    ),
    Unable(
        "sums while replicas compute and another collective",
        _of_another_collective,
        "topology.collective={topology.collective}: a replica that computes takes part in no sum",
        "use topology.collective=ring",
        (MEANWHILE,),
    ),
    Unable(
        "sums while replicas compute and parameter servers",
        _ps,
        "topology=ps: servers hold the parameters, so workers take part in no sum",
        "use topology=allreduce",
        (MEANWHILE,),
    ),
    Unable(
        "ordered transfers and shared memory",
        _shm,
        "topology.transport=shm: gradients lie where servers read them, so nothing travels that could be ordered",
        "use topology.transport=tcp",
        ("Send",),
    ),
    Unable(
        "restarts and DDP",
        _ddp,
        "topology.collective=ddp: ends with the first replica that is killed",
        "use topology.collective=ring",
        ("Restart",),
    ),
    Unable(
        "dropped gradients and DDP",
        _ddp,
        "topology.collective=ddp: a gradient is in the sum as soon as it is computed",
        "use topology.collective=ring",
        ("Drop",),
    ),
    Unable(
        "dropped gradients and StragglAR",
        lambda job: job.topology.collective == "stragglar",
        "topology.collective=stragglar: workers begin to sum a gradient as soon as it is computed",
        "use topology.collective=ring",
        ("Drop",),
    ),
    Unable(
        "iterations that end early and DDP",
        _ddp,
        "topology.collective=ddp: every replica takes part in the backward pass of the last micro-batch",
        "use topology.collective=ring",
        (CUTS,),
    ),
    Unable(
        "nodes that come and go and shared memory",
        _shm,
        "topology.transport=shm: the shared buffers have one row per worker of the start",
        "use tcp",
        NODES,
    ),
    Unable(
        "nodes that come and go and DDP",
        _ddp,
        "topology.collective=ddp: DistributedDataParallel keeps its group",
        "use ring",
        tuple(name for name in NODES if name != "Repartition"),  # where there is DDP, there are replicas
    ),
    Unable(
        "nodes that come and go and even parts of the data",
        _even,
        "data=even: every epoch is cut into one part per worker of the start",
        "use dynamic or shared",
        NODES,
    ),
    Unable(
        "scores and a backend without gradients",
        lambda job: not _computes(job),
        "backend={names.backend}: computes no gradients that could be scored",
        "use backend=torch",
        ("Score",),
    ),
    Unable(
        "ordered evaluations and a backend without a metric",
        lambda job: not _computes(job) and job.backend.get("progress") is None,
        "backend={names.backend}: measures no {workload.metric}",
        "estimate it with backend.progress=NAME",
        ("Evaluate",),
    ),
    Unable(
        "parts of gradients and rows of iterations",
        _rows,
        "record=iterations: rows know no rounds of strategy={names.strategy}",
        "use record=events",
        ("Partition",),
    ),
    Unable(
        "ordered transfers and rows of iterations",
        _rows,
        "record=iterations: rows know no gradients that are held (strategy={names.strategy})",
        "use record=events",
        ("Send",),
    ),
    Unable(
        "nodes that come and go and rows of iterations",
        _rows,
        "record=iterations: rows know no nodes that come and go",
        "use record=events",
        NODES,
    ),
    Unable(
        "reservations and rows of iterations",
        _rows,
        "record=iterations: rows hold no reservations",
        "use record=events",
        ("Reserve",),
    ),
)
"""The first row that names an ability says why it is missing."""


def commands_on(config: Config) -> dict[str, str | None]:
    """Abilities that topology, collective, backend and record of a job allow in any runtime, which may refine them."""
    unable = dict(reversed(list(_missing(config))))
    return {name: unable.get(name) for name in ABILITIES}


def _missing(config: Config) -> Iterator[tuple[str, str]]:
    """Abilities that are missing and why, in the order of the rows."""
    for rule in UNABLE:
        if (message := rule.message(config)) is not None:
            yield from ((ability, message) for ability in rule.abilities)


def divides_again(strategy: Strategy) -> bool:
    """Whether the number of servers that hold the parameters may change."""
    return Repartition in strategy.needs
