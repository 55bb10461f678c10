"""What Optimus adds: the increment that saves the most time per core (pure)."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Literal

import msgspec

from strategies.parts.checks import check_whole

Rate = Callable[[int, int], float]
"""Steps per second of (servers, workers)."""


class Increments(msgspec.Struct, frozen=True, kw_only=True):
    """What is added at a time, and what it takes.

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
        for name in self.__struct_fields__:
            check_whole(name, getattr(self, name), least=1)
        if self.server_cores + self.worker_cores > self.cores_total:
            raise ValueError(
                f"cores_total={self.cores_total}: one worker and one server need "
                f"{self.server_cores + self.worker_cores}"
            )

    def cores(self, servers: int, workers: int) -> int:
        """Of so many servers and workers together."""
        return servers * self.server_cores + workers * self.worker_cores


class Step(msgspec.Struct, frozen=True, kw_only=True):
    """One increment: of which role, what there is afterwards, and the seconds that each role would have saved per core.

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


def growth(rate: Rate, steps_left: float, by: Increments, servers: int = 1, workers: int = 1) -> Iterator[Step]:
    """All increments from here, until nothing more fits or helps."""
    while (step := next_step(rate, steps_left, servers, workers, by)) is not None:
        yield step
        servers, workers = step.servers, step.workers
