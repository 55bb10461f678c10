"""Carries out a plan's windows on the virtual clock, which affect work in progress when they open and close.

:mod:`runtime.core.disturbing` decides; times, and the effects on machines and tasks, are here.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from math import inf
from typing import final

from injectors.plan import target_name
from injectors.schedule import Change, Schedule
from runtime.cluster.gpu_hogs import GPU, DeviceUsers
from runtime.core.disturbing import Action, Disturbances, Hold, Release, Share
from runtime.core.inputs import Operated
from runtime.virtual.clock import MESSAGE, PLAN, Clock
from runtime.virtual.control.places import Places
from runtime.virtual.control.supervisor import VirtualSupervisor


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
        self.clock, self.places, self.supervisor, self.operate = clock, places, supervisor, operate
        self.users, self.machines = users, places.machines
        self.plan = Disturbances(schedule, places, users, self._act)
        self._waits_s = inf
        """Time of the change for which the clock was set last."""

    @property
    def to_come(self) -> bool:
        """Whether the plan has further changes, or keeps a task paused, which may be declared lost."""
        return self.plan.next_s < inf or (self.machines is not None and bool(self.machines.paused_since_s))

    def begin(self) -> None:
        """Wait for the next change, if there is one."""
        if (next_s := self.plan.next_s) < inf and next_s != self._waits_s:
            self._waits_s = next_s
            self.clock.at(next_s, PLAN, self._turn)

    def _turn(self) -> None:
        self.plan.advance(self.clock.now)
        self.begin()

    def moved(self, task: str, to: int | None = None) -> None:
        """A task moves to another machine (``to``: its host's number): disturbances of the old one do not follow."""
        self.places.move(task, to, self.plan.dead_hosts)
        now, enter = self.clock.now, partial(self.plan.admitted, moved=True)
        self.clock.at(now, MESSAGE, enter, task)  # after all that follows from its restart
        self.plan.moved(now, task)
        self.begin()

    def _act(self, action: Action) -> None:
        match action:
            case Hold(task, _, moved):
                self.supervisor.hold(task, moved=moved)
            case Release(task):
                self.supervisor.release(task)
            case Share(device, left_frac) if self.machines is not None:
                for worker in self.users.workers_on(device):
                    self.machines.change(target_name("worker", worker), GPU, left_frac)
            case Change(_, worker, "join" | "leave" as kind):
                self.operate(Operated(kind, worker))
            case Change(_, target, kind, level) if self.machines is not None and kind != "kill":
                for task in self.machines.change(target, kind, level):
                    self.supervisor.watch(task)
