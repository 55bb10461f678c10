"""Latency between hosts: by the kernel's netem (``Network.set_latency``), or else by a relay process.

A host's latency is that between it and the switch, one way; between two hosts it is the sum of both.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from collections.abc import Mapping

import msgspec

from runtime.house import program, surroundings
from runtime.live.hosts.relay import READY, RelayMap, Route

EXIT_S = 2.0
START_S, ANSWER_S = 60.0, 10.0
"""Seconds within which a relay listens on given routes: one that starts, on a busy machine; one that runs."""


class RelayFailed(OSError):
    """The relay did not start."""


def route_to(port: int, target: tuple[str, int], latency_s: Mapping[str, float]) -> Route:
    """The route from ``port`` of the laboratory to ``target``; ``latency_s``: of every host, by its address."""
    own_s = latency_s[target[0]]
    delays_s = {address: (seconds + own_s, seconds + own_s) for address, seconds in latency_s.items()}
    delays_s[target[0]] = (0.0, 0.0)  # nothing lies between a host and itself
    return Route(port=port, target=target, delays_s=delays_s, other_s=(own_s, own_s))


def start_relay(host: str, routes: list[Route]) -> subprocess.Popen[bytes]:
    """Start a relay that listens at ``host``; it ends by :func:`stop_relay`. Call this in the main thread.

    Raises :class:`RelayFailed`.
    """
    process = subprocess.Popen(
        program("runtime.live.hosts.relay", str(os.getpid())),
        env=surroundings(),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
    )
    if (answer := _ask(process, host, routes, START_S)) != READY:
        stop_relay(process)
        how = answer.decode().strip() or f"ended with code {process.returncode}; see above"
        raise RelayFailed(f"the relay of {len(routes)} servers at {host} {how}")
    return process


def add_routes(relay: subprocess.Popen[bytes], host: str, routes: list[Route]) -> None:
    """Let a relay that runs listen on these routes, too; raises :class:`RelayFailed`."""
    try:
        answer = _ask(relay, host, routes, ANSWER_S)
    except OSError as error:
        raise RelayFailed(f"the relay at {host} has ended: {error}") from error
    if answer != READY:
        raise RelayFailed(f"the relay at {host} cannot listen: {answer.decode().strip() or 'has ended'}")


def stop_relay(relay: subprocess.Popen[bytes]) -> None:
    """End a relay, and return when it is gone."""
    for pipe in (relay.stdin, relay.stdout):
        assert pipe is not None
        with contextlib.suppress(OSError):  # a relay that has ended has not read all
            pipe.close()
    try:
        relay.wait(EXIT_S)
    except subprocess.TimeoutExpired:
        relay.kill()
        relay.wait(EXIT_S)


def _ask(relay: subprocess.Popen[bytes], host: str, routes: list[Route], within_s: float) -> bytes:
    """Return a relay's one-line answer; nothing when it has ended. One that is stopped, or hangs, is killed."""
    assert relay.stdin is not None
    assert relay.stdout is not None
    relay.stdin.write(msgspec.json.encode(RelayMap(host=host, routes=routes)) + b"\n")
    relay.stdin.flush()
    line, until_s = b"", time.monotonic() + within_s
    while not line.endswith(b"\n"):
        left_s = max(0.0, until_s - time.monotonic())
        if not select.select([relay.stdout], [], [], left_s)[0]:
            relay.kill()  # else its answer could be taken for that to a later question
            return f"does not answer within {within_s:g} s".encode()
        if not (piece := os.read(relay.stdout.fileno(), 1 << 16)):
            return line
        line += piece
    return line
