"""The coordinator's end of the control plane: what comes from a peer that has proved itself may still be nonsense."""

from __future__ import annotations

import errno
from collections import deque
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.live.control.allowed_senders import refuse_foreign
from runtime.live.transport.address import connect
from runtime.live.transport.auth import Identity, call
from runtime.live.transport.channel import PREFIX_BYTES
from runtime.live.transport.hub import Hub
from runtime.live.transport.loop import Loop
from runtime.live.transport.messages import (
    AnyMessage,
    Attached,
    Busy,
    Exited,
    Forked,
    Heartbeat,
    Launch,
    LinkLost,
    MalformedMessage,
    Message,
    Report,
    decode,
    encode,
)
from strategies.protocol import Timings
from tests.unit.live.test_supervisor import World

SECRET = bytes(range(32))
BAD = Identity("worker", 0)
GOOD = Identity("worker", 1)
DEEP = b"\x81\xa1x" + b"\x91" * 100_000 + b"\xc0"
"""A mapping with a list in a list in a list, a hundred thousand times."""
NO_TEXT = b"\x81\xa4type\xa2\xff\xfe"
"""A type whose name is not UTF-8."""
FIELD_NO_TEXT = b"\x83\xa4type\xa7Severed\xaageneration\x01\xa6reason\xa2\xff\xfe"


class Ear:
    """Who listens behind a hub."""

    def __init__(self) -> None:
        self.heard: list[tuple[Identity, Message]] = []
        self.gone: list[tuple[Identity, str]] = []

    def on_message(self, identity: Identity, message: Message) -> None:
        refuse_foreign(identity.role, message)
        self.heard.append((identity, message))

    def on_closed(self, identity: Identity, reason: str) -> None:
        self.gone.append((identity, reason))


class Line:
    """A hub and two workers that have proved themselves."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self.loop, self.ear = Loop(), Ear()
        about = ("shm", 0, "", lambda identity: True, self.ear.on_message, self.ear.on_closed)
        self.hub = Hub(self.loop, SECRET, *about)
        self.bad, self.good = (self.turn_until(pool.submit(self._call, who)) for who in (BAD, GOOD))

    def _call(self, who: Identity) -> Any:
        sock = connect(self.hub.address)
        call(sock, SECRET, who)
        return sock

    def turn_until(self, future: Any) -> Any:
        while not future.done():
            self.loop.turn(0.01)
        return future.result()

    def turn_while_it_stands(self) -> None:
        """Until everything that was sent to the hub has been read."""
        self.good.sendall(encode(Heartbeat()))
        while (GOOD, Heartbeat()) not in self.ear.heard or not self.ear.gone:
            self.loop.turn(0.01)


@contextmanager
def a_line() -> Iterator[Line]:
    with ThreadPoolExecutor(1) as pool:
        line = Line(pool)
        try:
            yield line
        finally:
            for sock in (line.bad, line.good):
                sock.close()
            line.hub.close()
            line.loop.close()


def framed(body: bytes) -> bytes:
    return len(body).to_bytes(PREFIX_BYTES, "little") + body


@pytest.mark.parametrize("body", [b"", b"\xc1", b"\x80", NO_TEXT, FIELD_NO_TEXT, DEEP, b"\xdd\xff\xff\xff\xff"])
def test_what_is_no_message_ends_that_connection_and_no_other(body: bytes) -> None:
    with a_line() as line:
        line.bad.sendall(framed(body))
        line.turn_while_it_stands()
        ((who, reason),) = line.ear.gone
        assert who == BAD
        assert reason.startswith(f"it sent {len(body)} bytes that are not a message")
        assert list(line.hub.peers) == [("worker", 1)]


def test_a_record_without_room_is_no_fault_of_who_spoke() -> None:
    """It went on, one connection after another lost, until nobody was left."""
    with a_line() as line:

        def no_room(identity: Identity, message: Message) -> None:
            raise OSError(errno.ENOSPC, "No space left on device")

        line.hub.on_message = no_room
        line.bad.sendall(encode(Heartbeat()))
        with pytest.raises(OSError, match="No space"):
            deque(line.loop.turn(0.01) for _ in range(1000))
        assert (line.ear.gone, len(line.hub.peers)) == ([], 2)


def test_a_message_that_is_for_others_to_say_ends_it_too() -> None:
    with a_line() as line:
        line.bad.sendall(encode(Busy(version=1, updates=1, busy_s=1.0, worked_s=1.0, injected_s=0.0)))
        line.turn_while_it_stands()
        assert line.ear.gone == [(BAD, "it sent Busy, which is not for the worker to say")]


WHOLE: list[Message] = [
    Heartbeat(),
    Attached(generation=3),
    LinkLost(generation=1, reason="é"),
    Forked(role="worker", id=1, incarnation=0, pid=77),
    Launch(role="worker", id=1, incarnation=0),
    Report(grad_id=1, timings=Timings(compute_s=1.0), loss=1.0, sqr_norm=None, finite=True),
]


@st.composite
def damaged(draw: st.DrawFn) -> bytes:
    """A message with some bytes of it changed, or its end lost."""
    body = bytearray(encode(draw(st.sampled_from(WHOLE)))[PREFIX_BYTES:])
    for _ in range(draw(st.integers(1, 6))):
        body[draw(st.integers(0, len(body) - 1))] = draw(st.integers(0, 255))
    return bytes(body[: draw(st.integers(0, len(body)))])


@given(st.binary(max_size=200) | damaged() | st.integers(1, 5000).map(lambda depth: b"\x81\xa1x" + b"\x91" * depth))
def test_decoding_ends_in_a_message_or_in_one_error(body: bytes) -> None:
    try:
        message = decode(body)
    except MalformedMessage:
        return
    assert isinstance(message, AnyMessage)


@pytest.mark.parametrize("kind", [Forked, Exited])
def test_an_agent_that_speaks_of_a_task_that_there_is_not_is_not_understood(kind: type[msgspec.Struct]) -> None:
    world, about = World(), {"role": "worker", "id": 77, "incarnation": 0, "pid": 1}
    more = {"exit_code": 0, "signal": 0, "last_line": ""} if kind is Exited else {}
    with pytest.raises(MalformedMessage, match="a task that there is not"):
        world.tell(("agent", 0), kind(**about, **more))  # type: ignore[arg-type]
