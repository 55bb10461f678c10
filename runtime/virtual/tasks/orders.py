"""Orders of a task on shared machines: it carries out one after another, with durations known only at the end."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING

from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Then
from runtime.virtual.machines.kernel import kernel
from runtime.virtual.machines.tenancy import Machines

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Queue

Work = Callable[[Then], object]
"""Work that calls its argument at the end."""


def queue_on(
    machines: Machines,
    task: str,
    costs: Costs,
    num_bytes: int,
    cores: dict[str, float],
    busy: list[list[float]],
    place: int,
) -> Queue:
    """The orders of a task.

    Args:
        machines: that it shares.
        task: its name.
        costs: of an update.
        num_bytes: of a server's range of the parameters.
        cores: of the servers for which some were allocated, by name.
        busy: by place, to which updates are added: their number, their seconds, and those of them that were injected.
        place: of the server.
    """
    made: Queue = kernel().Queue(
        machines.task_work, machines.clock, task, machines.name_of(task), costs, num_bytes, cores, busy, place
    )
    return made
