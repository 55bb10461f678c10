"""A plan's windows on the virtual clock, which affect work in progress when they open and close."""

from __future__ import annotations

from collections.abc import Callable
from typing import final

from injectors.plan import OF_MEMBERS, Kind, target_name, target_of
from injectors.schedule import Change, Schedule
from runtime.cluster.gpu_hogs import GPU, DeviceUsers
from runtime.core.inputs import Operated
from runtime.virtual.clock import MESSAGE, PLAN, Clock
from runtime.virtual.control.places import Places
from runtime.virtual.control.supervisor import VirtualSupervisor
from runtime.virtual.machines.machines import SHARED

ACTIVE: frozenset[Kind] = SHARED | OF_MEMBERS | {"kill"}
"""Kinds that need an action. Delays and slow-downs are looked up where work begins."""
MOVED: tuple[Kind, ...] = ("cpu", "gpu", "pause")
"""Those of a task that may be of its machine."""


@final
class Windows:
    """Notifies machines and supervisor of every change of the plan, at its time; ``operate`` gets joins and leaves.

    ``users`` knows who computes on which device.
    """

    def __init__(
        self,
        clock: Clock,
        schedule: Schedule,
        places: Places,
        supervisor: VirtualSupervisor,
        operate: Callable[[Operated], None],
        users: DeviceUsers,
    ) -> None:
        self.users = users
        self._device_levels: dict[str, float] = {}
        """What is left of devices, by the target that the plan names."""
        self.clock, self.places, self.supervisor, self.operate = clock, places, supervisor, operate
        self.machines = places.machines
        self.schedule = schedule
        self._changes = schedule.changes(ACTIVE)
        self._next = self._epoch = 0
        self._killing: set[str] = set()
        """Targets whose windows are open."""
        self._dead: set[str] = set()

    @property
    def to_come(self) -> bool:
        """Whether the plan has further changes, or keeps a task paused, which may be declared lost."""
        return self._next < len(self._changes) or (self.machines is not None and bool(self.machines.paused_since_s))

    def begin(self) -> None:
        """Wait for the next change, if there is one."""
        if self._next < len(self._changes):
            self.clock.at(self._changes[self._next].t, PLAN, self._turn, self._epoch)

    def moved(self, task: str, to: int | None = None) -> None:
        """A task moves to another machine (``to``: its host's number): disturbances of the old one do not follow."""
        now = self.clock.now
        self.places.move(task, to, [target_of(name).number for name in self._killing if target_of(name).form == "host"])
        if self.places.host_of(task) in self._killing:
            self.clock.at(now, MESSAGE, self.entered, task, True)  # when all follows from its restart that does
        if self._device_levels:
            self._share_devices(task)
        before: list[tuple[Kind, float]] = [(kind, self.schedule.level(task, kind, now)) for kind in MOVED]
        if not self.schedule.moved(task, now):
            return
        waited = self._next < len(self._changes)
        self._changes, self._next = tuple(one for one in self.schedule.changes(ACTIVE) if one.t > now), 0
        if waited:
            self._epoch += 1
            self.begin()
        for kind, level in before:
            if self.machines is not None and (new := self.schedule.level(task, kind, now)) != level:
                self._disturb(Change(now, task, kind, new))

    def entered(self, task: str, moved: bool = False) -> None:
        """A task has another host (``moved``), or its first: on one that the plan keeps dead, it cannot start."""
        if self.places.host_of(task) in self._killing and task not in self._dead:
            self._dead.add(task)
            self.supervisor.hold(task, moved=moved)

    def _turn(self, epoch: int) -> None:
        """Apply all changes of one moment: a task whose window closes while its host's opens stays dead."""
        if epoch != self._epoch:
            return
        first, t = self._next, self._changes[self._next].t
        while self._next < len(self._changes) and self._changes[self._next].t == t:
            self._next += 1
        now = self._changes[first : self._next]
        for change in now:
            if change.kind == "kill":
                (self._killing.add if change.level else self._killing.discard)(change.target)
            elif change.kind == "join" or change.kind == "leave":
                if change.level:
                    self.operate(Operated(change.kind, change.target))
            else:
                self._disturb(change)
        for change in now:
            if change.kind == "kill":
                self._kill(change.target)
        self.begin()

    def _disturb(self, change: Change) -> None:
        assert self.machines is not None
        if change.kind == GPU:
            self._take_turns(change)
            return
        for task in self.machines.change(change.target, change.kind, change.level):
            self.supervisor.watch(task)

    def _take_turns(self, change: Change) -> None:
        """Another part of a device is left."""
        self._device_levels[change.target] = change.level
        self._share_devices(change.target)

    def _share_devices(self, target: str) -> None:
        """Whoever computes on a device that a target reaches has what is left of it."""
        assert self.machines is not None
        for device in self.users.devices_of(target):
            left = self.users.left(device, lambda target, kind: self._device_levels[target], self._device_levels)
            for worker in self.users.workers_on(device):
                self.machines.change(target_name("worker", worker), GPU, left)

    def _kill(self, target: str) -> None:
        for task in self._tasks_of(target):
            dies = task in self._killing or self.places.host_of(task) in self._killing
            if dies and task not in self._dead:
                self._dead.add(task)
                self.supervisor.hold(task)
            elif not dies and task in self._dead:
                self._dead.remove(task)
                self.supervisor.release(task)

    def _tasks_of(self, target: str) -> list[str]:
        form, number = target_of(target).form, target_of(target).number
        return self.places.tasks_on(number) if form == "host" else [target]
