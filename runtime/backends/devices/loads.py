"""The work of a hog on a device: kernels of a bounded size, and how long each has the device to itself."""

from __future__ import annotations

import time
from functools import partial
from typing import Any, Protocol, final

from runtime.backends.devices.choice import CUDA
from runtime.backends.devices.time_slices import TimeSlice

KERNEL_S = 1e-3
"""About so long a hog has the device at a time: as short as a time slice, and long against a launch."""
WHERE = "cuda:0"
"""The only device that its process sees."""
SIDE, TRIALS = 2048, 20
"""Side of the square matrices that are multiplied, and the repetitions of which the fastest counts."""


Launched = tuple[Any, Any]
"""Events before and after a kernel that is in the queue."""


class Load(Protocol):
    """Kernels of one device."""

    def run(self) -> float:
        """Wait for the next kernel to end; returns the seconds of the device that it has used."""


@final
class CudaLoad:
    """Multiplies matrices, on all multiprocessors. Its time alone is measured at the start, when nobody else computes.

    While others have their turns a kernel takes longer, but uses no more of the device. The next one is in the queue
    before it ends: a process without work loses the rest of its time slice (on an H200, four hogs whose kernels of 1 ms
    followed one another had 35 % of a device that four workers used, instead of a half).
    """

    def __init__(self) -> None:
        import torch

        self._torch: Any = torch
        self._one, self._other = (torch.rand(SIDE, SIDE, device=WHERE) for _ in range(2))
        self._product = torch.empty_like(self._one)
        self._times, self.alone_s = 1, 0.0
        self._ahead: Launched | None = None
        self._time(self._launch())  # libraries are loaded with the first
        self._times = max(1, round(KERNEL_S / min(self._time(self._launch()) for _ in range(TRIALS))))
        self.alone_s = min(self._time(self._launch()) for _ in range(TRIALS))

    def run(self) -> float:
        this = self._ahead or self._launch()
        self._ahead = self._launch()
        self.alone_s = min(self.alone_s, self._time(this))
        return self.alone_s

    def _launch(self) -> Launched:
        begun, ended = (self._torch.cuda.Event(enable_timing=True, blocking=True) for _ in range(2))
        begun.record()
        for _ in range(self._times):
            self._torch.mm(self._one, self._other, out=self._product)
        ended.record()
        return begun, ended

    @staticmethod
    def _time(launched: Launched) -> float:
        """Seconds by the device's clock, when it has ended; the host sleeps meanwhile."""
        begun, ended = launched
        ended.synchronize()
        return float(begun.elapsed_time(ended)) / 1e3


@final
class FakeLoad:
    """A load on a fake device, which reports its time slices to the processes that compute there."""

    def __init__(self, time_slice: TimeSlice) -> None:
        self.time_slice = time_slice

    def run(self) -> float:
        return self.time_slice.time_slices.take(self.time_slice.device, partial(time.sleep, KERNEL_S))


def make_load(name: str, time_slice: TimeSlice) -> Load:
    """The load of the device of this process: ``cuda`` or ``fake``."""
    return CudaLoad() if name == CUDA else FakeLoad(time_slice)
