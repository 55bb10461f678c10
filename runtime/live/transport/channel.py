"""The control channel: length-prefixed messages over one stream socket, blocking or in an event loop."""

from __future__ import annotations

import contextlib
import socket
import threading
from collections.abc import Callable, Iterator

from runtime.live.transport.address import Address, connect
from runtime.live.transport.auth import Identity, call, receive_exactly
from runtime.live.transport.messages import MAX_MESSAGE_BYTES, PREFIX_BYTES, Message, decode, encode
from runtime.live.transport.secured import is_readable

CHUNK_BYTES = 1 << 18
Decode = Callable[[bytes], Message]
"""Raises ``MalformedMessage``, a ``ConnectionError``, for bytes that are not a message of this connection."""


class BlockingChannel:
    """A task's end: one reader; several writers (the task and its heartbeat) are serialised."""

    def __init__(self, address: Address, secret: bytes, identity: Identity) -> None:
        self.sock = connect(address)
        self._lock = threading.Lock()
        call(self.sock, secret, identity)

    def tell(self, message: Message) -> None:
        """Send one message; raises ``ConnectionError`` when the coordinator is gone."""
        self.send(encode(message))

    def send(self, data: bytes) -> None:
        with self._lock:
            try:
                self.sock.sendall(data)
            except BlockingIOError:  # perhaps a part of it: nothing can follow
                raise ConnectionResetError("the coordinator does not read") from None

    def receive(self) -> Message | None:
        """The next message; None when the socket's deadline passed without one."""
        try:
            prefix = self.sock.recv(PREFIX_BYTES, socket.MSG_WAITALL)
        except BlockingIOError:
            return None
        if not prefix:
            raise ConnectionResetError("the coordinator closed the connection")
        try:
            if len(prefix) < PREFIX_BYTES:
                prefix += receive_exactly(self.sock, PREFIX_BYTES - len(prefix))
            return decode(receive_exactly(self.sock, _length(prefix)))
        except BlockingIOError:
            raise ConnectionResetError("the rest of a message does not come") from None

    def is_readable(self) -> bool:
        """Whether a message, or the end of the stream, has arrived."""
        return is_readable(self.sock)


class LoopChannel:
    """The event loop's end: never blocks; data that the socket does not accept waits in ``pending``."""

    def __init__(self, sock: socket.socket, decode: Decode = decode) -> None:
        sock.setblocking(False)
        self.sock, self.decode = sock, decode
        self.pending = bytearray()
        self._received = bytearray()
        self._lock = threading.Lock()

    def send(self, data: bytes) -> bool:
        """Send encoded messages; True if some data must wait for the socket."""
        with self._lock:
            if not self.pending:
                try:
                    sent = self.sock.send(data)
                except BlockingIOError:
                    sent = 0
                if sent == len(data):
                    return False
                data = data[sent:]
            self.pending += data
            return True

    def flush(self) -> bool:
        """Send waiting data; True if some still waits."""
        with self._lock, contextlib.suppress(BlockingIOError):
            while self.pending:
                del self.pending[: self.sock.send(self.pending)]
        return bool(self.pending)

    def receive(self) -> Iterator[Message]:
        """All messages that have arrived; raises ``ConnectionError`` after the last, at the end of the stream."""
        ended = False
        while not ended:
            try:
                chunk = self.sock.recv(CHUNK_BYTES)
            except BlockingIOError:
                break
            ended = not chunk
            self._received += chunk
            if len(chunk) < CHUNK_BYTES:
                break
        yield from self._messages()
        if ended:
            raise ConnectionResetError("closed")

    def _messages(self) -> Iterator[Message]:
        start, data = 0, self._received
        while len(data) - start >= PREFIX_BYTES:
            end = start + PREFIX_BYTES + _length(data[start : start + PREFIX_BYTES])
            if end > len(data):
                break
            body = bytes(data[start + PREFIX_BYTES : end])
            start = end
            yield self.decode(body)
        del data[:start]


def _length(prefix: bytes | bytearray) -> int:
    length = int.from_bytes(prefix, "little")
    if length > MAX_MESSAGE_BYTES:
        raise ConnectionError(f"a control message of {length} bytes is refused")
    return length
