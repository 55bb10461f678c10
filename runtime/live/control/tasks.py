"""The processes of a live run and what is known of each (pure)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from runtime.core.recovery.task import Key, TaskLife
from runtime.errors import NO_SPACE
from runtime.live.transport.address import Address
from runtime.live.transport.task_spec import Place

BESIDE = ("evaluator", "scorer")
"""Tasks that reach the servers beside the emulated network."""
MAX_FUTILE = 3
"""Deaths in a row of a task that had done nothing yet, after which starting it again is given up (a crash loop)."""


class Task(msgspec.Struct, kw_only=True):
    """The process of a task's newest incarnation; ``life`` is what the recovery knows of it."""

    life: TaskLife
    pid: int = 0
    heard_s: float = 0.0
    connected: bool = False
    address: Address | None = None
    side: Address | None = None
    """Where who is beside the network reaches a server, if not at ``address``."""
    place: Place | None = None
    """Where it was moved to."""

    @property
    def key(self) -> Key:
        return self.life.key

    @property
    def name(self) -> str:
        return self.life.name

    @property
    def incarnation(self) -> int:
        """The newest."""
        return self.life.incarnation

    def forget_process(self) -> None:
        """It has ended."""
        self.pid, self.connected, self.address, self.side = 0, False, None, None


class Death(NamedTuple):
    """What is known of the end of a task."""

    reason: str
    retryable: bool = True
    full: bool = False
    """There was no room for what it had to write."""


def death(exit_code: int, signal: int, last_line: str) -> Death:
    """Of an exit. Killed from outside is retryable; an error of the task's own code is not."""
    if signal:
        return Death(f"killed by signal {signal}")
    if exit_code:
        full = exit_code == NO_SPACE  # its log may have been the first to lack room
        words = "no room for what it had to write; make room and start again" if full else f"exit code {exit_code}"
        return Death(last_line or words, retryable=False, full=full)
    return Death("exited")
