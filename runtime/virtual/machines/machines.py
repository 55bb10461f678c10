"""Machines that several tasks share and that a plan disturbs: processors, links, and paused tasks.

Work is core-seconds. Tasks of one site share its cores max-min fairly, none more than its own quota, and its uplink and
downlink. A plan's windows change all of these at once, also for work in progress.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from math import inf
from typing import TYPE_CHECKING, final

from injectors.plan import RULES, Kind, target_of
from runtime.cluster.requests import UNREQUESTED_FRAC
from runtime.virtual.clock import Clock
from runtime.virtual.costs import FREE, Carry
from runtime.virtual.machines.device_turns import DeviceTurns
from runtime.virtual.machines.interface import Passage, Path, Then, UsesCores, Way, one_thread
from runtime.virtual.machines.kernel import kernel
from runtime.virtual.machines.quotas import quota_of
from runtime.virtual.machines.sites import THREAD_CORES, Site

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import Sharing, TaskWork

SHARED: frozenset[Kind] = frozenset({"cpu", "gpu", "bandwidth", "cut", "pause"})
"""Kinds of disturbance that act on work in progress, so that machines must be modelled."""


@final
class ModelledMachines:
    """Carries out the work of tasks; work of a task that is forgotten never ends.

    Args:
        clock: the run's.
        sites: of every task, by its name.
        routes: those (``link:0>2``) that a plan throttles.
        others: sites without a task so far.
        uses_cores: of a task, by its name: those that its computing uses at full speed.
    """

    def __init__(
        self,
        clock: Clock,
        sites: Mapping[str, Site],
        routes: Collection[str] = (),
        others: Collection[Site] = (),
        uses_cores: UsesCores = one_thread,
    ) -> None:
        self.clock, self.sites = clock, dict(sites)
        self.paused_since_s: dict[str, float] = {}
        """Paused tasks, by name."""
        self.resumed_s: dict[str, float] = {}
        """The last time at which each paused task continued."""
        self._named = {site.name: site for site in (*sites.values(), *others)}
        self._routes = frozenset(routes)
        self._levels: dict[tuple[str, Kind], float] = {}
        self._uses: dict[str, float] = {}
        """Cores that a task's computing uses at full speed."""
        self._allotted: dict[str, float] = {}
        """Cores of the tasks that were given some."""
        self._requested: dict[str, float] = {}
        """Cores that tasks can always have."""
        self._speed = 1.0
        """Work that a core does, of what the cost model says."""
        self._processors: Sharing = kernel().Sharing(
            clock, dict.fromkeys((f"cores of {name}" for name in self._named), inf)
        )
        links = {f"{way} {name}": site.link_bytes_per_s for name, site in self._named.items() for way in ("up", "down")}
        self._links: Sharing = kernel().Sharing(clock, links | dict.fromkeys(sorted(self._routes), inf))
        self.turns = DeviceTurns(self._processors, self.awake)
        self.task_work: TaskWork = kernel().TaskWork(clock, self._processors, self._links, self._way_of)
        self.admit(sites, uses_cores)
        for name in self._named:
            self._set_cores(name)

    # ---- who lives here ----------------------------------------------------------------------------------------------

    def admit(self, sites: Mapping[str, Site], uses_cores: UsesCores = one_thread) -> None:
        """Tasks, each at a site that there is; ``uses_cores(task)``: cores that its computing uses at full speed."""
        self.sites |= sites
        self._uses |= {task: uses_cores(task) for task in sites}
        for task in sites:
            self.task_work.admit(task, self._uses[task], self._cores_of(task))
        gates = dict.fromkeys((f"gate of {task}" for task in sites), inf)
        quotas = {f"quota of {task}": self._full_speed(task) for task in sites}
        self._processors.add(quotas | gates)
        self._links.add(gates | dict.fromkeys((f"up of {task}" for task in sites), inf))

    def enter(self, task: str, name: str, uses_cores: float = THREAD_CORES) -> None:
        """A task that was not there at the start; where each has its own machine, all of these are alike."""
        if name not in self._named:
            site = self._named[name] = next(iter(self._named.values()))._replace(name=name)
            self._processors.add({f"cores of {name}": inf})
            self._links.add({f"{way} {name}": site.link_bytes_per_s for way in ("up", "down")})
        self.admit({task: self._named[name]}, lambda task: uses_cores)
        self._set_cores(task)
        self._pause(task)

    def allot(self, task: str, cores: float | None, link_bytes_per_s: float | None = None) -> None:
        """A task may use so many cores, and send so many bytes per second; None: all that its machine has."""
        if cores != self._allotted.get(task):
            self._allotted.pop(task, None)
            if cores is not None:
                self._allotted[task] = cores
            self._set_cores(task)
        self._links.set_capacity(f"up of {task}", inf if link_bytes_per_s is None else link_bytes_per_s)

    def request(self, task: str, cores: float | None) -> None:
        """A task can always have so many cores of its host, however busy it is; None: cores that others leave."""
        self._requested.pop(task, None)
        if cores is not None:
            self._requested[task] = cores
        self.task_work.weigh(task, self._weight(task))

    def _weight(self, task: str) -> float:
        """Return the weight of a task that requests a part of its site, in hundredths of that; others have 1."""
        cores = self._requested.get(task)
        return 1.0 if cores is None else cores / self.sites[task].cores / UNREQUESTED_FRAC

    def dismiss(self, tasks: Collection[str]) -> None:
        """Tasks that will never do anything again: they have left, or their job is over."""
        for task in tasks:
            self.turns.forget(task)
            self.task_work.dismiss(task)
        for task in tasks:
            del self.sites[task], self._uses[task]
            self._allotted.pop(task, None)
            self._requested.pop(task, None)
            self.paused_since_s.pop(task, None)
        gates = [f"gate of {task}" for task in tasks]
        self._links.remove([*gates, *(f"up of {task}" for task in tasks)])
        self._processors.remove([*(f"quota of {task}" for task in tasks), *gates])
        self.turns.dismiss(tasks)

    def site(self, name: str) -> Site:
        """One of the machines; raises ``KeyError``."""
        return self._named[name]

    def name_of(self, task: str) -> str:
        """The name that a task has on shared machines."""
        return task

    # ---- work of tasks -----------------------------------------------------------------------------------------------

    def awake(self, task: str, then: Then) -> None:
        """Call ``then()`` now, or when the task is no longer paused."""
        self.task_work.awake(task, then)

    def sleep(self, task: str, seconds: float, then: Then) -> None:
        """Wait without a processor; a task that is paused at the end wakes up late."""
        self.task_work.sleep(task, seconds, then)

    def work(self, task: str, core_seconds: float, then: Then) -> None:
        """Work of one thread; one thing at a time."""
        self.task_work.work(task, core_seconds, then)

    def work_beside(self, task: str, core_seconds: float, then: Then) -> None:
        """Work of another thread of the task, on the same cores; one thing at a time."""
        self.task_work.work_beside(task, core_seconds, then)

    def compute(self, task: str, seconds: float, then: Then) -> None:
        """Work that takes so many seconds on as many cores as the task can use; one thing at a time."""
        self.task_work.compute(task, seconds, then)

    def compute_on_device(self, task: str, seconds: float, then: Then, *, emulated: bool = False) -> None:
        """Likewise, on its device, too, of which a plan may leave it only a part; ``emulated``: without a processor."""
        others = (f"gate of {task}",) if emulated else self._cores_of(task)
        self.turns.compute(task, seconds, self._uses[task], others, then, weight=None if emulated else 1.0)

    def send(self, task: str, path: Path, num_bytes: int, latency_s: float, then: Then, carry: Carry = FREE) -> None:
        """A message along ``path`` (from, to), of which ``task`` is the end that it is forgotten with.

        While it travels it is ``carry`` core-seconds of work at either end; it is there when all of that is done.
        """
        self.task_work.send(task, path, num_bytes, latency_s, then, *carry)

    def apart(self, path: Path) -> bool:
        """Whether the two tasks live on different machines."""
        return self.sites[path[0]].name != self.sites[path[1]].name

    def passage(self, path: Path) -> Passage:
        """Return the passage of a message along ``path`` (from, to)."""
        source, target = self.sites[path[0]], self.sites[path[1]]
        apart, rate = source.name != target.name, min(source.link_bytes_per_s, target.link_bytes_per_s)
        return Passage(source.latency_s + target.latency_s if apart else 0.0, rate if apart else inf)

    def forget(self, task: str) -> None:
        """Drop the work of a task whose process is gone."""
        self.turns.forget(task)
        self.task_work.forget(task)

    def _cores_of(self, task: str) -> tuple[str, ...]:
        """The processor resources that a task's work uses."""
        return f"cores of {self.sites[task].name}", f"quota of {task}", f"gate of {task}"

    def _way_of(self, path: Path) -> Way:
        """Return a message's way: link resources, the accounts that it is booked on, and the latency of its hosts."""
        source, target = self.sites[path[0]], self.sites[path[1]]
        apart = source.name != target.name
        ends = (f"out {source.name}", f"in {target.name}") if apart else ()
        return Way(self._links_of(source, target, path), ends, self.passage(path).latency_s)

    def _links_of(self, source: Site, target: Site, path: Path) -> tuple[str, ...]:
        """Between tasks of one site a message uses only their own."""
        gates = (f"up of {path[0]}", *(f"gate of {task}" for task in path))
        if source.name == target.name:
            return gates
        ways = (f"up {source.name}", f"down {target.name}", *gates)
        if not self._routes:
            return ways
        route = f"link:{target_of(source.name).number}>{target_of(target.name).number}"
        return (*ways, route) if route in self._routes else ways

    def core_seconds(self, task: str) -> float:
        """Work that a task has done so far, including the done part of its current work."""
        return self._processors.done(task)

    def bytes_of(self, site: str) -> tuple[float, float]:
        """Payload bytes that have left a machine and that have reached it so far."""
        return self._links.done(f"out {site}"), self._links.done(f"in {site}")

    # ---- disturbances ------------------------------------------------------------------------------------

    def change(self, target: str, kind: Kind, level: float) -> list[str]:
        """Set the level of a kind of disturbance from now on; returns the tasks that are paused by it."""
        self._levels[target, kind] = level
        if kind == "pause":
            tasks = [target] if target in self.sites else self._tasks_at(target)
            return [task for task in tasks if self._pause(task)]
        if kind == "cpu":
            self._set_cores(target)
        elif kind == "gpu":
            self.turns.leave(target, level * self._uses[target])
        else:
            self._set_links(target)
        return []

    def run_at(self, speed: float) -> None:
        """Let all processors work at this fraction of the cost model's speed from now on; quotas limit their time."""
        self._speed = speed
        for task in self.sites:
            self._processors.set_capacity(f"quota of {task}", self._full_speed(task))
        for target in dict.fromkeys((*self._named, *self.sites)):
            self._set_cores(target)

    def _full_speed(self, task: str) -> float:
        """Return the work that a task can do in a second if nothing limits it."""
        return max(THREAD_CORES, self._uses[task]) * self._speed

    def move(self, task: str, name: str) -> None:
        """Move a task's next process to another site."""
        self.sites[task] = self._named[name]
        self.turns.forget(task)
        self.task_work.move(task, self._cores_of(task), self._weight(task))
        self._set_cores(task)
        self._pause(task)

    def _tasks_at(self, name: str) -> list[str]:
        return [task for task, site in self.sites.items() if site.name == name]

    def _level(self, target: str, kind: Kind) -> float:
        return self._levels.get((target, kind), RULES[kind].neutral)

    def _set_cores(self, target: str) -> None:
        """A task's quota is what it was given, or a part of its allotment, within the host's. New ones begin unused."""
        level = self._level(target, "cpu")
        if target in self.sites:
            cores = self._allotment(target) * level if level < 1 else self._allotted.get(target, inf)
            self._set_quota(f"quota of {target}", cores, self.sites[target])
        elif target in self._named:
            site = self._named[target]
            self._set_quota(f"cores of {target}", site.cores * level, site)

    def _allotment(self, task: str) -> float:
        """Cores that an undisturbed task may use."""
        return min(self.sites[task].cores, max(THREAD_CORES, self._uses[task]), self._allotted.get(task, inf))

    def _set_quota(self, resource: str, cores: float, site: Site) -> None:
        quota = quota_of(cores * self._speed, site.quota_period_s) if cores < inf else None
        self._processors.set_quota(resource, quota)

    def _set_links(self, target: str) -> None:
        """A route's rate is a part of the sender's rate."""
        sender, *receivers = target_of(target).ids
        site = self._named.get(f"host:{sender}")
        if site is None:
            return
        level = self._level(target, "bandwidth")
        if receivers:
            self._links.set_capacity(target, site.link_bytes_per_s * level if level < 1 else inf)
            return
        rate = 0.0 if self._level(target, "cut") else site.link_bytes_per_s * level
        for way in ("up", "down"):
            self._links.set_capacity(f"{way} {site.name}", rate)

    def _pause(self, task: str) -> bool:
        """Pause or continue by the levels of the task and of its host; returns whether it is paused from now on."""
        pauses = bool(self._level(task, "pause") or self._level(self.sites[task].name, "pause"))
        if pauses == (task in self.paused_since_s):
            return False
        if pauses:
            self.paused_since_s[task] = self.clock.now
            self.task_work.pause(task)
        else:
            del self.paused_since_s[task]
            self.resumed_s[task] = self.clock.now
        for resources in (self._processors, self._links):
            resources.set_capacity(f"gate of {task}", 0.0 if pauses else inf)
        if not pauses:
            self.task_work.resume(task)
        return pauses
