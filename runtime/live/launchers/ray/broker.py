"""The run's end of its broker."""

from __future__ import annotations

import contextlib
import os
import select
import subprocess
import time
from typing import final

from runtime.errors import ConfigError
from runtime.house import program, surroundings
from runtime.live.launchers.ray.requests import (
    Again,
    AnyAnswer,
    AnyOrder,
    End,
    Left,
    NoAgents,
    Released,
    Request,
    Start,
    answers,
    line_of,
)

RELEASE_S = 15.0


@final
class Broker:
    """A process of ours outside of the run's namespaces: start it before these are entered."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            program("runtime.live.launchers.ray", str(os.getpid())),
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            env=surroundings(),
            start_new_session=True,  # Ctrl-C is for the run, which then ends all in good order
        )
        self._waiting = b""
        self._busy = False

    def start(self, request: Request) -> None:
        """Have agents started; :meth:`look` says what became of that."""
        self._busy = True
        self._send(Start(request=request))

    def start_again(self, start: int) -> None:
        """The agent of this start is lost to the job, whether or not Ray has noticed: have another one started."""
        self._send(Again(start=start))

    def look(self) -> None:
        """Raise :class:`ConfigError` if agents cannot start, or have left before all were there."""
        for answer in self._answers(0.0):
            match answer:
                case NoAgents():
                    raise ConfigError(answer.reason)
                case Left():
                    raise ConfigError(f"launcher=ray: the agent of {answer.where} has left: {answer.line}")
                case _:
                    pass

    def release(self) -> None:
        """End what was started; returns when nothing of it is left, or nobody answers."""
        if not self._busy:
            return
        self._busy = False
        self._send(End())
        until = time.monotonic() + RELEASE_S
        while (left_s := until - time.monotonic()) > 0:
            if any(isinstance(answer, Released) for answer in self._answers(left_s)):
                return

    def _send(self, order: AnyOrder) -> None:
        assert self._process.stdin is not None
        with contextlib.suppress(BrokenPipeError):  # it has died, as we shall see
            self._process.stdin.write(line_of(order))
            self._process.stdin.flush()

    def _answers(self, wait_s: float) -> list[AnyAnswer]:
        assert self._process.stdout is not None
        descriptor = self._process.stdout.fileno()
        if not select.select([descriptor], [], [], wait_s)[0]:
            return []
        data = os.read(descriptor, 65536)
        if not data:
            return [NoAgents(reason="launcher=ray: the process that speaks to Ray has died"), Released()]
        *lines, self._waiting = (self._waiting + data).split(b"\n")
        return [answers.decode(line) for line in lines]


_brokers: list[Broker] = []


def the_broker() -> Broker:
    """The broker of this process and its forks: started at the first call."""
    if not _brokers:
        _brokers.append(Broker())
    return _brokers[0]
