"""The broker: ``python -m runtime.live.launchers.ray PARENT``, outside of the namespaces of the run.

Ray finds its own processes by looking at all processes of the machine, which a process inside cannot see. The broker
starts a visit to Ray for every job, ends it, and reports how it ended.
"""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import sys
import tempfile
from typing import IO

from runtime.containment.process import die_with
from runtime.house import program
from runtime.live.launchers.ray.requests import (
    Again,
    AnyOrder,
    End,
    NoAgents,
    Released,
    Request,
    Start,
    line_of,
    orders,
)

LOOK_EVERY_S = 0.1
LEAVE_S = 10.0
"""Seconds that a visit has to take everything away; Ray does it itself when that is killed."""


def main() -> None:
    """Serve one job after another, until nobody is left to send orders."""
    die_with(int(sys.argv[1]))
    visit: Running | None = None
    waiting = b""
    while True:
        if select.select([0], [], [], LOOK_EVERY_S)[0]:
            data = os.read(0, 65536)
            if not data:
                break
            *lines, waiting = (waiting + data).split(b"\n")
            for line in lines:
                visit = obey(orders.decode(line), visit)
        if visit is not None and (words := visit.died()):
            os.write(1, line_of(NoAgents(reason=words)))
            visit = None
    if visit is not None:
        visit.end()


def obey(order: AnyOrder, visit: Running | None) -> Running | None:
    """Carry an order out; returns the visit that there is then."""
    match order:
        case Start():
            return Running(order.request)
        case Again():
            if visit is not None:
                visit.tell(order)
            return visit
        case End():
            if visit is not None:
                visit.end()
            os.write(1, line_of(Released()))
            return None


class Running:
    """A visit in a process of its own, which answers on our output."""

    def __init__(self, request: Request) -> None:
        self._said: IO[bytes] = tempfile.TemporaryFile()  # noqa: SIM115
        self._process = subprocess.Popen(
            program("runtime.live.launchers.ray.visit", str(os.getpid())), stdin=subprocess.PIPE, stderr=self._said
        )
        self.tell(request)

    def tell(self, message: Request | Again) -> None:
        """One more line for it."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.write(line_of(message))
            self._process.stdin.flush()

    def died(self) -> str:
        """Why it has ended before it should; empty while it runs, and after it has said why itself."""
        if self._process.poll() in (None, 0):
            return ""
        self._said.seek(0)
        lines = self._said.read().decode(errors="replace").strip().splitlines() or ["it printed nothing"]
        return f"launcher=ray: the process that speaks to Ray has ended: {lines[-1]}"

    def end(self) -> None:
        """Let it take everything away."""
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):
            self._process.stdin.close()
        try:
            self._process.wait(LEAVE_S)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait(LEAVE_S)


if __name__ == "__main__":
    main()
