"""Addresses of tasks, and the options of sockets.

``tcp`` binds loopback (or the address of an emulated host), ``shm`` an abstract unix name: neither leaves a file.
``unix`` is a path below a directory that ends with the run: abstract names and loopback are private to a network, and
emulated hosts each have a network of their own.
"""

from __future__ import annotations

import contextlib
import os
import secrets
import socket
import struct
from pathlib import Path

import msgspec

from runtime.live.transport.secured import Secured, SecuredListener, client_context

LOOPBACK = "127.0.0.1"
BACKLOG = 128
SOCKET_DEADLINE_S = 60.0
"""Second line of defence behind heartbeats: no blocking call waits longer than this without a check."""
SO_MAX_PACING_RATE = 47
"""Linux's number of a socket option that Python does not name; bytes per second as 64 bits."""
UNPACED = (1 << 64) - 1


class Address(msgspec.Struct, frozen=True, kw_only=True):
    """``transport`` is ``tcp`` (host, port), ``shm`` (an abstract unix ``name`` plus shared memory) or ``unix``."""

    transport: str
    host: str = ""
    port: int = 0
    name: str = ""
    tls: bool = False
    """Whether who calls there speaks TLS."""

    @property
    def unix_name(self) -> str:
        """The kernel's name of a unix socket; empty for TCP."""
        return "\0" + self.name if self.transport == "shm" else self.name


def listen(
    transport: str, host: str = LOOPBACK, port: int = 0, path: str = "", certificate: str = ""
) -> tuple[socket.socket, Address]:
    """A non-blocking listening socket and its address. ``certificate`` (and its key): TCP is secured with it."""
    if transport == "shm":
        sock, address = _listen_unix(Address(transport="shm", name=f"stragglab-{secrets.token_hex(8)}"))
    elif transport == "unix":
        Path(path).unlink(missing_ok=True)  # of an incarnation that was killed
        sock, address = _listen_unix(Address(transport="unix", name=path))
    else:
        sock = socket.socket(socket.AF_INET, socket.SOCK_STREAM)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        tune(sock)  # accepted sockets inherit it, and with it the windows that are negotiated at connect
        sock.bind((host, port))
        address = Address(transport="tcp", host=host, port=sock.getsockname()[1], tls=bool(certificate))
        sock = SecuredListener(sock, certificate) if certificate else sock
    sock.listen(BACKLOG)
    sock.setblocking(False)
    return sock, address


def _listen_unix(address: Address) -> tuple[socket.socket, Address]:
    sock = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    sock.bind(address.unix_name)
    return sock, address


def connect(address: Address) -> socket.socket:
    """A blocking connection whose calls time out after ``SOCKET_DEADLINE_S``."""
    family = socket.AF_INET if address.transport == "tcp" else socket.AF_UNIX
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        tune(sock)
        sock.connect(address.unix_name or (address.host, address.port))
        set_deadline(sock, SOCKET_DEADLINE_S)
        return secure(sock) if address.tls else sock
    except BaseException:
        sock.close()
        raise


def secure(sock: socket.socket) -> Secured:
    """TLS on a blocking connection from now on, as the side that calls; raises ``OSError``."""
    secured = Secured(sock, client_context(), server_side=False)
    try:
        secured.shake_hands()
    except BaseException:
        secured.close()
        raise
    return secured


def set_deadline(sock: socket.socket, seconds: float) -> None:
    """Kernel time-outs on a blocking socket: unlike ``settimeout`` they cost no poll per call."""
    whole = int(seconds)
    timeval = whole.to_bytes(8, "little") + int((seconds - whole) * 1e6).to_bytes(8, "little")
    for option in (socket.SO_RCVTIMEO, socket.SO_SNDTIMEO):
        sock.setsockopt(socket.SOL_SOCKET, option, timeval)


def tune(sock: socket.socket) -> None:
    """Disable Nagle; use cubic instead of another default (bbr was measured 1.6x slower on loopback)."""
    if sock.family != socket.AF_INET:
        return
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    with contextlib.suppress(OSError):
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, b"cubic")


def pace(sock: socket.socket, bytes_per_s: int | None) -> int | None:
    """Limit the rate at which a connection sends; returns the limit that the kernel has, None: no limit.

    The kernel spaces the segments itself (any user may ask for that), on TCP only.
    """
    if sock.family != socket.AF_INET:
        return None
    sock.setsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, struct.pack("=Q", bytes_per_s or UNPACED))
    held = struct.unpack("=Q", sock.getsockopt(socket.SOL_SOCKET, SO_MAX_PACING_RATE, 8))[0]
    return None if held == UNPACED else int(held)


def least(*rates: int | None) -> int | None:
    """The smallest of some limits; None is none."""
    return min((rate for rate in rates if rate is not None), default=None)


def congestion_control() -> str:
    """The congestion control that a tuned socket gets here."""
    with socket.socket(socket.AF_INET, socket.SOCK_STREAM) as sock:
        tune(sock)
        return os.fsdecode(sock.getsockopt(socket.IPPROTO_TCP, socket.TCP_CONGESTION, 16).rstrip(b"\0"))
