"""Interface of the compiled kernel: shared resources, work of tasks on them, and iterations of workers with servers.

A callable is called without arguments at the end of the work that it was given with. Amounts are core-seconds or
bytes, rates amounts per second; names are tasks' or resources'. Bad values raise ``ValueError``, a task that is not
there ``KeyError``.
"""

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Any, Literal

from runtime.cluster.device import DeviceProfile
from runtime.core.executor import Disturb
from runtime.core.inputs import GradientArrived
from runtime.core.job import ComputeOrder
from runtime.virtual.clock import Clock as Clock
from runtime.virtual.clock import Timeline as Timeline
from runtime.virtual.costs import Costs
from runtime.virtual.machines.interface import Path, Then, Way
from runtime.virtual.machines.quotas import Quota
from runtime.virtual.tasks.iteration import Iteration as Parts
from runtime.virtual.tasks.jitter import Jitter
from runtime.virtual.tasks.model_state import Result
from strategies.protocol import Timings

Stage = Literal[
    "ordered",
    "waiting",
    "updating",
    "loading",
    "receiving",
    "copying in",
    "computing",
    "pacing",
    "delayed",
    "computed",
    "copying out",
    "pushing",
    "taken",
]
Detour = Callable[[Chained], bool]
"""Is called when an iteration enters a stage; returns whether it carries that out itself."""

class Fluid:
    """Activities that share resources max-min fairly, on a clock that callers advance by their ``t``.

    An activity has an amount of work. Rates change only when an activity starts or ends, a capacity changes or a quota
    is used up. ``t`` is finite and never decreases. Calls may skip completions: an activity that ended in between freed
    its share at that time and is kept for :meth:`completed`.
    """

    def __init__(self, capacities: Mapping[str, float]) -> None: ...
    def add(self, capacities: Mapping[str, float]) -> None: ...
    def remove(self, resources: Iterable[str]) -> None: ...
    def start(
        self,
        t: float,
        key: Hashable,
        amount: float,
        resources: tuple[str, ...],
        limit: float = ...,
        weight: float = 1.0,
    ) -> None: ...
    def stop(self, t: float, key: Hashable) -> float:
        """Abandon an activity; returns how much of its amount was left."""

    def left(self, t: float, key: Hashable) -> float:
        """How much of an activity's amount is left at ``t``, at its rate as computed last; changes nothing."""

    def rate(self, key: Hashable) -> float: ...
    def set_capacity(self, t: float, resource: str, capacity: float) -> None: ...
    def set_quota(self, t: float, resource: str, quota: Quota | None) -> None: ...
    @property
    def next_s(self) -> float:
        """When the next activity completes or the next quota is used up: in the past if it was not collected."""

    def completed(self, t: float) -> list[Hashable]:
        """Remove the activities that are complete at ``t``; return their keys in the order of their starts."""

class Sharing:
    """A :class:`Fluid` that follows a clock."""

    clock: Clock

    def __init__(self, clock: Clock, capacities: Mapping[str, float]) -> None: ...
    def add(self, capacities: Mapping[str, float]) -> None: ...
    def remove(self, resources: Collection[str]) -> None: ...
    def start(
        self,
        key: Hashable,
        amount: float,
        resources: tuple[str, ...],
        then: Then,
        accounts: tuple[str, ...] = (),
        *,
        limit: float = ...,
    ) -> None: ...
    def stop(self, key: Hashable) -> None:
        """End an activity early, if it is in progress."""

    def divide(self, account: str, weight: float) -> None:
        """All activities of an account in progress have this weight together, each an equal part of it."""

    def done(self, account: str) -> float:
        """The sum of all that was booked, with what is done by now of activities in progress."""

    def set_capacity(self, resource: str, capacity: float) -> None: ...
    def set_quota(self, resource: str, quota: Quota | None) -> None: ...

class TaskWork:
    """What tasks do: they work, sleep and send messages, unless they are paused."""

    def __init__(self, clock: Clock, processors: Sharing, links: Sharing, way_of: Callable[[Path], Way]) -> None: ...
    def admit(self, task: str, uses_cores: float, cores: tuple[str, ...]) -> None:
        """A task whose computing uses so many cores at full speed, and whose work uses these processor resources."""

    def move(self, task: str, cores: tuple[str, ...], weight: float) -> None:
        """A task's next process uses other processor resources, and has another weight there."""

    def weigh(self, task: str, weight: float) -> None:
        """Give all that a task does a weight together, from now on."""

    def dismiss(self, task: str) -> None: ...
    def forget(self, task: str) -> None:
        """Drop the work of a task whose process is gone; its messages' other ends have their weight for the rest."""

    def pause(self, task: str) -> None: ...
    def resume(self, task: str) -> None: ...
    def awake(self, task: str, then: Then) -> None:
        """Call ``then()`` now, or when the task is no longer paused."""

    def sleep(self, task: str, seconds: float, then: Then) -> None: ...
    def work(self, task: str, core_seconds: float, then: Then) -> None:
        """Work of one thread; one thing at a time."""

    def work_beside(self, task: str, core_seconds: float, then: Then) -> None:
        """Work of another thread of the task, on the same cores; one thing at a time."""

    def compute(self, task: str, seconds: float, then: Then) -> None:
        """Work that takes so many seconds on as many cores as the task can use; one thing at a time."""

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
        arrived when all of that is done. From one machine to another it interrupts all other tasks for ``interrupt_s``,
        evenly during its transfer: whoever works meanwhile owes that, in proportion to the part of the time in which it
        had a core, and its next work is longer by it.
        """

    def charged_s(self, task: str) -> float:
        """Core-seconds of interruptions that were charged to a task so far."""

class Queue:
    """The orders of one task: it carries out one after another, and begins none while it is paused.

    Args:
        task: its name, and ``there`` the one it has on the machines.
        costs: of an update.
        num_bytes: of a server's range of the parameters.
        cores: of the servers for which some were allocated, by name.
        busy: by place, to which updates are added: their number, their seconds, and those of them that were injected.
        place: of the server.
    """

    task: str
    void: bool

    def __init__(
        self,
        work: TaskWork,
        clock: Clock,
        task: str,
        there: str,
        costs: Costs,
        num_bytes: int,
        cores: dict[str, float],
        busy: list[list[float]],
        place: int,
    ) -> None: ...
    def put(self, order: Callable[[Then], object]) -> None:
        """An order has reached the task, which calls its argument at the end."""

def order_updates(queues: list[Queue], at_s: float, num_grads: int, disturb: Disturb, sent_s: float) -> None:
    """An update on every server, which reaches it at ``at_s``; ``disturb(task, sent_s)``: what is injected into it."""

class Chained(Parts):
    """One Compute in progress, stage by stage (``stages.h``); it is called ``Iteration`` at run time."""

    receiving: int = ...
    """Messages with parameters that are on their way, and since when there are any."""
    receiving_since_s: float = ...
    computed_s: float = ...
    """When computing had ended; the time from then until the gradient is there was injected."""
    updating_s: float = ...
    """Seconds of updates that its worker, a replica on a host, has made after the order; a part of the pull."""

    @property
    def stage(self) -> Stage: ...
    @property
    def sent_s(self) -> float: ...
    @property
    def factor(self) -> float:
        """By which its jitter makes computing longer."""

    @property
    def amount(self) -> float:
        """Of what its worker does in this stage."""

    def go(self, stage: Stage) -> None:
        """Enter a stage; raises ``ValueError`` for one that may not follow."""

    def received(self) -> None:
        """A part of the parameters is there."""

    def came(self) -> None:
        """A message with a part of the parameters is there."""

    def delay(self) -> None:
        """Its device is done; what is injected follows."""

    def taken(self) -> None:
        """A part of the gradient has been taken."""

class Chain:
    """Iterations of workers with the servers of these queues."""

    tell: Callable[[GradientArrived], None] | None
    loop: Any
    """A capsule of a loop that decides; None: Python does."""

    def __init__(
        self,
        *,
        work: TaskWork,
        clock: Clock,
        costs: Costs,
        queues: list[Queue],
        names: dict[int, str],
        jitter: dict[int, Jitter],
        messages: dict[int, Jitter],
        profiles: dict[int, DeviceProfile | None],
        cores: dict[int, float],
        idle_since_s: dict[int, float],
        under_way: dict[int, Parts],
        ended: Callable[[Parts, float], object],
        timings: type[Timings],
        arrived: type[GradientArrived],
        model_bytes: float,
        copy_s: float,
        uses_cores: float,
        shares_memory: bool,
        detours: dict[str, Detour],
    ) -> None: ...
    def begin(
        self,
        order: ComputeOrder,
        result: Result,
        worker: int,
        samples: int,
        accum: int,
        delay_s: float,
        slowdown_frac: float,
        sent_s: float,
        /,
    ) -> None:
        """The order of an iteration leaves the coordinator at ``sent_s``."""

    def join(self, result: Result) -> Any:
        """A capsule for a loop that decides; its gradients have this result."""
