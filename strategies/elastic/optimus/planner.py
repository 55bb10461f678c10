"""Optimus as the planner of a strategy: it measures sizes, fits their speed, and adds what saves most (pure)."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import ClassVar, Literal, NamedTuple, final

import msgspec

from strategies.elastic.optimus.remaining import Remaining
from strategies.elastic.optimus.speed import Measured, SpeedModel, Speedometer, first_sizes, fit_speed
from strategies.parts.hooks import State
from strategies.parts.scaling.changes import Change, Decision, Resize
from strategies.parts.scaling.usage import Given
from strategies.protocol import (
    AnyEvent,
    Arrived,
    Grad,
    Joined,
    Lost,
    NodeId,
    Restored,
    ServerLost,
    Started,
)

Rate = Callable[[int, int], float]
"""Steps per second of (servers, workers)."""


class Increments(msgspec.Struct, frozen=True, kw_only=True):
    """The nodes that are added at a time, and the cores that they take.

    Attributes:
        cores_total: of all workers and servers together.
        server_cores: of one server.
        worker_cores: of one worker.
        servers: added at a time; 1 in Optimus, 2 for Wide & Deep in DLRover's comparison.
        workers: added at a time; 1 in Optimus, 4 for Wide & Deep in DLRover's comparison.
    """

    cores_total: int
    server_cores: int
    worker_cores: int
    servers: int = 1
    workers: int = 1

    def __post_init__(self) -> None:
        if self.server_cores + self.worker_cores > self.cores_total:
            raise ValueError(
                f"cores_total={self.cores_total}: one worker and one server need "
                f"{self.server_cores + self.worker_cores}"
            )

    def cores(self, servers: int, workers: int) -> int:
        """Cores of so many servers and workers together."""
        return servers * self.server_cores + workers * self.worker_cores


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One increment: its role, the size afterwards, and the seconds that each role would have saved per core.

    A gain is None where the increment does not fit.
    """

    role: Literal["server", "worker"]
    servers: int
    workers: int
    gain_server: float | None
    gain_worker: float | None


def next_step(rate: Rate, steps_left: float, servers: int, workers: int, by: Increments) -> Step | None:
    """The increment with the larger gain of those that fit (ties: servers); None: none fits, or none saves time.

    ``gain = (Q / f(now) - Q / f(then)) / cores`` with Q, the steps that are left, and the cores of the whole increment:
    of a job that shares nothing but processors these are the dominant resource.
    """
    now_s = steps_left / rate(servers, workers)

    def gain(more_servers: int, more_workers: int) -> float | None:
        then = servers + more_servers, workers + more_workers
        if by.cores(*then) > by.cores_total:
            return None
        return (now_s - steps_left / rate(*then)) / by.cores(more_servers, more_workers)

    of_servers, of_workers = gain(by.servers, 0), gain(0, by.workers)
    best = max(0.0, of_servers or 0.0, of_workers or 0.0)
    if best == 0.0:
        return None
    role: Literal["server", "worker"] = "server" if of_servers == best else "worker"
    if role == "server":
        servers += by.servers
    else:
        workers += by.workers
    return Step(role=role, servers=servers, workers=workers, gain_server=of_servers, gain_worker=of_workers)


class Size(NamedTuple):
    """So many servers and workers."""

    servers: int
    workers: int


@final
class OptimusPlanner:
    """Tries sizes until the speed model of asynchronous training is known, then adds one increment after another.

    A size that was denied, and any that has it in it, is not asked for again. When nothing more helps or fits, the job
    stays as it is, unless it loses nodes.

    Args:
        by: the increments and what they cost.
        speedometer: measures the present size.
        remaining: knows how many updates are left.
        memory_bytes: memory of every node.
        adjust_every_s: seconds from one increment to the next.
        profile: sizes whose speed is known from before the job.
    """

    urgent: ClassVar[bool] = False

    def __init__(
        self,
        by: Increments,
        speedometer: Speedometer,
        remaining: Remaining,
        *,
        memory_bytes: int,
        adjust_every_s: float,
        profile: tuple[Measured, ...] = (),
    ) -> None:
        self.by, self.speedometer, self.remaining = by, speedometer, remaining
        self.memory_bytes, self.adjust_every_s, self.profile = memory_bytes, adjust_every_s, profile

    def start(self, started: Started, given: Mapping[NodeId, Given]) -> None:
        self._rates = {Size(one.servers, one.workers): one.steps_per_s for one in self.profile}
        self._first = _size(given)
        self._target: Size | None = None
        """The size that was decided and is not settled yet."""
        self._denied: set[Size] = set()
        self._ended: set[Size] = set()
        self._t = 0.0
        self._decided_s: float | None = None
        self._model = self._fit()
        self.remaining.start(started)
        self.speedometer.begin(0.0)

    def observe_event(self, event: AnyEvent, given: Mapping[NodeId, Given]) -> None:
        """Losses, and what disturbs a measurement."""
        self._t = event.t
        match event:
            case Arrived(loss=loss):
                self.remaining.observe_loss(loss)
            case Restored(version=version):
                self.remaining.roll_back(version)
                self.speedometer.begin(event.t)
            case Joined() | Lost() | ServerLost():
                self.speedometer.begin(event.t)

    def applied(self, grads: tuple[Grad, ...]) -> None:
        self.remaining.count()
        self.speedometer.count(self._t)

    def end_decision(self, t: float, granted: bool, given: Mapping[NodeId, Given]) -> None:
        """The job has its new size, or keeps the old one."""
        if self._target is not None and not granted:
            self._denied.add(self._target)
        self._target = None
        self.speedometer.begin(t)

    # ---- what is decided ---------------------------------------------------------------------------------------------

    def decide(self, t: float, given: Mapping[NodeId, Given]) -> Decision | None:
        """The next size to try or to grow to, once the present one is measured."""
        size = _size(given)
        if self._target is not None or size in self._ended or not self._is_due(t):
            return None
        rate = self.speedometer.rate(t)
        if rate is None:
            return None
        self._rates[size] = rate
        self._model = self._fit()
        return self._try(t, size) if self._model is None else self._grow(t, size, self._model)

    def _is_due(self, t: float) -> bool:
        """Sizes are tried one after the other; the interval holds for increments only."""
        waits = self._model is not None and self._decided_s is not None
        return not waits or t >= (self._decided_s or 0.0) + self.adjust_every_s

    def _is_denied(self, size: Size) -> bool:
        """Whether the cluster had no room for it, or for a part of it."""
        return any(size.servers >= one.servers and size.workers >= one.workers for one in self._denied)

    def _fit(self) -> SpeedModel | None:
        points = [Measured(servers=p, workers=w, steps_per_s=rate) for (p, w), rate in self._rates.items()]
        try:
            return fit_speed(points)
        except ValueError:  # the sizes do not tell all coefficients yet
            return None

    def _try(self, t: float, size: Size) -> Decision:
        by = self.by
        for one in first_sizes(*self._first, by.servers, by.workers):
            wanted = Size(*one)
            if wanted not in self._rates and not self._is_denied(wanted) and by.cores(*wanted) <= by.cores_total:
                return self._change(t, "try", size, wanted, {})
        return self._stays(t, "try", size, {}, "no other size to measure fits")

    def _grow(self, t: float, size: Size, model: SpeedModel) -> Decision:
        left = self.remaining.updates_left()

        def rate(servers: int, workers: int) -> float:
            """A size that was denied gains nothing."""
            return model.rate(*size) if self._is_denied(Size(servers, workers)) else model.rate(servers, workers)

        # gains are in proportion to the updates that are left: the choice is the same for any number above zero
        step = next_step(rate, 1.0 if left is None else left, *size, self.by)
        numbers = dict(zip(("a0", "a1", "a2", "a3"), model.coefficients, strict=True))
        numbers |= {} if left is None else {"steps_left": left}
        if step is None:
            return self._stays(t, "grow", size, numbers, "no increment fits and saves time")
        gains = {"gain_server": step.gain_server, "gain_worker": step.gain_worker}
        numbers |= {name: gain for name, gain in gains.items() if gain is not None}
        return self._change(t, "grow", size, Size(step.servers, step.workers), numbers)

    def _change(self, t: float, stage: str, size: Size, wanted: Size, numbers: dict[str, float]) -> Decision:
        self._target, self._decided_s = wanted, t
        changes: list[Change] = []
        if wanted.servers != size.servers:
            changes.append(self._resize("server", wanted.servers, self.by.server_cores))
        if wanted.workers != size.workers:
            changes.append(self._resize("worker", wanted.workers, self.by.worker_cores))
        return Decision(
            t=t,
            stage=stage,
            rule=f"{wanted.servers} servers, {wanted.workers} workers",
            changes=tuple(changes),
            numbers={"steps_per_s": self._rates[size], **numbers},
        )

    def _resize(self, role: Literal["worker", "server"], count: int, cores: int) -> Resize:
        return Resize(role=role, count=count, cores=cores, memory_bytes=self.memory_bytes)

    def _stays(self, t: float, stage: str, size: Size, numbers: dict[str, float], why: str) -> Decision:
        self._ended.add(size)
        numbers = {"steps_per_s": self._rates[size], **numbers}
        return Decision(t=t, stage=stage, rule="stays", numbers=numbers, why=why)

    def log_state(self) -> State:
        last = next(reversed(self._rates.values()), 0.0)
        return {"measured_sizes": len(self._rates), "steps_per_s": last}


def _size(given: Mapping[NodeId, Given]) -> Size:
    roles = [node.role for node in given]
    return Size(roles.count("server"), roles.count("worker"))
