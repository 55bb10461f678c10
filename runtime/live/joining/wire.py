"""Messages between an agent that joins and the driver: msgpack, validated when decoded; no pickle.

::

    agent -> driver   Enlist            who I am: facts of the machine
    driver -> agent   Refused | Prepare why not; or: prepare the data of this task
    agent -> driver   Prepared          number of samples, and their fingerprint
    driver -> agent   Refused | Reach   why not; or, when all are there: connect to the others
    agent -> driver   Reached           who is not reached from here
    driver -> agent   Refused | Begin   why not; or: start the tasks' agent with this job
    both              Alive             every ``heartbeat_s`` from Begin on
    driver -> agent   Finish            end all that still runs
    agent -> driver   Piece, Ended      what the tasks printed and wrote; then: nothing of it is left

Both sides authenticate with the run's token first (``transport/auth.py``), and derive the job's own secret from it,
which is never sent.
"""

from __future__ import annotations

import hmac
from typing import Any

import msgspec

from runtime.live.joining.facts import Facts
from runtime.live.transport import messages
from runtime.live.transport.messages import Message

PROTOCOL = 3
"""Raised with every change of these messages."""
PIECE_BYTES = 1 << 20
"""Most bytes of a file in one message."""


class Enlist(Message, frozen=True, kw_only=True, tag=True):
    """An agent asks to take part."""

    facts: Facts
    protocol: int = PROTOCOL
    start: int = 0
    """The number under which the driver's launcher has started it; 0: it has not."""


class Refused(Message, frozen=True, kw_only=True, tag=True):
    """The agent cannot take part, or is not needed: one line for its user."""

    reason: str
    later: bool = False
    """Whether it may be needed later."""


class Prepare(Message, frozen=True, kw_only=True, tag=True):
    """Prepare the data of this task; ``shared``: a directory that must be there, too (empty: none)."""

    task: dict[str, Any]
    shared: str = ""


class Prepared(Message, frozen=True, kw_only=True, tag=True):
    """The data as they are there; ``problem``: why there are none."""

    num_samples: int = 0
    sha256: str = ""
    problem: str = ""
    port: int = 0
    """At which others can try to reach this machine's address until the job begins; 0: at none."""


class Door(msgspec.Struct, frozen=True, kw_only=True):
    """Where somebody listens; ``name``: whose it is, for messages."""

    name: str
    host: str
    port: int


class Reach(Message, frozen=True, kw_only=True, tag=True):
    """Connect to each of these, as tasks will."""

    doors: tuple[Door, ...]
    number: int
    """Of the question; the answer repeats it."""


class Reached(Message, frozen=True, kw_only=True, tag=True):
    """``problem``: which door is not reached from there, and why; empty if all are."""

    number: int
    problem: str = ""


class Begin(Message, frozen=True, kw_only=True, tag=True):
    """Start the agent of the tasks. ``spec``: the encoded task description without the job's secret."""

    spec: bytes
    salt: bytes
    """The job's secret is derived from it and the token."""
    lease_s: float
    """The silence of the driver after which the agent ends all tasks."""
    heartbeat_s: float


class Alive(Message, frozen=True, kw_only=True, tag=True):
    """The sender is there."""


class Finish(Message, frozen=True, kw_only=True, tag=True):
    """End all processes that still run, then send their files."""


class Piece(Message, frozen=True, kw_only=True, tag=True):
    """The next bytes of a file that the tasks wrote: a log, or the final parameters."""

    name: str
    data: bytes


class Ended(Message, frozen=True, kw_only=True, tag=True):
    """The tasks' agent has ended, and all that it left has been sent."""

    reason: str


AnyJoining = Enlist | Refused | Prepare | Prepared | Reach | Reached | Begin | Alive | Finish | Piece | Ended

_decoder = msgspec.msgpack.Decoder(AnyJoining)


def decode(body: bytes | memoryview) -> Message:
    """The message in these bytes; raises ``MalformedMessage`` if they are not one."""
    return messages.decode(body, _decoder)


def secret_of(token: bytes, salt: bytes) -> bytes:
    """The secret of one job: HMAC-SHA256 (RFC 2104) of its salt under the token."""
    return hmac.digest(token, b"job" + salt, "sha256")
