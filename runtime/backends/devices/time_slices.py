"""Seconds of fake devices that hogs have taken, in memory that a run's processes share by being forked."""

from __future__ import annotations

import mmap
import time
from collections.abc import Callable
from typing import NamedTuple, final

FLOAT64_BYTES = 8


@final
class TimeSlices:
    """Two numbers per device, which hogs write and everybody reads: seconds of past turns, start of a present one.

    ``clock`` is the same in all processes of a machine.
    """

    def __init__(self, num_devices: int, clock: Callable[[], float] = time.monotonic) -> None:
        self.clock = clock
        self._memory = mmap.mmap(-1, 2 * FLOAT64_BYTES * num_devices)
        numbers = memoryview(self._memory).cast("d")
        self._past_s, self._since_s = numbers[:num_devices], numbers[num_devices:]

    def take(self, device: int, use: Callable[[], object]) -> float:
        """Have a turn while ``use()`` lasts; returns its seconds."""
        self._since_s[device] = begun_s = self.clock()
        use()
        seconds = self.clock() - begun_s
        self._since_s[device] = 0.0
        self._past_s[device] += seconds  # last: a reader in between may count less, but never a turn twice
        return seconds

    def taken_s(self, device: int) -> float:
        """Return the time of a device that hogs have used so far."""
        past_s, since_s = self._past_s[device], self._since_s[device]  # in the other order, a turn could count twice
        return past_s + (self.clock() - since_s if since_s else 0.0)


class TimeSlice(NamedTuple):
    """The share of one device that hogs take."""

    time_slices: TimeSlices
    device: int

    def taken_s(self) -> float:
        """Return the seconds of it that hogs have used so far."""
        return self.time_slices.taken_s(self.device)
