"""The present effects of a plan on every target, and the tasks it has killed: decided once for both runtimes (pure).

Windows belong to targets, not to processes: a restarted task meets the levels of its name, and its host's. A task is
dead while a window of kind ``kill`` is open for it or for its present host, and while its machine is lost. All changes
of one moment are taken together: a task whose own window closes when its host's opens stays dead. Delays and slow-downs
are not here: they come with the coordinator's orders.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable, Sequence
from math import inf
from typing import Protocol, final

import msgspec

from injectors.plan import OF_MEMBERS, RULES, Kind, target_of
from injectors.schedule import Change, Schedule

KINDS: frozenset[Kind] = OF_MEMBERS | {"cpu", "gpu", "bandwidth", "cut", "pause", "kill"}
"""Kinds that need an action."""
OF_TASKS: tuple[Kind, ...] = ("cpu", "gpu", "pause")
"""Kinds of these that a task may leave behind when it moves to another machine."""
BY_PLAN = "killed by the plan"


class Places(Protocol):
    """Where tasks are now: a task's host (None: it has none), and the tasks on a host (of a task: itself)."""

    def host_of(self, task: str) -> str | None: ...
    def tasks_on(self, target: str) -> list[str]: ...


class Devices(Protocol):
    """The GPUs that targets reach, and the fraction of each that remains, as ``DeviceUsers`` of ``gpu_hogs`` says."""

    def devices_of(self, target: str) -> list[int]: ...
    def left(self, device: int, level_of: Callable[[str, Kind], float], targets: Iterable[str]) -> float: ...


class Hold(msgspec.Struct, frozen=True):
    """Kill a task and keep it from starting; ``moved``: it has come to a dead host."""

    task: str
    reason: str = BY_PLAN
    moved: bool = False


class Release(msgspec.Struct, frozen=True):
    """Let a task start again."""

    task: str


class Share(msgspec.Struct, frozen=True):
    """Leave a fraction of a device to its workers, because of a change of kind ``gpu``."""

    device: int
    left_frac: float
    change: Change


Action = Change | Hold | Release | Share
"""A change of kind join or leave has level 1; from a change of kind kill ``Hold`` and ``Release`` follow."""


@final
class Disturbances:
    """The state of a job's plan; from every input actions follow, for which ``act`` is called in order.

    An action may make the strategy move a task: the resulting actions follow the actions that are under way.
    """

    def __init__(self, schedule: Schedule, places: Places, devices: Devices, act: Callable[[Action], object]) -> None:
        self.schedule, self.places, self.devices, self.act = schedule, places, devices, act
        self._changes = deque(schedule.changes(KINDS))
        """Changes to come."""
        self._actions: deque[Action] = deque()
        """The action that is under way, and those that follow it."""
        self._levels: dict[tuple[str, Kind], float] = {}
        self._left_fracs: dict[int, float] = {}
        """The remaining share of each device that was ever disturbed."""
        self._lost: dict[str, str] = {}
        """The lost machine of each task that was on one."""
        self._dead: dict[str, None] = {}
        """Tasks that are held, in the order of their deaths."""

    @property
    def next_s(self) -> float:
        """Time of the next change; infinity if there is none."""
        return self._changes[0].t if self._changes else inf

    @property
    def dead_hosts(self) -> list[int]:
        """Numbers of the hosts that the plan keeps dead."""
        killed = [target_of(name) for (name, kind), level in self._levels.items() if kind == "kill" and level > 0]
        return [target.number for target in killed if target.form == "host"]

    def level(self, target: str, kind: Kind = "cpu") -> float:
        """The level of a kind on a target."""
        return self._levels.get((target, kind), RULES[kind].neutral)

    # ---- inputs ------------------------------------------------------------------------------------------------------

    def advance(self, now: float) -> None:
        """Time has passed: make all changes up to ``now``, moment by moment."""
        while (t := self.next_s) <= now:
            moment: list[Change] = []
            while self.next_s == t:
                moment.append(self._changes.popleft())
            kills = [change for change in moment if change.kind == "kill"]
            actions = [action for change in moment for action in self._set(change)]
            for kill in kills:
                actions += [kill, *self._settle(self.places.tasks_on(kill.target))]
            self._carry_out(actions + self._settle(self._dead if kills else ()))  # of which some may have moved

    def moved(self, now: float, task: str) -> None:
        """A task's next process starts elsewhere, without the old machine's levels; :meth:`admitted` follows."""
        actions: list[Action] = []
        if self.schedule.moved(task, now):
            due = [one for one in self._changes if one.t <= now and (one.target != task or one.kind not in OF_TASKS)]
            self._changes = deque([*due, *(one for one in self.schedule.changes(KINDS) if one.t > now)])
            for kind in OF_TASKS:
                if (level := self.schedule.level(task, kind, now)) != self.level(task, kind):
                    actions += self._set(Change(now, task, kind, level))
        known = {**self._left_fracs}
        shares = self._share(Change(now, task, "gpu", self.level(task, "gpu")))
        self._carry_out(actions + [one for one in shares if one.left_frac != known.get(one.device, 1.0)])

    def admitted(self, task: str, *, moved: bool = False) -> None:
        """A task has a host, its first or (``moved``) another one: on a dead host it waits for the end of that."""
        self._carry_out(self._settle([task], moved=moved))

    def machine_lost(self, machine: str, tasks: list[str], reason: str) -> None:
        """Tasks are dead until another machine takes the place of theirs."""
        self._lost |= dict.fromkeys(tasks, machine)
        self._carry_out(self._settle(tasks, reason))

    def machine_back(self, now: float, machine: str, tasks: list[str]) -> None:
        """Another machine is there, where the levels of its tasks have to be set again."""
        self._lost = {task: lost for task, lost in self._lost.items() if lost != machine}
        again = [Change(now, task, kind, self.level(task, kind)) for task in tasks for kind in ("cpu", "pause")]
        self._carry_out(self._settle(self._dead) + [one for one in again if one.level != RULES[one.kind].neutral])

    def end(self, now: float) -> None:
        """Undo all levels, so that no process ends throttled or stopped; the dead stay dead."""
        self._changes.clear()
        on = [key for key, level in self._levels.items() if key[1] != "kill" and level != RULES[key[1]].neutral]
        undone = [Change(now, target, kind, RULES[kind].neutral) for target, kind in on]
        self._carry_out([action for change in undone for action in self._set(change)])

    # ---- decisions ---------------------------------------------------------------------------------------------------

    def _set(self, change: Change) -> Sequence[Action]:
        """Set a level; the actions that follow from kills depend on all kills of the moment."""
        if change.kind in OF_MEMBERS:
            return [change] if change.level > 0 else []
        self._levels[change.target, change.kind] = change.level
        if change.kind == "gpu":
            return self._share(change)
        return [] if change.kind == "kill" else [change]

    def _share(self, change: Change) -> list[Share]:
        """Return the remaining share of the devices that a target reaches."""
        disturbed = [target for target, kind in self._levels if kind == "gpu"]
        devices = self.devices.devices_of(change.target)
        shares = [Share(one, self.devices.left(one, self.level, disturbed), change) for one in devices]
        self._left_fracs |= {share.device: share.left_frac for share in shares}
        return shares

    def _settle(self, tasks: Iterable[str], reason: str = BY_PLAN, *, moved: bool = False) -> list[Action]:
        """Hold the tasks that die, and release those that may live again."""
        actions: list[Action] = []
        for task in [*tasks]:
            killers = (task, self.places.host_of(task) or task)
            dies = task in self._lost or any(self.level(one, "kill") > 0 for one in killers)
            if dies and task not in self._dead:
                self._dead[task] = None
                actions.append(Hold(task, reason, moved))
            elif not dies and task in self._dead:
                del self._dead[task]
                actions.append(Release(task))
        return actions

    def _carry_out(self, actions: Sequence[Action]) -> None:
        is_first = not self._actions
        self._actions.extend(actions)
        while is_first and self._actions:
            self.act(self._actions[0])
            self._actions.popleft()
