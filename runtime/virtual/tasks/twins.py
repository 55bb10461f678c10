"""Which twin of the chain of an iteration a job on shared machines uses, as :mod:`runtime.virtual.machines.twins`."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Any

from runtime.core.executor import Disturb
from runtime.core.inputs import GradientArrived
from runtime.virtual.costs import Costs
from runtime.virtual.machines import twins
from runtime.virtual.machines.interface import Machines
from runtime.virtual.tasks.iteration import Iteration, WorkerModel
from runtime.virtual.tasks.server_queue import Queue
from strategies.protocol import Timings


def queue_on(
    machines: Machines, task: str, costs: Costs, num_bytes: int, cores: dict[str, float], busy: list[list[float]],
    place: int, was_busy: Callable[[int, float, float], object],
) -> Queue:  # fmt: skip
    """The orders of the server at a place; ``was_busy`` adds to ``busy[place]``."""
    if not twins.is_compiled(machines.clock):
        return Queue(machines, task, costs, num_bytes, cores, partial(was_busy, place))
    there = machines.name_of(task)
    made: Queue = twins.COMPILED.Queue(
        machines.task_work, machines.clock, task, there, costs, num_bytes, cores, busy, place
    )
    return made


def order_updates(queues: list[Queue], at_s: float, num_grads: int, disturb: Disturb, sent_s: float) -> None:
    """An update on every server, which reaches it at ``at_s``; ``disturb(task, sent_s)``: what is injected into it."""
    if twins.COMPILED is not None and queues and isinstance(queues[0], twins.COMPILED.Queue):
        twins.COMPILED.order_updates(queues, at_s, num_grads, disturb, sent_s)
        return
    for queue in queues:
        queue.update(at_s, num_grads, disturb(queue.task, sent_s))


def chain_on(
    workers: WorkerModel, machines: Machines, queues: list[Queue], names: dict[int, str], copy_s: float,
    uses_cores: float, ended: Callable[[Iteration, float], object],
) -> Any | None:  # fmt: skip
    """The compiled chain of the iterations of these workers; None: there is none."""
    if not twins.is_compiled(machines.clock):
        return None
    return twins.COMPILED.Chain(
        work=machines.task_work,
        clock=machines.clock,
        costs=workers.costs,
        queues=queues,
        names=names,
        jitter=workers.jitter,
        profiles=workers.profiles,
        cores=workers.cores,
        idle_since_s=workers.idle_since_s,
        under_way=workers.under_way,
        ended=ended,
        timings=Timings,
        arrived=GradientArrived,
        model_bytes=workers.model_bytes,
        copy_s=copy_s,
        uses_cores=uses_cores,
        shares_memory=workers.shares_memory,
    )
