"""The reference of ``runtime/virtual/compiled/task_work.h``: what tasks do, on shared resources of the reference."""

from __future__ import annotations

from collections.abc import Callable, Hashable
from functools import partial
from math import inf
from typing import NamedTuple, final

import msgspec

from runtime.virtual.clock import MACHINE, Clock
from runtime.virtual.machines.interface import Path, Then, Way
from runtime.virtual.machines.sites import THREAD_CORES
from tests.support.reference_sharing import Sharing


class Task(msgspec.Struct, eq=False):
    """One task, and everything that it does."""

    uses_cores: float
    cores: tuple[str, ...]
    """The processor resources that its work uses."""
    life: int = 0
    paused: bool = False
    weight: float = 1.0
    """Of all that it does together."""
    own_s: float = 0.0
    """For how long its own messages have interrupted others, those whose transfer is over."""
    owed_s: float = 0.0
    """Core-seconds of interruptions, which it has to work in addition to what it does next."""
    charged_s: float = 0.0
    """All that it has ever owed."""
    waiting: list[Then] = []
    """What it does when it continues."""
    messages: dict[Path, dict[Hashable, None]] = {}
    """That are dropped with it: what is not done yet of each."""


class Interrupting(NamedTuple):
    """A message between machines, which interrupts all tasks but the two at its ends evenly during its transfer."""

    ends: tuple[Task, Task]
    num_bytes: float
    seconds: float
    """For which all of it interrupts."""


@final
class TaskWork:
    """Work of a task that is forgotten never ends.

    Args:
        clock: that the resources follow.
        processors: cores, quotas and gates of tasks.
        links: of the machines and of the tasks.
        way_of: what a message uses on a path.
    """

    def __init__(self, clock: Clock, processors: Sharing, links: Sharing, way_of: Callable[[Path], Way]) -> None:
        self.clock = clock
        self._processors, self._links, self._way_of = processors, links, way_of
        self._tasks: dict[str, Task] = {}
        self._ways: dict[Path, Way] = {}
        self._interrupted_s = 0.0
        """For how long messages between machines whose transfer is over have interrupted whatever worked."""
        self._interrupting: dict[Path, Interrupting] = {}
        """Those that are transferred now, in the order of their starts."""

    # ---- who works ---------------------------------------------------------------------------------------------------

    def admit(self, task: str, uses_cores: float, cores: tuple[str, ...]) -> None:
        """A task whose computing uses so many cores at full speed, and whose work uses these processor resources."""
        self._tasks[task] = Task(uses_cores, cores)
        self._ways.clear()

    def move(self, task: str, cores: tuple[str, ...], weight: float) -> None:
        """A task's next process uses other processor resources, and has another weight there."""
        self.forget(task)
        self._tasks[task].cores, self._tasks[task].weight = cores, weight
        self._ways.clear()

    def weigh(self, task: str, weight: float) -> None:
        """Give all that a task does a weight together, from now on."""
        self._tasks[task].weight = weight
        self._processors.divide(task, weight)

    def dismiss(self, task: str) -> None:
        self.forget(task)
        del self._tasks[task]

    def forget(self, task: str) -> None:
        """Drop the work of a task whose process is gone; who carried its messages has its weight for what is left."""
        one = self._tasks[task]
        one.life += 1
        one.owed_s = 0.0
        one.waiting = []
        self._processors.stop(task)
        for path, parts in one.messages.items():
            self._end_interrupting(path)
            self._links.stop(path)
            for part in parts:
                self._processors.stop(part)
            for other in path:
                if other != task and other in self._tasks:
                    self._processors.divide(other, self._tasks[other].weight)
        one.messages.clear()

    def pause(self, task: str) -> None:
        """It does nothing from now on; what it has begun is stopped by its gates, which are the caller's."""
        self._tasks[task].paused = True

    def resume(self, task: str) -> None:
        one = self._tasks[task]
        one.paused, waiting, one.waiting = False, one.waiting, []
        for then in waiting:
            then()

    # ---- what they do ------------------------------------------------------------------------------------------------

    def awake(self, task: str, then: Then) -> None:
        """Call ``then()`` now, or when the task is no longer paused."""
        one = self._tasks.get(task)
        if one is not None and one.paused:
            one.waiting.append(then)
        else:
            then()

    def sleep(self, task: str, seconds: float, then: Then) -> None:
        """Wait without using a processor; a task that is paused at the end wakes up late."""
        self._later(task, seconds, partial(self.awake, task, then))

    def work(self, task: str, core_seconds: float, then: Then) -> None:
        """Work of one thread; one thing at a time."""
        self._work(task, core_seconds, THREAD_CORES, then)

    def compute(self, task: str, seconds: float, then: Then) -> None:
        """Work that takes so many seconds on as many cores as the task can use; one thing at a time."""
        uses_cores = self._tasks[task].uses_cores
        self._work(task, seconds * uses_cores, uses_cores, then)

    def _work(self, task: str, core_seconds: float, cores: float, then: Then) -> None:
        """Work at up to ``cores``, which matter only where the task's own resource has more."""
        if core_seconds:
            limit = cores if cores < max(THREAD_CORES, self._tasks[task].uses_cores) else inf
            self._use_cores(task, task, core_seconds, partial(self.awake, task, then), limit)
        else:
            self.awake(task, then)

    def send(
        self,
        task: str,
        path: Path,
        num_bytes: int,
        latency_s: float,
        then: Then,
        carry_s: float = 0.0,
        within_s: float = 0.0,
        interrupt_s: float = 0.0,
    ) -> None:
        """Send a message along ``path`` (from, to); it is dropped when ``task``, one of its ends, is forgotten.

        It takes ``carry_s`` core-seconds of work at either end (``within_s`` if both are on one machine), and has
        arrived when all of that is done. From one machine to another it interrupts all other tasks for ``interrupt_s``.
        """
        way = self._ways.get(path)
        if way is None:
            way = self._ways[path] = self._way_of(path)
        latency_s += way.latency_s
        if not way.accounts:
            carry_s = within_s
        elif interrupt_s:
            ends = self._tasks[path[0]], self._tasks[path[1]]
            self._interrupting[path] = Interrupting(ends, float(num_bytes), interrupt_s)
        parts: dict[Hashable, None] = {path: None}
        if carry_s:
            parts |= {(path, path[0]): None, (path, path[1]): None}
        messages = self._tasks[task].messages
        messages[path] = parts

        def done(part: Hashable) -> None:
            if part == path:
                self._end_interrupting(path)
            del parts[part]
            if not parts:
                del messages[path]
                self._later(task, latency_s, then)

        self._links.start(path, float(num_bytes), way.links, partial(done, path), way.accounts)
        for end in path if carry_s else ():
            limit = THREAD_CORES if self._tasks[end].uses_cores > THREAD_CORES else inf
            self._use_cores(end, (path, end), carry_s, partial(done, (path, end)), limit)

    def _interrupted_by_others_s(self, task: Task) -> float:
        """For how long messages between machines of which a task is no end have interrupted whatever worked so far."""
        interrupted_s = self._interrupted_s - task.own_s
        for path, message in self._interrupting.items():
            if task is not message.ends[0] and task is not message.ends[1]:
                interrupted_s += self._so_far_s(path, message)
        return interrupted_s

    def _so_far_s(self, path: Path, message: Interrupting) -> float:
        """For how long the message that is transferred on a path has interrupted others."""
        return message.seconds * (1.0 - self._links.left(path) / message.num_bytes)

    def _end_interrupting(self, path: Path) -> None:
        """The transfer on a path, if it is one between machines, is over now."""
        if path in self._interrupting:
            message = self._interrupting[path]
            seconds = self._so_far_s(path, message)
            del self._interrupting[path]
            self._interrupted_s += seconds
            for end in message.ends:
                end.own_s += seconds

    def charged_s(self, task: str) -> float:
        """Core-seconds of interruptions that were charged to a task so far."""
        return self._tasks[task].charged_s

    def _use_cores(self, task: str, key: Hashable, core_seconds: float, then: Then, limit: float) -> None:
        """Use the processor; all that a task does has its weight together: it is one thread among others.

        Interruptions are charged to whom they interrupt: what others send meanwhile makes the task's next work longer,
        in proportion to the part of the time in which it had a core. Its own messages cost what they cost it.
        """
        one = self._tasks[task]
        core_seconds, one.owed_s = core_seconds + one.owed_s, 0.0
        begun_s, before_s = self.clock.now, self._interrupted_by_others_s(one)

        def ended() -> None:
            interrupted_s = self._interrupted_by_others_s(one) - before_s
            if interrupted_s > 0.0 and self.clock.now > begun_s:
                owed_s = core_seconds * (interrupted_s / (self.clock.now - begun_s))
                one.owed_s += owed_s
                one.charged_s += owed_s
            then()
            if task in self._tasks:
                self._processors.divide(task, one.weight)

        self._processors.start(key, core_seconds, one.cores, ended, (task,), limit=limit)
        self._processors.divide(task, one.weight)

    def _later(self, task: str, seconds: float, then: Then) -> None:
        one = self._tasks[task]
        self.clock.at(self.clock.now + seconds, MACHINE, self._due, one, one.life, then)

    @staticmethod
    def _due(task: Task, life: int, then: Then) -> None:
        if task.life == life:
            then()
