"""Nobody gets in without the secret, in either direction."""

from __future__ import annotations

import os
import signal
import socket
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from runtime.live.joining.shared_folder import OWNER, SharedFolder, remove_left
from runtime.live.transport.auth import (
    HELLO_BYTES,
    NONCE_BYTES,
    PROOF_BYTES,
    ROLES,
    AuthError,
    Identity,
    call,
    check_hello,
    hello,
    receive_exactly,
)

SECRET, OTHER = bytes(range(32)), bytes(32)
NONCE_S, NONCE_C = bytes([1]) * NONCE_BYTES, bytes([2]) * NONCE_BYTES
WHO = Identity("worker", 3, incarnation=2, generation=5)
WORD = st.integers(0, 2**32 - 1)


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        ours.settimeout(10)
        theirs.settimeout(10)
        yield ours, theirs


def serve(sock: socket.socket, secret: bytes) -> Identity:
    """A server's half of the handshake."""
    nonce = os.urandom(NONCE_BYTES)
    sock.sendall(nonce)
    identity, proof = check_hello(secret, receive_exactly(sock, HELLO_BYTES), nonce)
    sock.sendall(proof)
    return identity


@given(role=st.sampled_from(ROLES), number=WORD, incarnation=WORD, generation=WORD)
def test_who_calls_arrives_as_it_was_said(role: str, number: int, incarnation: int, generation: int) -> None:
    who = Identity(role, number, incarnation, generation)
    message = hello(SECRET, who, NONCE_S, NONCE_C)
    assert len(message) == HELLO_BYTES
    assert check_hello(SECRET, message, NONCE_S)[0] == who


def test_a_caller_with_another_secret_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    def refuse() -> None:
        with pair[0], pytest.raises(AuthError, match="wrong secret"):
            serve(pair[0], SECRET)

    with ThreadPoolExecutor(1) as pool:
        served = pool.submit(refuse)
        with pytest.raises(ConnectionError):
            call(pair[1], OTHER, WHO)
        served.result()


def test_a_server_that_does_not_know_the_secret_is_refused(pair: tuple[socket.socket, socket.socket]) -> None:
    """It could send back what it got: the two proofs differ."""

    def echo() -> None:
        pair[0].sendall(NONCE_S)
        pair[0].sendall(receive_exactly(pair[0], HELLO_BYTES)[-PROOF_BYTES:])

    with ThreadPoolExecutor(1) as pool:
        pool.submit(echo)
        with pytest.raises(AuthError, match="does not know"):
            call(pair[1], SECRET, WHO)


@pytest.mark.parametrize("position", range(HELLO_BYTES))
def test_every_byte_counts(position: int) -> None:
    message = bytearray(hello(SECRET, WHO, NONCE_S, NONCE_C))
    message[position] ^= 1
    with pytest.raises(AuthError):
        check_hello(SECRET, bytes(message), NONCE_S)


@given(st.binary(max_size=2 * HELLO_BYTES))
def test_garbage_is_refused(message: bytes) -> None:
    with pytest.raises(AuthError):
        check_hello(SECRET, message, NONCE_S)


def test_neither_a_recorded_hello_nor_the_secret_can_be_read_from_what_travels() -> None:
    with pytest.raises(AuthError):
        check_hello(SECRET, hello(SECRET, WHO, NONCE_S, NONCE_C), NONCE_C)
    message = hello(SECRET, WHO, NONCE_S, NONCE_C)
    _, proof = check_hello(SECRET, message, NONCE_S)
    assert all(SECRET[start : start + 8] not in message + proof for start in range(24))


STORED = ("00000003-server0.ckpt", "00000003-server11.ckpt", ".00000004-server0.ckpt.a1b2", "groups/1-0.0-1.0")


def fill(folder: Path, *names: str) -> None:
    for name in names or STORED:
        (folder / name).parent.mkdir(exist_ok=True)
        (folder / name).write_text("x")


@pytest.fixture
def killed(tmp_path: Path) -> Path:
    """The folder of a process that was killed while it had stored all kinds of things."""
    reading, writing = os.pipe()
    if (pid := os.fork()) == 0:
        folder = SharedFolder(tmp_path)
        fill(folder.path)
        os.write(writing, str(folder.path).encode())
        signal.pause()
    path = Path(os.read(reading, 4096).decode())
    os.kill(pid, signal.SIGKILL)
    os.waitpid(pid, 0)
    os.close(reading)
    os.close(writing)
    return path


def test_a_run_removes_its_own(tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path)
    fill(folder.path)
    folder.remove()
    assert list(tmp_path.iterdir()) == []


def test_what_a_killed_run_has_left_is_removed_by_its_agents(killed: Path) -> None:
    remove_left(killed)
    assert not killed.exists()
    remove_left(killed)  # by the second agent


def test_what_a_killed_run_has_left_is_removed_by_the_next(killed: Path, tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path)
    assert list(tmp_path.iterdir()) == [folder.path]
    folder.remove()


def test_the_folder_of_a_living_run_stays(tmp_path: Path) -> None:
    folder = SharedFolder(tmp_path)
    fill(folder.path)
    remove_left(folder.path)
    other = SharedFolder(tmp_path)
    assert all((folder.path / name).exists() for name in STORED)
    other.remove()
    folder.remove()


def of_another_machine(folder: Path) -> None:
    (folder / OWNER).write_text("another boot")


def without_owner(folder: Path) -> None:
    (folder / OWNER).unlink()


def of_a_link(folder: Path) -> None:
    (folder / OWNER).rename(folder / "elsewhere")
    (folder / OWNER).symlink_to("elsewhere")


@pytest.mark.parametrize("change", [of_another_machine, without_owner, of_a_link])
def test_a_folder_whose_run_may_live_stays(change: Callable[[Path], None], killed: Path) -> None:
    change(killed)
    remove_left(killed)
    SharedFolder(killed.parent).remove()
    assert all((killed / name).exists() for name in STORED)


def test_nothing_goes_that_no_run_stores(killed: Path, tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    outside.mkdir()
    fill(outside, "mine", "00000001-server0.ckpt")
    fill(killed, "best.ckpt")
    for path in (killed / "groups").iterdir():
        path.unlink()
    (killed / "groups").rmdir()
    (killed / "groups").symlink_to(outside)
    remove_left(killed)
    assert sorted(path.name for path in outside.iterdir()) == ["00000001-server0.ckpt", "mine"]
    assert (killed / "best.ckpt").exists()
    link = tmp_path / "stragglab-link"
    link.symlink_to(killed)
    remove_left(link)
    assert (killed / "best.ckpt").exists()
