"""What tasks and plans may do on machines: the interface of a job's own and of shared ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from typing import TYPE_CHECKING, NamedTuple, Protocol

from injectors.plan import Kind
from runtime.virtual.clock import Clock
from runtime.virtual.costs import FREE, Carry
from runtime.virtual.machines.sites import THREAD_CORES

if TYPE_CHECKING:
    from runtime.virtual.compiled._hosts import TaskWork

Then = Callable[[], object]
Path = tuple[str, str]
"""The tasks that send and receive a message."""
UsesCores = Callable[[str], float]
"""Cores that a task's computing uses at full speed, by the task's name."""


class Way(NamedTuple):
    """Resources of a message."""

    links: tuple[str, ...]
    accounts: tuple[str, ...]
    """On which its bytes are booked; none between tasks of one machine."""
    latency_s: float


class Passage(NamedTuple):
    """What lies between the machines of two tasks: nothing if these are one."""

    latency_s: float
    bytes_per_s: float
    """Of payload, while nobody else sends and nothing is disturbed; may be infinite."""


def one_thread(task: str) -> float:
    """Tasks compute in one thread each."""
    return THREAD_CORES


class Machines(Protocol):
    """What the tasks and the plan of one job may do: on machines of its own, or on such as it shares."""

    clock: Clock

    @property
    def task_work(self) -> TaskWork:
        """The part of the kernel that carries out the work of tasks, of any job."""
        ...

    def name_of(self, task: str) -> str:
        """The name that a task has there."""
        ...

    @property
    def paused_since_s(self) -> Mapping[str, float]:
        """Tasks that are paused, and since when."""
        ...

    @property
    def resumed_s(self) -> Mapping[str, float]:
        """When tasks that were paused continued, the last time."""
        ...

    def awake(self, task: str, then: Then) -> None:
        """Call ``then()`` now, or when the task is no longer paused."""
        ...

    def sleep(self, task: str, seconds: float, then: Then) -> None:
        """Wait without a processor; a task that is paused at the end wakes up late."""
        ...

    def work(self, task: str, core_seconds: float, then: Then) -> None:
        """Work of one thread; one thing at a time."""
        ...

    def compute(self, task: str, seconds: float, then: Then) -> None:
        """Work that takes so many seconds on as many cores as the task can use; one thing at a time."""
        ...

    def compute_on_device(self, task: str, seconds: float, then: Then, *, emulated: bool = False) -> None:
        """Likewise, on its device, too, of which a plan may leave it only a part; ``emulated``: without a processor."""
        ...

    def send(
        self, task: str, path: tuple[str, str], num_bytes: int, latency_s: float, then: Then, carry: Carry = FREE
    ) -> None:
        """A message along ``path`` (from, to), of which ``task`` is the end that it is forgotten with.

        While it travels it is ``carry`` core-seconds of work at either end; it is there when all of that is done.
        """
        ...

    def apart(self, path: tuple[str, str]) -> bool:
        """Whether the two tasks live on different machines."""
        ...

    def passage(self, path: tuple[str, str]) -> Passage:
        """What a message along ``path`` (from, to) has to pass."""
        ...

    def forget(self, task: str) -> None:
        """Its process is gone, and what it was doing never ends."""
        ...

    def change(self, target: str, kind: Kind, level: float) -> list[str]:
        """From now on a kind of disturbance has another level; returns the tasks that are paused from now on."""
        ...

    def move(self, task: str, name: str) -> None:
        """Its next process lives on another machine."""
        ...

    def enter(self, task: str, name: str, uses_cores: float = THREAD_CORES) -> None:
        """A task that was not there at the start, on the machine of this name; on one like the others if it is new."""
        ...

    def dismiss(self, tasks: Collection[str]) -> None:
        """Tasks that will never do anything again."""
        ...

    def allot(self, task: str, cores: float | None, link_bytes_per_s: float | None = None) -> None:
        """A task may use so many cores, and send so many bytes of payload per second; None: what its machine has."""
        ...

    def request(self, task: str, cores: float | None) -> None:
        """A task can always have so many cores of its host, whoever else works there; None: what others leave."""
        ...

    def core_seconds(self, task: str) -> float:
        """Work that a task has done so far, with the part of what it is doing."""
        ...

    def bytes_of(self, site: str) -> tuple[float, float]:
        """Payload bytes that have left a machine and that have reached it so far, whosever they are."""
        ...
