"""The processes of a live run and the state of each (pure)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from runtime.core.recovery.task import Key, TaskLife
from runtime.errors import DEVICE_FULL, NO_SPACE
from runtime.live.transport.address import Address
from runtime.live.transport.auxiliaries import AUXILIARIES
from runtime.live.transport.task_spec import Place
from strategies.protocol import LossCause

OUTSIDE_NETWORK = tuple(role.name for role in AUXILIARIES.values() if role.outside_network)
"""Roles that reach the servers outside the emulated network."""
MAX_FUTILE = 3
"""Consecutive deaths of a task without useful work after which it is given up (a crash loop)."""

MAX_CROWDED, CROWDED_S = 20, 1.0
"""Successors of a killed task in a row that may find its GPU's memory still in use; seconds from one to the next."""


class Task(msgspec.Struct, kw_only=True):
    """The process of a task's newest incarnation; ``life`` is the recovery's state of it."""

    life: TaskLife
    pid: int = 0
    heard_s: float = 0.0
    connected: bool = False
    address: Address | None = None
    side: Address | None = None
    """The server's address for tasks outside the network, if different from ``address``."""
    place: Place | None = None
    """Where its next incarnation starts; None: on this machine as it is, as the evaluator and the scorer do."""

    @property
    def key(self) -> Key:
        return self.life.key

    @property
    def name(self) -> str:
        return self.life.name

    @property
    def incarnation(self) -> int:
        """The number of the newest incarnation."""
        return self.life.incarnation

    def address_for(self, caller: Task) -> Address | None:
        """The address by which a task calls this one: on the same host directly, without the relay of latency."""
        here, there = self.place, caller.place
        if here is None or there is None or here.known_as is None or here.host != there.host:
            return self.address
        return Address(transport="tcp", host=here.address, port=here.port)

    def forget_process(self) -> None:
        """Whether its process has ended."""
        self.pid, self.connected, self.address, self.side = 0, False, None, None


class Death(NamedTuple):
    """The end of a task's process."""

    reason: str
    cause: LossCause
    retryable: bool = True
    full: bool = False
    """Whether it ended because the disk was full."""
    device_full: bool = False
    """Whether it ended because its device had too little memory left."""


OUT_OF_MEMORY = Death("used more memory than it may", "oom")


def death(exit_code: int, signal: int, last_line: str) -> Death:
    """The death in an exit. A kill from outside is retryable, an error of the task's own code is not."""
    if signal:
        return Death(f"killed by signal {signal}", "killed")
    if exit_code:
        if exit_code == DEVICE_FULL:
            return Death(last_line or "its device is out of memory", "oom", retryable=False, device_full=True)
        full = exit_code == NO_SPACE  # its log may have been the first to find the disk full
        words = "no room left on the disk; free some space and run again" if full else f"exit code {exit_code}"
        return Death(last_line or words, "crashed", retryable=False, full=full)
    return Death("exited", "crashed")
