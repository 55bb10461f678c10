"""Nobody gets in without the secret, in either direction."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import pytest
from hypothesis import given
from hypothesis import strategies as st

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


def test_a_recorded_hello_is_worth_nothing() -> None:
    with pytest.raises(AuthError):
        check_hello(SECRET, hello(SECRET, WHO, NONCE_S, NONCE_C), NONCE_C)


def test_the_secret_does_not_travel() -> None:
    message = hello(SECRET, WHO, NONCE_S, NONCE_C)
    _, proof = check_hello(SECRET, message, NONCE_S)
    assert all(SECRET[start : start + 8] not in message + proof for start in range(24))
