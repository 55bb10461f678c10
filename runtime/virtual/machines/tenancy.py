"""A job's place on machines that it shares with other jobs: its tasks have the job's name, and its clock continues."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, final

from injectors.plan import Kind
from runtime.core.reservations import Reservations
from runtime.errors import ConfigError
from runtime.virtual.clock import Clock
from runtime.virtual.costs import FREE, Carry
from runtime.virtual.machines.interface import Passage, Then, UsesCores, one_thread
from runtime.virtual.machines.machines import ModelledMachines
from runtime.virtual.machines.sites import THREAD_CORES

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import TaskWork

Limits = tuple[float | None, float | None]
"""Cores, and bytes of payload that are sent per second; None: no limit."""


@final
class Tenancy:
    """The rights of one job on shared machines; see :class:`runtime.virtual.machines.machines.ModelledMachines`.

    Tasks are called ``worker:1`` here and ``NAME/worker:1`` there. Either side has a clock of its own: before it is
    called, the clock of that side catches up. ``reservations`` answers what the job reserves; None: the job itself.
    """

    def __init__(
        self, name: str, clock: Clock, machines: ModelledMachines, reservations: Reservations | None = None
    ) -> None:
        self.name, self.clock, self.reservations = name, clock, reservations
        self._machines = machines
        self._tasks: dict[str, str] = {}
        self._allotted: dict[str, Limits] = {}
        """Limits that the job itself sets for its tasks."""
        self._limits: dict[str, Limits] = {}
        """Limits of its tasks for other jobs' sake."""

    def admit(
        self,
        homes: Mapping[str, str],
        disturbed: Collection[str],
        uses_cores: UsesCores = one_thread,
    ) -> None:
        """The job's tasks, each with the name of its machine; its plan may disturb these, and nobody else's."""
        shared = sorted(set(disturbed) - set(homes))
        if shared:
            raise ConfigError(
                f"straggler: disturbs {shared[0]}, which {self.name} shares with other jobs; name its tasks"
            )
        self._tasks = {task: f"{self.name}/{task}" for task in homes}
        sites = {self._tasks[task]: self._machines.site(name) for task, name in homes.items()}
        uses = {self._tasks[task]: uses_cores(task) for task in homes}
        self._machines.admit(sites, uses.__getitem__)

    @property
    def task_work(self) -> TaskWork:
        """The part of the kernel that carries out the work of tasks, of any job."""
        return self._machines.task_work

    def name_of(self, task: str) -> str:
        return self._tasks[task]

    def leave(self) -> None:
        """The job is over."""
        self._machines.clock.catch_up()
        self._machines.dismiss(list(self._tasks.values()))
        self._tasks = {}
        self._allotted, self._limits = {}, {}

    # ---- what tasks do -----------------------------------------------------------------------------------------------

    def awake(self, task: str, then: Then) -> None:
        self._there().awake(self._tasks[task], self._back(then))

    def sleep(self, task: str, seconds: float, then: Then) -> None:
        self._there().sleep(self._tasks[task], seconds, self._back(then))

    def work(self, task: str, core_seconds: float, then: Then) -> None:
        self._there().work(self._tasks[task], core_seconds, self._back(then))

    def work_beside(self, task: str, core_seconds: float, then: Then) -> None:
        self._there().work_beside(self._tasks[task], core_seconds, self._back(then))

    def compute(self, task: str, seconds: float, then: Then) -> None:
        self._there().compute(self._tasks[task], seconds, self._back(then))

    def compute_on_device(self, task: str, seconds: float, then: Then, *, emulated: bool = False) -> None:
        self._there().compute_on_device(self._tasks[task], seconds, self._back(then), emulated=emulated)

    def send(
        self, task: str, path: tuple[str, str], num_bytes: int, latency_s: float, then: Then, carry: Carry = FREE
    ) -> None:
        source, target = (self._tasks[end] for end in path)
        self._there().send(self._tasks[task], (source, target), num_bytes, latency_s, self._back(then), carry)

    def apart(self, path: tuple[str, str]) -> bool:
        source, target = path
        return self._there().apart((self._tasks[source], self._tasks[target]))

    def passage(self, path: tuple[str, str]) -> Passage:
        source, target = path
        return self._there().passage((self._tasks[source], self._tasks[target]))

    def enter(self, task: str, name: str, uses_cores: float = THREAD_CORES) -> None:
        there = self._there()
        self._tasks[task] = f"{self.name}/{task}"
        there.enter(self._tasks[task], there.site(name).name, uses_cores)

    def dismiss(self, tasks: Collection[str]) -> None:
        self._there().dismiss([self._tasks.pop(task) for task in tasks])
        for task in tasks:
            self._allotted.pop(task, None)
            self._limits.pop(task, None)

    def allot(self, task: str, cores: float | None, link_bytes_per_s: float | None = None) -> None:
        self._allotted[task] = (cores, link_bytes_per_s)
        self._give(task)

    def limit(self, task: str, cores: float | None, link_bytes_per_s: float | None) -> bool:
        """Limit a task for other jobs' sake, also if its own job gives it more; returns whether it is still there."""
        if task not in self._tasks:
            return False
        self._limits[task] = (cores, link_bytes_per_s)
        self._give(task)
        return True

    def _give(self, task: str) -> None:
        """Set the smaller of its job's limits and the limits for others' sake."""
        both = [limits[task] for limits in (self._allotted, self._limits) if task in limits]
        cores, rate = (
            min((one for one in given if one is not None), default=None) for given in zip(*both, strict=True)
        )
        self._there().allot(self._tasks[task], cores, rate)

    def request(self, task: str, cores: float | None) -> None:
        self._there().request(self._tasks[task], cores)

    def forget(self, task: str) -> None:
        self._there().forget(self._tasks[task])

    # ---- what a plan does to them ------------------------------------------------------------------------------------

    def change(self, target: str, kind: Kind, level: float) -> list[str]:
        if target not in self._tasks:  # it has left
            return []
        return self._ours(self._there().change(self._tasks[target], kind, level))

    def move(self, task: str, name: str) -> None:
        self._there().move(self._tasks[task], name)

    # ---- what they have used -----------------------------------------------------------------------------------------

    def core_seconds(self, task: str) -> float:
        return self._there().core_seconds(self._tasks[task])

    def bytes_of(self, site: str) -> tuple[float, float]:
        return self._there().bytes_of(site)

    @property
    def paused_since_s(self) -> Mapping[str, float]:
        """Tasks that are paused, and since when."""
        return self._in_our_time(self._machines.paused_since_s)

    @property
    def resumed_s(self) -> Mapping[str, float]:
        """When tasks that were paused continued, the last time."""
        return self._in_our_time(self._machines.resumed_s)

    # ---- to there and back -------------------------------------------------------------------------------------------

    def _there(self) -> ModelledMachines:
        self._machines.clock.catch_up()
        return self._machines

    def _back(self, then: Callable[[], object]) -> Then:
        def come_back() -> None:
            self.clock.catch_up()
            then()

        return come_back

    def _ours(self, tasks: Collection[str]) -> list[str]:
        return [task for task, name in self._tasks.items() if name in tasks]

    def _in_our_time(self, since_s: Mapping[str, float]) -> dict[str, float]:
        later_s = self._machines.clock.offset_s - self.clock.offset_s
        return {task: since_s[name] + later_s for task, name in self._tasks.items() if name in since_s}


Machines = ModelledMachines | Tenancy
"""The machines of a job's tasks and plan: its own, or its place on machines that it shares."""
