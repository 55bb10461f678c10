"""The interface of machines, of a job's own and of shared ones."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

from runtime.virtual.machines.sites import THREAD_CORES

Then = Callable[[], object]
Work = Callable[[Then], object]
"""Work that calls its argument at the end."""
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
    """The way between the machines of two tasks: nothing if they are one."""

    latency_s: float
    bytes_per_s: float
    """Of payload, while nobody else sends and nothing is disturbed; may be infinite."""


def one_thread(task: str) -> float:
    """Tasks compute in one thread each."""
    return THREAD_CORES
