"""Hogs: processes of a run that take a part of a GPU's time while the plan says so (kind ``gpu``).

The agent forks them before any task and waits until they are ready, so that their kernels are timed on a device that
nobody else uses. A hog waits on its socket; from an order on it runs kernels for the ordered share of the time, by its
own account (:class:`injectors.actuators.gpu_duty.Duty`). Every order is answered with what it has used since the last.
They die with the agent.
"""

from __future__ import annotations

import math
import os
import select
import socket
import struct
import time
from collections import deque
from collections.abc import Callable, Mapping
from typing import NamedTuple, NoReturn, final

from injectors.actuators.gpu_duty import Duty
from injectors.plan import target_name, target_of
from runtime.backends.devices.loads import Load
from runtime.backends.devices.time_slices import TimeSlice, TimeSlices
from runtime.cluster.gpu_hogs import GPU
from runtime.live.transport.messages import Actuated

READY_S = 60.0
"""Until then a hog must have initialised the driver and timed its kernel."""
ORDER, ANSWER = struct.Struct("<d"), struct.Struct("<ddd")
"""The share to take from now on; the share in effect, and device seconds and seconds since the order before."""
BY = "hog"


class Answer(NamedTuple):
    """The account that a hog gives of the time since the order before."""

    share: float
    used_s: float
    elapsed_s: float


def obey(sock: socket.socket, load: Load, clock: Callable[[], float] = time.perf_counter) -> None:
    """Be a hog until the other end is closed; the first answer says that it is ready."""
    duty, wait_s = Duty(0.0, clock()), math.inf
    sock.send(ANSWER.pack(0.0, 0.0, 0.0))
    while True:
        if select.select([sock], [], [], None if wait_s == math.inf else wait_s)[0]:
            if not (order := sock.recv(ORDER.size)):
                return
            now, before = clock(), duty
            duty = Duty(ORDER.unpack(order)[0], now)
            sock.send(ANSWER.pack(duty.share, before.used_s, now - before.begun_s))
        wait_s = duty.spent(clock(), load.run()) if duty.share else math.inf


class _Hog:
    def __init__(self, pid: int, device: int, sock: socket.socket) -> None:
        self.pid, self.device, self.sock = pid, device, sock
        self.answers: deque[Answer] = deque()
        """Those that wait for the answers of others to the same order."""


@final
class Hogs:
    """All hogs of a run, by device, owned by the agent; the constructor starts none."""

    def __init__(self, wanted: Mapping[int, int]) -> None:
        self.wanted = dict(wanted)
        self.time_slices = TimeSlices(1 + max(wanted)) if wanted else None
        self._hogs: list[_Hog] = []

    @property
    def pids(self) -> list[int]:
        """The processes of all hogs that have not ended."""
        return [hog.pid for hog in self._hogs]

    @property
    def sockets(self) -> list[socket.socket]:
        """Return the sockets to wait for, and to call :meth:`read` for."""
        return [hog.sock for hog in self._hogs]

    def time_slice(self, device: int) -> TimeSlice | None:
        """The account of the time that hogs take of a device; None: they take none."""
        return TimeSlice(self.time_slices, device) if self.time_slices is not None and device in self.wanted else None

    def start(self, be: Callable[[int, int, socket.socket], NoReturn]) -> None:
        """Fork them, one after another, and wait until each is ready; raises ``RuntimeError`` if one is not.

        ``be(device, number, sock)`` turns a child into a hog.
        """
        for device, count in sorted(self.wanted.items()):
            for number in range(count):
                ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
                if (pid := os.fork()) == 0:
                    ours.close()
                    be(device, number, theirs)
                theirs.close()
                self._hogs.append(_Hog(pid, device, ours))
                if not select.select([ours], [], [], READY_S)[0] or not ours.recv(ANSWER.size):
                    raise RuntimeError(f"hog {number} of {target_name('device', device)} did not start: see logs/")

    def order(self, target: str, taken_frac: float) -> None:
        """Take this part of a device from now on; :meth:`read` gives the result. Raises ``OSError``."""
        own = self._on(target_of(target).number)
        if not own:
            raise OSError("its hogs have ended")
        for hog in own:
            hog.sock.send(ORDER.pack(taken_frac / len(own)))

    def read(self, sock: socket.socket) -> Actuated | None:
        """Read from a hog that has written or ended; the result when all of its device have answered an order."""
        hog = next(hog for hog in self._hogs if hog.sock is sock)
        target = target_name("device", hog.device)
        if not (data := _receive(sock)):
            self._hogs.remove(hog)
            sock.close()
            words = f"a hog has ended: see logs/{log_name(hog.device, 0)}"
            return Actuated(target=target, kind=GPU, by=BY, achieved=None, problem=words)
        hog.answers.append(Answer(*ANSWER.unpack(data)))
        own = self._on(hog.device)
        if not all(one.answers for one in own):
            return None
        found = [one.answers.popleft() for one in own]
        elapsed_s = max(one.elapsed_s for one in found)
        return Actuated(
            target=target,
            kind=GPU,
            by=BY,
            achieved=1.0 - sum(one.share for one in found),
            measured=1.0 - sum(one.used_s for one in found) / elapsed_s,
        )

    def _on(self, device: int) -> list[_Hog]:
        return [hog for hog in self._hogs if hog.device == device]


def _receive(sock: socket.socket) -> bytes:
    try:
        return sock.recv(ANSWER.size)
    except OSError:
        return b""


def log_name(device: int, number: int) -> str:
    """The name of a hog's log."""
    return f"hog-{device}.{number}.log"
