"""The tasks of a live job as others see them: connected tasks, holders of parameters, and addresses."""

from __future__ import annotations

from collections.abc import Mapping
from typing import final

from runtime.core.recovery.automaton import Recovery
from runtime.core.recovery.states import Phase, TaskState
from runtime.core.recovery.task import REACHABLE, Key
from runtime.live.control.tasks import Task
from runtime.live.transport.address import Address
from strategies.protocol import AGGREGATOR, NodeId


@final
class Roster:
    """Only reads the recovery and its ``tasks``, which the supervisor changes."""

    def __init__(self, recovery: Recovery, tasks: Mapping[Key, Task]) -> None:
        self.recovery, self.members, self.tasks = recovery, recovery.state.members, tasks

    @property
    def running(self) -> bool:
        """Whether all agree on a version, with no recovery in progress."""
        return self.recovery.state.phase == Phase.RUNNING

    @property
    def generation(self) -> int:
        """How often all had to connect again."""
        return self.recovery.state.generation

    @property
    def holders(self) -> tuple[Key, ...]:
        """The servers that hold parameters now, in the order of the vector."""
        return self.members.layout.holders

    @property
    def replicas(self) -> tuple[int, ...]:
        """Workers that receive the order of an update now, in the ring's order; children among them take no part."""
        return tuple(number for _, number in self.members.ring)

    @property
    def primary(self) -> int:
        """The replica that delivers to auxiliary tasks."""
        primary = self.recovery.policy.primary
        assert primary is not None, "servers deliver to auxiliary tasks"
        return primary.number

    @property
    def followers(self) -> dict[Key, int]:
        """The present replicas of the server, and their incarnations."""
        return {task.key: task.incarnation for task in self.recovery.state.replicas() if task.state in REACHABLE}

    @property
    def aggregators(self) -> tuple[Key, ...]:
        """All aggregators, whatever their state."""
        return tuple(key for key in self.tasks if key.role == AGGREGATOR)

    @property
    def pids(self) -> list[tuple[str, int]]:
        """The tasks that have a process."""
        return [(str(key), task.pid) for key, task in self.tasks.items() if task.pid]

    def incarnation(self, worker: int) -> int:
        """A worker's present incarnation."""
        return self.tasks[NodeId.worker(worker)].incarnation

    def serving(self, role: str) -> int | None:
        """The connected incarnation of an auxiliary role; None: there is none."""
        task = self.tasks[NodeId(role, 0)]
        return task.incarnation if self.running and task.life.state == TaskState.ATTACHED else None

    def address_for(self, caller: Key, called: Key) -> Address:
        """Where a task that is connected is called by another."""
        address = self.tasks[called].address_for(self.tasks[caller])
        assert address is not None, f"{called} is not there"
        return address
