"""TLS 1.3 on stream sockets that stay what they are to their users: blocking or not, flags, deadlines, gathered writes.

The standard library's ``SSLSocket`` knows no flags and no ``sendmsg``, and keeps bytes that ``select`` cannot see. Here
records are made and opened in memory, and the socket below is an ordinary one. A read returns less than was asked for
only when nothing of it waits here, as loops around ``select`` suppose; a caller that reads one message and then asks
the selector must ask :func:`holds_data` before.

Nobody signs certificates: both ends authenticate by HMAC with the run's token and the certificate that they see
(``auth.py``; RFC 5929 calls it an end-point channel binding). A man in the middle has another certificate.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import select
import shutil
import socket
import ssl
import subprocess
import threading
from collections.abc import Iterable
from functools import lru_cache
from typing import Any, final

from runtime.errors import ConfigError

PIECE_BYTES = 1 << 17
"""Most bytes that are encrypted before they are sent, and most that are received before they are decrypted."""
OPENSSL = ("openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")
TO_PIPE = ("-keyout", "/dev/stdout", "-out", "/dev/stdout", "-subj", "/CN=stragglab", "-days", "30")
OPENSSL_S = 30.0


def new_certificate() -> str:
    """A private key and a certificate in PEM, of one run; raises :class:`ConfigError` in one line."""
    if shutil.which(OPENSSL[0]) is None:
        raise ConfigError("launcher.tls=true: the program openssl makes the run's certificate, and is not installed")
    try:
        done = subprocess.run([*OPENSSL, *TO_PIPE], capture_output=True, text=True, timeout=OPENSSL_S, check=True)
        server_context(done.stdout)
    except (OSError, ValueError, subprocess.SubprocessError) as error:
        raise ConfigError(f"launcher.tls=true: openssl makes no certificate ({error})") from None
    return done.stdout


@lru_cache(maxsize=4)
def server_context(pem: str) -> ssl.SSLContext:
    """The side that listens, with this key and certificate; raises ``ssl.SSLError`` for others than PEM."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.num_tickets = 0  # nobody resumes a session
    descriptor = os.memfd_create("certificate", os.MFD_CLOEXEC)  # the library reads files only
    try:
        os.write(descriptor, pem.encode())
        context.load_cert_chain(f"/proc/self/fd/{descriptor}")
    finally:
        os.close(descriptor)
    return context


@lru_cache(maxsize=1)
def client_context() -> ssl.SSLContext:
    """The side that calls. It accepts any certificate: its owner authenticates afterwards."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_3
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    return context


def fingerprint(pem: str) -> bytes:
    """SHA-256 of the certificate of such a pair."""
    begin = pem.index("-----BEGIN CERTIFICATE-----")
    return hashlib.sha256(ssl.PEM_cert_to_DER_cert(pem[begin:].strip())).digest()


def binding_of(sock: socket.socket) -> bytes:
    """The fingerprint of the certificate that both ends of a connection see; nothing without TLS."""
    return sock.binding if isinstance(sock, Secured) else b""


def holds_data(sock: socket.socket) -> bool:
    """Whether a read would return something at once that a selector does not see."""
    return isinstance(sock, Secured) and sock.holds_data()


def is_readable(sock: socket.socket) -> bool:
    """Whether a read would not block now, on a socket of either kind."""
    return holds_data(sock) or bool(select.select([sock], [], [], 0)[0])


@final
class SecuredListener(socket.socket):
    """A listening socket whose connections are secured; they shake hands as they are read."""

    def __init__(self, sock: socket.socket, pem: str) -> None:
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self._context, self._binding = server_context(pem), fingerprint(pem)

    def accept(self) -> tuple[Secured, Any]:
        """The next connection, and the caller's address."""
        sock, address = super().accept()
        secured = Secured(sock, self._context, server_side=True)
        secured.binding = self._binding
        return secured, address


@final
class Secured(socket.socket):
    """Takes a connected socket over. One thread may read while another writes."""

    def __init__(self, sock: socket.socket, context: ssl.SSLContext, *, server_side: bool) -> None:
        super().__init__(sock.family, sock.type, sock.proto, fileno=sock.detach())
        self._incoming, self._outgoing = ssl.MemoryBIO(), ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._incoming, self._outgoing, server_side=server_side)
        self.binding = b""
        self._greeted = self._ended = False
        self._early = b""
        """Bytes that were written before the handshake was complete."""
        self._unsent = memoryview(b"")
        """Records that the socket has not accepted yet ..."""
        self._owed = 0
        """... and how many bytes of their writer are in them, which it will write again."""
        self._peeked = b""
        self._received = bytearray(PIECE_BYTES)
        self._library, self._writer = threading.Lock(), threading.Lock()

    # ---- the handshake -----------------------------------------------------------------------------------------------

    def shake_hands(self) -> None:
        """The side that calls, blocking; raises ``OSError`` if the other one does not speak TLS."""
        self._greet(0)
        certificate = self._tls.getpeercert(True)
        self.binding = hashlib.sha256(certificate or b"").digest()

    def _greet(self, flags: int) -> None:
        """As far as it goes without waiting longer than the socket does; raises ``BlockingIOError`` then."""
        while not self._greeted:
            try:
                self._tls.do_handshake()
                self._greeted = True
            except ssl.SSLWantReadError:
                pass
            except ssl.SSLError as error:
                raise _report_broken(error) from None
            self._unsent = memoryview(bytes(self._unsent) + self._outgoing.read())
            self._flush(flags)
            if not self._greeted and not self._fill(flags):
                raise ConnectionResetError("closed before the TLS handshake was over")
        if early := self._early:
            self._early = b""
            self.sendall(early)

    # ---- reading -----------------------------------------------------------------------------------------------------

    def recv_into(self, buffer: Any, nbytes: int = 0, flags: int = 0) -> int:
        """Bytes read; flags: ``MSG_WAITALL``, ``MSG_DONTWAIT``. Raises ``BlockingIOError`` as others do."""
        with memoryview(buffer).cast("B") as view:
            return self._read(view[: nbytes or len(view)], flags)

    def recv(self, bufsize: int, flags: int = 0) -> bytes:
        """As :meth:`recv_into`; with ``MSG_PEEK`` one byte, which the next read returns again."""
        if flags & socket.MSG_PEEK:
            self._peeked = self._peeked or self.recv(1, flags & ~socket.MSG_PEEK)
            return self._peeked
        data = bytearray(bufsize)
        with memoryview(data) as view:
            got = self._read(view, flags)
        return bytes(data[:got])

    def holds_data(self) -> bool:
        """Whether a read would return something although nothing more arrives."""
        if not self._peeked and self._greeted:
            with memoryview(bytearray(1)) as view:
                self._peeked = bytes(view[: self._decrypt(view)])
        return bool(self._peeked)

    def _read(self, view: memoryview, flags: int) -> int:
        self._greet(flags)
        got = len(self._peeked)
        if got:
            view[:got], self._peeked = self._peeked, b""
        while True:
            got += self._decrypt(view[got:])
            if got == len(view) or self._ended or (got and not flags & socket.MSG_WAITALL):
                return got
            try:
                if not self._fill(flags):
                    return got
            except BlockingIOError:
                if got:
                    return got
                raise

    def _decrypt(self, view: memoryview) -> int:
        """Decrypt as much of the received bytes as there is, at most ``len(view)``; returns the number of bytes."""
        done = 0
        with self._library:
            while done < len(view):
                try:
                    got = int(self._tls.read(len(view) - done, view[done:]))
                except ssl.SSLWantReadError:
                    break
                except ssl.SSLEOFError:  # the connection was closed, and nobody said so before
                    got = 0
                except ssl.SSLError as error:
                    raise _report_broken(error) from None
                if not got:
                    self._ended = True
                    break
                done += got
        return done

    def _fill(self, flags: int) -> int:
        """Receive some records; 0 at the end of the stream."""
        got = super().recv_into(self._received, 0, flags & socket.MSG_DONTWAIT)
        with self._library:
            if got:
                with memoryview(self._received) as view:
                    self._incoming.write(view[:got])
            else:
                self._incoming.write_eof()
        return got

    # ---- writing -----------------------------------------------------------------------------------------------------

    def send(self, data: Any, flags: int = 0) -> int:
        """Bytes that the socket below has taken; the caller's next write begins after them."""
        with memoryview(data).cast("B") as view, self._writer:
            if not self._greeted:  # by the side that accepts, which cannot wait: its first words are few
                self._early += bytes(view)
                return len(view)
            return self._write(view, flags)

    def sendall(self, data: Any, flags: int = 0) -> None:
        """All of it; raises ``BlockingIOError`` when the deadline of the socket passes before."""
        with memoryview(data).cast("B") as view:
            done = 0
            while done < len(view):
                done += self.send(view[done:], flags)

    def sendmsg(self, buffers: Iterable[Any], *_: Any, **__: Any) -> int:
        """The first buffers are short headers, which share a packet with the start of the last."""
        *headers, last = buffers
        with memoryview(last).cast("B") as view:
            first = b"".join([*headers, view[:PIECE_BYTES]])
            done = self.send(first)
            if done == len(first) and len(view) > PIECE_BYTES:
                with contextlib.suppress(BlockingIOError):
                    done += self.send(view[PIECE_BYTES:])
        return done

    def _write(self, view: memoryview, flags: int) -> int:
        self._flush(flags)
        done, self._owed = min(self._owed, len(view)), max(0, self._owed - len(view))
        while done < len(view):
            piece = view[done : done + PIECE_BYTES]
            with self._library:
                try:
                    self._tls.write(piece)
                except ssl.SSLError as error:
                    raise _report_broken(error) from None
                self._unsent = memoryview(self._outgoing.read())
            try:
                self._flush(flags)
            except BlockingIOError:
                self._owed = len(piece)
                if done:
                    break
                raise
            done += len(piece)
        return done

    def _flush(self, flags: int) -> None:
        while self._unsent:
            self._unsent = self._unsent[super().send(self._unsent, flags) :]


def _report_broken(error: ssl.SSLError) -> ConnectionResetError:
    return ConnectionResetError(f"TLS: {(error.reason or str(error)).lower().replace('_', ' ')}")
