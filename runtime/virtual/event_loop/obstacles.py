"""Why Python drives a job, or its next step, instead of the compiled loop: the first reason, in words."""

from __future__ import annotations

import os
from collections.abc import Iterator
from itertools import chain
from typing import Any

from runtime.core import inputs
from runtime.errors import ConfigError
from runtime.native import EVENTS, native
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.tasks.host_servers import HostServers
from runtime.virtual.tasks.host_workers import HostWorkers
from runtime.virtual.tasks.model_state import NoModelState
from runtime.virtual.tasks.replicas import Replicas
from runtime.virtual.tasks.servers import Servers
from runtime.virtual.tasks.workers import Workers
from strategies.protocol import Command, Partition, Score, Send, StepAlone

WITHOUT = "STRAGGLAB_WITHOUT"
"""Environment variable: ``event_loop`` leaves all to Python, for measurements."""
UNKNOWN: tuple[type[Command], ...] = (Partition, Score, Send, StepAlone)
"""Commands of which a strategy that needs them gives too many for the loop."""
OF_GRADIENTS = frozenset({"Apply", "Checkpoint", "Compute", "Drop", "Evaluate", "Stop", "Wake"})
"""Commands that end no node."""
UNDISTURBED = frozenset({"delay", "slowdown"})
"""Kinds of disturbance under which no replica is lost."""
DECLARED = {
    "measures": "the strategy asks for norms",
    "cuts": "the strategy lets iterations end early",
    "attaches": "the strategy makes workers children of others",
}
"""Attributes of a strategy that leave a job to Python."""
OURS = "strategy:"
"""Prefix of the tags of timers that a strategy has set."""


def refuse_misspelt() -> None:
    """Raise :class:`ConfigError` if the variable names something else."""
    if (value := os.environ.get(WITHOUT)) not in (None, "", "event_loop"):
        raise ConfigError(f"{WITHOUT}={value}: must be event_loop, or not set")


def lasting_obstacle(session: VirtualSession) -> str | None:
    """Why the loop cannot drive this job at all, or hardly ever; None if it can."""
    return next(_lasting(session), None)


def _lasting(session: VirtualSession) -> Iterator[str]:
    strategy = session.coordinator.strategy
    if native(EVENTS) is None:
        yield "the loop is not compiled here"
    if os.environ.get(WITHOUT):
        yield f"{WITHOUT} switches it off"
    if not isinstance(session.model_state, NoModelState):
        yield "gradients are computed"
    yield from _of_models(session)
    yield from _of_losses(session)
    if unknown := [command.__name__ for command in UNKNOWN if command in strategy.needs]:
        yield f"the strategy orders {', '.join(unknown)}"
    yield from (words for name, words in DECLARED.items() if getattr(strategy, name))
    if session.stopwatch is not None:
        yield "decisions are charged by their measured time"
    if session.telemetry_every_s is not None:
        yield "what nodes use is sampled"
    if session.schedule.slows_loaders:
        yield "workers wait for loaders"
    if session.clock.offset_s:
        yield "the job begins later than its lab"


def _of_models(session: VirtualSession) -> Iterator[str]:
    workers, servers = session.workers, session.servers
    if isinstance(workers, HostWorkers):
        if not isinstance(servers, HostServers):
            yield "replicas share hosts"
        elif workers.chain is None:
            yield "iterations on hosts are not compiled, or use devices that others take"
        if not isinstance(session.machines, ModelledMachines):
            yield "other jobs share its machines"
    elif not isinstance(workers, Workers) or workers.network is not None:
        yield "workers share limited links"
    elif isinstance(servers, Replicas):
        yield from _of_replicas(session, servers)
    elif not isinstance(servers, Servers):
        yield "servers are of an unknown kind"
    elif servers.costs.concurrent_delays:
        yield "a server's delay holds up one update"


def _of_replicas(session: VirtualSession, replicas: Replicas) -> Iterator[str]:
    needs = {command.__name__ for command in session.spec.strategy.needs}
    if session.schedule.kinds - UNDISTURBED or needs - OF_GRADIENTS:
        yield "replicas may be lost"
    if replicas.summing.late_worker is not None:
        yield "replicas sum while one is late"


def _of_losses(session: VirtualSession) -> Iterator[str]:
    if session.coordinator.job.failover == "whole_shards":
        yield "shards of lost workers are repeated"


def present_obstacle(session: VirtualSession, num_workers: int, num_servers: int) -> str | None:
    """Why the loop, made for so many members, cannot take the next step; None if it can."""
    return next(chain(_of_members(session, num_workers, num_servers), _in_progress(session)), None)


def _of_members(session: VirtualSession, num_workers: int, num_servers: int) -> Iterator[str]:
    core, servers, members = session.coordinator, session.servers, session.coordinator.members.members
    if list(members) != list(range(num_workers)):
        yield "workers have joined or left"
    if not isinstance(servers, Replicas) and servers.numbers != list(range(num_servers)):
        yield "servers have joined or left"
    if any(member.state != "here" for member in members.values()) or core.executor.reserved:
        yield "a worker is away"
    if core.members.awaited:
        yield "nodes are awaited"
    if session.workers.cores or servers.cores:
        yield "nodes have been given cores"
    if core.shards.departed or max(core.shards.local, default=0) >= num_workers:
        yield "samples are kept for workers that have left"


def _in_progress(session: VirtualSession) -> Iterator[str]:
    core, executor, servers = session.coordinator, session.coordinator.executor, session.servers
    if session.over or core.course.halted:
        yield "the job is over, or goes back to a checkpoint"
    if executor.parts.used or executor.scoring.asked or core.members.parents:
        yield "gradients are parts, are being scored, or are children's"
    if not session.port.idle:
        yield "orders wait to be sent"
    if isinstance(servers, Replicas) and servers.is_copying:
        yield "replicas copy their state"
    if not all(is_known(session, call, args) for call, args in session.inbox.waiting):
        yield "the coordinator is about to receive something unknown"


def is_known(session: VirtualSession, call: Any, args: tuple[Any, ...]) -> bool:
    """Whether the loop can carry this out: reports of gradients that are awaited, and timers of the strategy."""
    if call != session.coordinator.receive or len(args) != 1:
        return False
    given = args[0]
    if isinstance(given, inputs.GradientArrived):
        order = session.coordinator.ledger.busy.get(given.worker)
        return order is not None and order.grad_id == given.grad_id
    return isinstance(given, inputs.TimerFired) and given.tag.startswith(OURS)
