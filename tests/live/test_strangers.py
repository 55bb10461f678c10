"""Unauthenticated peers at the ports of a running job, and what a run shows of itself to the rest of the machine."""

from __future__ import annotations

import base64
import socket
import struct
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path

import pytest

from runtime.live.transport.address import Address, connect
from runtime.live.transport.auth import HELLO_BYTES, NONCE_BYTES, Identity, call, hello
from tests.support.invariants import problems
from tests.support.leaks import Start, listening_of
from tests.support.runs import LEDGER, SECRET, Run, command_line, processes_of, until

pytestmark = pytest.mark.live

ENDLESS = (*LEDGER, "cluster.device={base_s: 0.01}", "strategy=asp", "workload.epochs=null")


def addresses(run: Run) -> list[Address]:
    """Where the coordinator and the servers listen."""
    found = []
    for pid in processes_of(run.run_dir):
        for where in listening_of(pid):
            family, _, name = where.partition(" ")
            if family == "unix":
                found.append(Address(transport="shm", name=name.removeprefix("@")))
            else:
                host, _, port = name.rpartition(":")
                found.append(Address(transport="tcp", host=host, port=int(port)))
    return found


Attack = Callable[[list[Address], ExitStack], None]
NAME = Identity("worker", 1, incarnation=0)
"""Of a worker that has been restarted since."""


def dial(address: Address) -> socket.socket:
    """A connection, as soon as there is room in the listener's queue."""
    sock = connect(address)
    sock.settimeout(5)
    return sock


def assert_turned_away(sock: socket.socket) -> None:
    """The other end hangs up before our own time-out."""
    with suppress(ConnectionError):
        while sock.recv(4096):
            pass


def say(*words: bytes) -> Attack:
    """Unauthenticated peers that send at once and must be refused at once."""

    def unauthenticated(where: list[Address], stack: ExitStack) -> None:
        for address in where:
            sock = stack.enter_context(dial(address))
            for word in words:
                sock.sendall(word)
            assert_turned_away(sock)

    return unauthenticated


def call_with(secret: bytes, identity: Identity) -> Attack:
    """Callers who speak the protocol."""

    def callers(where: list[Address], stack: ExitStack) -> None:
        for address in where:
            sock = stack.enter_context(dial(address))
            with pytest.raises(ConnectionError):
                call(sock, secret, identity)

    return callers


def hundred_connections(where: list[Address], stack: ExitStack) -> None:
    """None of them says anything."""
    for address in where:
        for _ in range(100):
            stack.enter_context(dial(address))


def slow_loris(where: list[Address], stack: ExitStack) -> None:
    """A byte now and then; turned away all the same."""
    lines = [stack.enter_context(dial(address)) for address in where]
    deadline = time.monotonic() + 20
    while lines and time.monotonic() < deadline:
        for sock in list(lines):
            try:
                sock.sendall(b"x")
            except ConnectionError:
                lines.remove(sock)
        time.sleep(0.2)
    assert not lines


def reset(where: list[Address], stack: ExitStack) -> None:
    """Gone before anybody has looked."""
    for address in where:
        for _ in range(200):
            with dial(address) as sock:
                sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))


ATTACKS = {
    "random bytes": say(bytes(i * 37 % 256 for i in range(4096))),
    "a request for a web page": say(b"GET / HTTP/1.1\r\nHost: localhost\r\nX-Padding: " + b"x" * 128 + b"\r\n\r\n"),
    "lengths without end": say(b"\xff" * HELLO_BYTES),
    "a proof of another connection": say(hello(SECRET, NAME, bytes(NONCE_BYTES), bytes(NONCE_BYTES))),
    "a wrong secret": call_with(bytes(32), Identity("worker", 1, incarnation=1)),
    "an old incarnation": call_with(SECRET, NAME),
    "a second agent": call_with(SECRET, Identity("agent", 0)),
    "silence": hundred_connections,
    "a slow loris": slow_loris,
    "a port scan": reset,
}


def attack(run: Run, *attacks: Attack) -> None:
    """The job continues meanwhile and afterwards."""
    where = addresses(run)
    for how in attacks:
        with ExitStack() as stack:
            how(where, stack)
            run.await_progress(40)
    run.await_progress(40)
    assert len(addresses(run)) == len(where)


@contextmanager
def job(start: Start, *more: str, deaths: int = 1) -> Iterator[Run]:
    """A job in its second incarnation of worker 1; nobody may die but by our own hand."""
    run = start("run", *ENDLESS, *more, known_secret=True)
    run.await_training(5)
    assert run.unregister(("worker", 1))
    run.await_events("Joined")
    yield run
    run.interrupt()
    assert [event["reason"] for event in run.events("Lost")] == ["killed by signal 9"] * deaths
    assert not run.events("ServerLost")
    assert not run.notes("Fenced")
    assert problems(run.lines()) == []


@pytest.mark.parametrize("transport", ["tcp", pytest.param("shm", marks=pytest.mark.long)])
def test_strangers_neither_harm_nor_halt(start: Start, transport: str) -> None:
    with job(start, f"topology.transport={transport}") as run:
        assert_shows_nothing(run)
        attack(run, *ATTACKS.values())
    written = [path.read_bytes() for path in run.run_dir.rglob("*") if path.is_file()]
    assert not any(SECRET in data or SECRET.hex().encode() in data for data in written)


@pytest.mark.long(like="test_strangers_neither_harm_nor_halt")
def test_a_full_house_keeps_nobody_of_ours_out(start: Start) -> None:
    """While unauthenticated peers hold as many connections as they get, a worker dies and returns."""
    with job(start, deaths=2) as run, ExitStack() as stack:
        hundred_connections(addresses(run), stack)
        assert run.unregister(("worker", 0))
        run.await_events("Joined", 2)
        run.await_progress(40)


def shows(pid: int, secret: bytes) -> bool:
    """Whether the command line or the environment of a process holds the secret in any usual form."""
    text = Path(f"/proc/{pid}/cmdline").read_bytes() + Path(f"/proc/{pid}/environ").read_bytes()
    forms = (
        secret,
        secret.hex().encode(),
        base64.b64encode(secret),
        base64.urlsafe_b64encode(secret),
        repr(secret).encode(),
    )
    return any(form.rstrip(b"=").lower() in text.lower() for form in forms)


def assert_shows_nothing(run: Run) -> None:
    """It listens on loopback only, and the secret is not to be seen."""
    where = addresses(run)
    assert len(where) == 3, "the coordinator and two servers"
    assert all(address.host == "127.0.0.1" or address.name.startswith("stragglab-") for address in where)
    pids = processes_of(run.run_dir)
    assert len(pids) == len(run.chain) + 1 + 2 + 4 + 1
    assert not any(shows(pid, SECRET) for pid in pids)


@pytest.mark.parametrize("form", [SECRET.decode(), SECRET.hex(), base64.b64encode(SECRET).decode()])
def test_a_shown_secret_is_caught(form: str) -> None:
    for words, env in (([form], {}), ([], {"KEY": form})):
        with subprocess.Popen([sys.executable, "-c", "input()", *words], env=env, stdin=subprocess.PIPE) as process:
            until(lambda: b"python" in command_line(process.pid), "its command line")
            assert shows(process.pid, SECRET)
            assert not shows(process.pid, bytes(32))
            process.communicate(b"\n")
