"""A device without hardware that exposes mistakes: for tests of everything that needs a GPU only for its speed.

Kernels (torch's own operations on the CPU) and copies each see memory of their own. A kernel sees a copy's result, and
a copy a kernel's, only after the wait that a real device needs. A copy begins only when it must be complete, so host
memory that is changed or read too early gives wrong numbers. Fresh memory is full of NaN.
"""

from __future__ import annotations

import mmap
import time
from collections import deque
from collections.abc import Callable
from typing import ClassVar, final

import torch
from torch import Tensor

from runtime.backends.devices.device import WHOLE
from runtime.backends.devices.fake_recording import record
from runtime.backends.devices.time_slices import TimeSlice
from runtime.core.vectors import FloatVector

LOOK_S = 5e-4
"""How often somebody looks who waits for turns."""


class _Memory:
    """One vector, as kernels see it and as copies see it; ``fresh``: copied values that no kernel has seen."""

    def __init__(self, num_floats: int) -> None:
        self.kernels = torch.full((num_floats,), torch.nan)
        self.copies = self.kernels.clone()
        self.fresh = False


@final
class FakeTransfer:
    """A copy in the queue of a :class:`FakeDevice`."""

    def __init__(self, device: FakeDevice, copy: Callable[[], object], into: _Memory | None = None) -> None:
        self.device, self.copy, self.into = device, copy, into
        self.seconds: float | None = None

    def run(self) -> None:
        """Copy now, and measure how long that takes."""
        begun = time.perf_counter()
        self.copy()
        if self.into is not None:
            self.into.fresh = True
        self.seconds = time.perf_counter() - begun

    def finish(self) -> float:
        self.device.run_until(self)
        self.device.begun = None  # the host waits, so nothing is computed from now on
        assert self.seconds is not None
        return self.seconds


@final
class FakeDevice:
    """Copies wait in a queue until somebody waits for one of them; then all before it are carried out, in order."""

    capacity_bytes: ClassVar[int | None] = None
    """Memory of each device; None: as much as there is."""
    time_slice: ClassVar[TimeSlice | None] = None
    """The time that hogs take of this process's device; None: there are no hogs."""
    share_frac: ClassVar[float] = 1.0
    """The part of its multiprocessors that this process may use, as with MPS: kernels take 1 / share_frac as long."""

    def __init__(self) -> None:
        self.torch_name = "cpu"
        self.pinned: dict[int, FloatVector] = {}
        self._memory: dict[int, _Memory] = {}
        self._queue: deque[FakeTransfer] = deque()
        self._used_bytes = 0
        self._recording = False
        self.begun: tuple[float, float] | None = None
        """When kernels were launched that nobody has waited for, and what hogs had taken then."""

    def vector(self, num_floats: int) -> Tensor:
        """Raises ``RuntimeError`` in CUDA's words if the capacity does not suffice."""
        self._used_bytes += 4 * num_floats
        if self.capacity_bytes is not None and self._used_bytes > self.capacity_bytes:
            raise RuntimeError(f"CUDA out of memory: the fake device has {self.capacity_bytes} bytes")
        memory = _Memory(num_floats)
        self._memory[memory.kernels.data_ptr()] = memory
        return memory.kernels

    def pin(self, host: FloatVector) -> None:
        """Raises ``RuntimeError`` if some of its pages are locked already, as the driver does."""
        known = self.pinned.get(host.ctypes.data)
        if not host.nbytes or (known is not None and known.nbytes >= host.nbytes):
            return
        if any(_share_pages(host, other) for other in self.pinned.values()):
            raise RuntimeError("CUDA error 712: part of the host vector is locked already")
        self.pinned[host.ctypes.data] = host

    def upload(self, host: FloatVector, there: Tensor) -> FakeTransfer:
        memory, source = self._memory[there.data_ptr()], self._of(host)
        return self._start(FakeTransfer(self, lambda: memory.copies.copy_(source), memory))

    def download(self, there: Tensor, host: FloatVector, part: slice = WHOLE) -> FakeTransfer:
        memory, target = self._memory[there.data_ptr()], self._of(host)
        return self._start(FakeTransfer(self, lambda: target[part].copy_(memory.copies[part])))

    def kernels_wait_for(self, transfer: FakeTransfer) -> None:
        transfer.finish()
        for memory in self._memory.values():
            if memory.fresh:
                memory.kernels.copy_(memory.copies)
                memory.fresh = False
        if self.time_slice is not None or self.share_frac < 1.0:
            self._begin()

    def copies_wait_for_kernels(self) -> None:
        """Copies in the queue still see what was there before."""
        self._lose_turns()
        for memory in self._memory.values():
            self._start(FakeTransfer(self, _publishing(memory, memory.kernels.clone())))

    def place(self, values: Tensor) -> Tensor:
        self._refuse_recording()
        return values.clone()

    def record(self, kernels: Callable[[], object]) -> Callable[[], None]:
        kernels()
        before = [memory.kernels.clone() for memory in self._memory.values()]
        self._recording = True
        try:
            replay = record(kernels)
        finally:
            self._recording = False
        for memory, values in zip(self._memory.values(), before, strict=True):
            memory.kernels.copy_(values)
        return replay

    def _refuse_recording(self) -> None:
        if self._recording:
            raise RuntimeError("CUDA error: operation not permitted when stream is capturing")

    def _lose_turns(self) -> None:
        """Kernels end late by the time that hogs have taken meanwhile: while a hog has its turn, no kernel runs."""
        if self.begun is None:
            return
        begun_s, taken_s = self.begun
        own_s = (time.perf_counter() - begun_s) / self.share_frac
        while time.perf_counter() - begun_s - (self._measure_taken_s() - taken_s) < own_s:
            time.sleep(LOOK_S)
        self._begin()

    def _begin(self) -> None:
        self.begun = time.perf_counter(), self._measure_taken_s()

    def _measure_taken_s(self) -> float:
        return 0.0 if self.time_slice is None else self.time_slice.taken_s()

    def run_until(self, transfer: FakeTransfer) -> None:
        """Carry out what was started up to this transfer."""
        while transfer.seconds is None:
            self._queue.popleft().run()

    def _start(self, transfer: FakeTransfer) -> FakeTransfer:
        self._refuse_recording()
        self._queue.append(transfer)
        return transfer

    def _of(self, host: FloatVector) -> Tensor:
        known = self.pinned.get(host.ctypes.data)
        if known is None or known.nbytes < host.nbytes:
            raise RuntimeError("a copy from or to a host vector that is not pinned")
        return torch.from_numpy(host)


def _share_pages(one: FloatVector, other: FloatVector) -> bool:
    (first, last), (start, end) = _pages(one), _pages(other)
    return first <= end and start <= last


def _pages(host: FloatVector) -> tuple[int, int]:
    """The first and the last page that it is on."""
    place = host.ctypes.data
    return place // mmap.PAGESIZE, (place + host.nbytes - 1) // mmap.PAGESIZE


def _publishing(memory: _Memory, seen: Tensor) -> Callable[[], object]:
    """Show copies what kernels had written then, unless a copy has written there since."""
    return lambda: None if memory.fresh else memory.copies.copy_(seen)
