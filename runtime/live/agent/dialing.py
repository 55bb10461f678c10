"""The way to the driver: a connection on which both ends have proved the token."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time

from runtime.errors import ConfigError
from runtime.live.transport.address import set_deadline, tune
from runtime.live.transport.auth import HANDSHAKE_DEADLINE_S, AuthError, Identity, call

TRY_EVERY_S = 0.2
TRY_S = 5.0
MAX_NUMBER = 1 << 31


class Unreachable(ConfigError):
    """Nobody is there, or nobody who accepts us."""


def dial(host: str, port: int, token: bytes, wait_s: float) -> socket.socket:
    """A connection to the driver; raises :class:`Unreachable` in one line if it cannot be reached, or is not ours."""
    until = time.monotonic() + wait_s
    while True:
        try:
            sock = socket.create_connection((host, port), timeout=max(0.1, min(TRY_S, until - time.monotonic())))
            break
        except OSError as error:
            if time.monotonic() + TRY_EVERY_S > until:
                words = "nobody answers" if isinstance(error, TimeoutError) else (error.strerror or str(error)).lower()
                raise Unreachable(
                    f"--join {host}:{port}: {words} within --wait-s={wait_s:g}; start run.py with launcher=join there, "
                    "or look for a firewall"
                ) from None
            time.sleep(TRY_EVERY_S)
    try:
        sock.settimeout(None)
        tune(sock)
        set_deadline(sock, HANDSHAKE_DEADLINE_S)
        call(sock, token, Identity("agent", secrets.randbelow(MAX_NUMBER)))
    except OSError as error:
        with contextlib.suppress(OSError):
            sock.close()
        asked = "is another program" if isinstance(error, BlockingIOError) else "does not accept our token"
        if isinstance(error, AuthError):
            asked = "does not know our token"
        raise Unreachable(f"--join {host}:{port}: who listens there {asked}; use the driver's token file") from None
    return sock
