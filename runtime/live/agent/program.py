"""The agent that joins: one line for every reason to end, and nothing left of it however it ends."""

from __future__ import annotations

import os
import signal
import sys
import time
from collections.abc import Sequence
from pathlib import Path

from runtime.containment import Isolation, contain, inside, is_linux, obstacle
from runtime.containment.process import die_with, keep_private
from runtime.errors import FAILED, ConfigError, print_error
from runtime.live.agent.arguments import Asked, parse
from runtime.live.agent.dialing import Unreachable, dial
from runtime.live.agent.membership import Cut, Membership, NotNeeded
from runtime.live.joining import wire
from runtime.live.joining.facts import look_here
from runtime.live.joining.token import STDIN, new_token, read_token
from runtime.live.joining.ways import agents_door
from runtime.live.transport.channel import LoopChannel

PROGRAM = "agent"
TRY_AGAIN_S = 0.5
PRIVATE = Path("/dev/shm")
"""In namespaces of our own it ends with us; elsewhere a directory could outlive a SIGKILL."""


def main(argv: Sequence[str]) -> int:
    """Join a run; returns the exit code: 0 after a job, 1 if the driver was lost, 2 for a refusal."""
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, _leave)
    keep_private()
    try:
        asked = parse(argv)
        if asked.new_token is not None:
            new_token(asked.new_token)
            return 0
        if not is_linux():
            raise ConfigError(f"real processes need Linux, and this is {sys.platform}")
        if asked.dies_with:
            die_with(asked.dies_with)
        token = read_token(asked.token_file, "--token-file")
        if not obstacle(Isolation.PROCESSES):
            contain(Isolation.PROCESSES)  # from here on in namespaces of our own; the process that called waits outside
            for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
                signal.signal(number, _leave)
        return _jobs(asked, token)
    except ConfigError as error:
        return print_error(PROGRAM, error)
    except OSError as error:
        return print_error(PROGRAM, error, FAILED)


def _jobs(asked: Asked, token: bytes) -> int:
    """Serve one job, or (``--again``) one after another: all of a sweep, or the same one after a partition."""
    if asked.address:
        agents_door(asked.address).close()  # an address that this machine lacks is refused before the agent waits
    exit_code = _job(asked, token, asked.wait_s)
    while asked.again:
        until = time.monotonic() + asked.wait_s
        if asked.token_file != STDIN:
            token = read_token(asked.token_file, "--token-file")
        while (code := _next_job(asked, token, until - time.monotonic())) is None:
            if time.monotonic() >= until:
                return exit_code  # the sweep is over
            time.sleep(TRY_AGAIN_S)
        exit_code = code
    return exit_code


def _next_job(asked: Asked, token: bytes, wait_s: float) -> int | None:
    """As :func:`_job`; None: the driver is between two jobs, or not there any more."""
    try:
        return _job(asked, token, max(0.0, wait_s))
    except (Unreachable, NotNeeded):
        return None


def _job(asked: Asked, token: bytes, wait_s: float) -> int:
    """Serve one job; returns the exit code, and raises :class:`ConfigError` if there is none for us."""
    sock = dial(asked.host, asked.port, token, wait_s, tls=asked.tls)
    address = asked.address or sock.getsockname()[0]
    door = agents_door(address)
    folder = asked.folder or (PRIVATE if inside() >= Isolation.PROCESSES else None)
    try:
        Membership(LoopChannel(sock, wire.decode), token, look_here(address), folder, asked.start, door).run()
    except Cut as end:
        return print_error(PROGRAM, end, end.exit_code) if end.exit_code else 0


def _leave(number: int, _: object) -> None:
    """End in good order: end the running processes, and remove their directory."""
    signal.signal(number, lambda *_: os._exit(128 + number))
    sys.exit(128 + number)
