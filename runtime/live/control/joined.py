"""The machines that have joined a job: the tasks on each, moves between them, and losses when a machine is lost."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import final

import msgspec

from runtime.core.membership import Membership
from runtime.core.recovery.task import Key
from runtime.live.control.agents import Agents
from runtime.live.control.injecting import Injector
from runtime.live.control.tasks import Task
from runtime.live.joining.site import Site, room, roomiest
from runtime.live.machines.machines import HostMachines
from runtime.live.transport.task_spec import Place
from strategies.protocol import NodeId


@final
class JoinedMachines:
    """Chooses the machines of a job's tasks; a task that nothing limits counts as ``task_cores``.

    ``tasks`` are those that are supervised, whose next incarnations start at the places that they have then; ``note``
    writes to the record.
    """

    def __init__(
        self,
        site: Site,
        agents: Agents,
        machines: HostMachines,
        injector: Injector,
        members: Membership,
        note: Callable[..., None],
        tasks: Mapping[Key, Task],
        task_cores: float,
    ) -> None:
        self.site, self.agents, self.machines, self.injector = site, agents, machines, injector
        self.members, self.note, self.tasks, self.task_cores = members, note, tasks, task_cores
        agents.joined = self

    # ---- who goes where ----------------------------------------------------------------------------------------------

    def choose(self, task: str) -> None:
        """Choose the machine of a newcomer: that with the most room, among those that are not lost."""
        if left := self._room_for(task):
            self._put(task, self._roomiest(left, task))
        else:
            self.agents.node_of[task] = self.site.nodes[0]  # where it waits for another machine, as all do

    def move(self, task: str) -> Place | None:
        """Another machine with room for a task that is restarted elsewhere; None: it starts again where it was.

        A server needs what it has stored, and an agent that limits a task's cores would keep doing so.
        """
        stays = NodeId.parse(task).role == "server" and not self.site.checkpoints
        if stays or task in self.machines.allocated or self.injector.awaits(task):
            return None
        left, here = self._room_for(task), self.agents.where(task)
        others = {node: cores for node, cores in left.items() if node != here and cores >= self.task_cores}
        if not others:
            return None
        self._put(task, self._roomiest(others, task))
        place = msgspec.structs.replace(self.machines.places[task], address=self.machines.addresses[task])
        self.machines.places[task] = place
        self.note("Moved", task=task, node=self.agents.where(task))
        return place

    def _room_for(self, task: str) -> dict[str, float]:
        """The cores that all other tasks leave of the machines that are not lost."""
        agents, given = self.agents, self.machines.allocated
        used = [(agents.where(name), given.get(name, self.task_cores)) for name in self._others(task)]
        return room({node: agents.launcher.cores(node) for node in self.site.nodes if agents.is_here(node)}, used)

    def _roomiest(self, left: dict[str, float], task: str) -> str:
        role, number = NodeId.parse(task)
        alike = [self.agents.where(name) for name in self._others(task) if NodeId.parse(name).role == role]
        return roomiest(left, alike, number)

    def _nodes(self) -> list[str]:
        return [str(node) for node in self.members.layout.nodes]

    def _others(self, task: str) -> list[str]:
        """All workers and servers but this one."""
        return [name for name in self._nodes() if name != task]

    def _put(self, task: str, node: str) -> None:
        self.agents.node_of[task] = node
        if address := self.agents.launcher.address(node):
            self.machines.addresses[task] = address

    # ---- machines that are lost, and those that take their place -----------------------------------------------------

    def _tasks_on(self, node: str) -> list[str]:
        return [str(key) for key in self.tasks if self.agents.where(str(key)) == node]

    def lost(self, node: str, reason: str) -> None:
        """All its tasks are lost, and wait for another machine."""
        self.note("NodeLost", node=node, reason=reason)
        self.injector.plan.machine_lost(node, self._tasks_on(node), f"{node} is lost")

    def here(self, node: str, address: str | None) -> None:
        """Another machine has taken its place; its tasks listen at other addresses."""
        self.note("NodeJoined", node=node, address=address)
        places = self.machines.places
        for name in self._tasks_on(node):
            if address and name in places:
                places[name] = msgspec.structs.replace(places[name], address=address)
                self.tasks[NodeId.parse(name)].place = places[name]

    def back(self, node: str) -> None:
        """The agent of that machine can start tasks."""
        self.injector.machine_back(node, self._tasks_on(node))
