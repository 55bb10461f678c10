"""Durations of the parts of a worker's iteration; part of the vocabulary of :mod:`strategies.protocol`."""

from __future__ import annotations

import msgspec


class Timings(msgspec.Struct, frozen=True, kw_only=True, gc=False):
    """Durations of one iteration in seconds, by the worker's own stopwatch.

    ``wait_s`` + ``data_s`` + ``pull_s`` + ``compute_s`` + ``send_s`` is the whole iteration, in this order. If the
    worker held its gradient (``Ready``), that time lies between ``compute_s`` and ``send_s`` and is in none of them.
    """

    wait_s: float = 0.0
    """From the end of the previous push until the next Compute reached the worker (time at barriers is here)."""
    data_s: float = 0.0
    """From that Compute until the batch was loaded."""
    pull_s: float = 0.0
    """From then until all parameters were delivered (including an update that they had to wait for)."""
    compute_s: float = 0.0
    """Forward and backward pass, with device pacing and injected delay."""
    send_s: float = 0.0
    """Push to all servers until the last acknowledged."""
    injected_s: float = 0.0
    """The part of ``compute_s`` that a straggler injection added (measured, not planned)."""
    overrun_s: float = 0.0
    """By how much the real computation exceeded the device profile; 0 when pacing held."""
    recv_s: float = 0.0
    """The part of ``pull_s`` spent on this worker's link, as opposed to the servers' work."""
    stage_s: float = 0.0
    """The part of ``compute_s`` in which parameters were copied to the worker's device, and the gradient back."""

    cpu_s: float | None = None
    """Processor seconds of loading, computing and sending, all threads together; None: not known."""

    @property
    def iter_s(self) -> float:
        """Time of the iteration without waiting and without the pull."""
        return self.data_s + self.compute_s + self.send_s

    @property
    def own_s(self) -> float:
        """The worker's own time of the iteration with its link both ways; detectors of slow workers use it."""
        return self.data_s + self.recv_s + self.compute_s + self.send_s

    @property
    def bpt_s(self) -> float:
        """Batch processing time (AntDT's worker BPT)."""
        return self.data_s + self.compute_s
