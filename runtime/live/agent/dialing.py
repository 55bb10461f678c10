"""The way to the driver: a connection on which both ends have proved the token."""

from __future__ import annotations

import contextlib
import secrets
import socket
import time

from runtime.errors import ConfigError
from runtime.live.transport.address import secure, set_deadline, tune
from runtime.live.transport.auth import HANDSHAKE_DEADLINE_S, AuthError, Identity, SilenceError, call

TRY_EVERY_S = 0.2
TRY_S = 5.0
MAX_NUMBER = 1 << 31


class Unreachable(ConfigError):
    """Nobody is there, or nobody who accepts us."""


def dial(host: str, port: int, token: bytes, wait_s: float, *, tls: bool = False) -> socket.socket:
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
        if tls:
            sock = secure(sock)
        call(sock, token, Identity("agent", secrets.randbelow(MAX_NUMBER)))
    except OSError as error:
        with contextlib.suppress(OSError):
            sock.close()
        raise Unreachable(f"--join {host}:{port}: who listens there {_refusal(error, tls)}") from None
    return sock


def _refusal(error: OSError, tls: bool) -> str:
    """Say what is wrong, and the cure."""
    if tls and not isinstance(error, AuthError) and str(error).startswith("TLS"):
        return "does not speak TLS; leave --tls out, or start the run with launcher.tls=true"
    if isinstance(error, BlockingIOError | SilenceError):
        other = "leave out --tls" if tls else "a run with launcher.tls=true needs --tls"
        return f"is another program, or does not speak as we do; {other}"
    token = "does not know our token" if isinstance(error, AuthError) else "does not accept our token"
    return f"{token}; use the driver's token file"
