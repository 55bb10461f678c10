"""The tasks of a live run and what is known of each (pure)."""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from runtime.errors import NO_SPACE
from runtime.live.transport.address import Address
from runtime.live.transport.task_spec import Place

Key = tuple[str, int]

BESIDE = ("evaluator", "scorer")
"""Tasks that reach the servers beside the emulated network."""
MAX_FUTILE = 3
"""Deaths in a row of a task that had done nothing yet, after which starting it again is given up (a crash loop)."""


class Task(msgspec.Struct, kw_only=True):
    """One task of a run."""

    role: str
    id: int
    incarnation: int = 0
    pid: int = 0
    state: str = "launching"
    """``launching`` -> ``ready`` (built) -> ``attached`` (connected to all servers); ``left`` for good;
    ``pending``: the strategy wants it elsewhere, and there is no place yet."""
    heard_s: float = 0.0
    connected: bool = False
    address: Address | None = None
    side: Address | None = None
    """Where who is beside the network reaches a server, if not at ``address``."""
    generation: int = -1
    useful: bool = False
    """This incarnation has done something: a worker has delivered a gradient, others were ready for work."""
    futile: int = 0
    """Incarnations in a row that died before they were useful."""
    place: Place | None = None
    """Where it was moved to."""
    holders: set[str] = set()
    """Who has killed it and does not want it started yet: ``plan``, ``scheduler``."""

    @property
    def held(self) -> bool:
        """It is not to be started yet."""
        return bool(self.holders)

    @property
    def key(self) -> Key:
        """Role and id."""
        return self.role, self.id

    @property
    def name(self) -> str:
        """For people."""
        return self.role if self.role in BESIDE else f"{self.role} {self.id}"

    def expects(self, incarnation: int) -> bool:
        """Whether something that this incarnation says still counts."""
        return incarnation == self.incarnation and self.state != "left"

    def built(self, address: Address | None, side: Address | None) -> None:
        """It can be reached, and waits for its part."""
        self.state, self.address, self.side = "ready", address, side
        self.useful = self.role != "worker"

    def next_incarnation(self, now: float) -> None:
        """Start over."""
        self.futile = 0 if self.useful else self.futile + 1
        self.incarnation += 1
        self.useful = False
        self.state, self.pid, self.connected, self.address, self.heard_s = "launching", 0, False, None, now


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
