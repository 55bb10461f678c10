"""How long a cache line takes from one core to another, now: the gauge of the machine's slow regime.

Virtual machines fall, for seconds at a time, into a regime in which everything between two cores is several times
slower (a tenth of all rounds when this was written, off by up to 4-5x). A figure from such a round says
nothing about the code.
"""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import tempfile
import threading
import time
from dataclasses import dataclass
from pathlib import Path
from statistics import fmean, median

SLOW_NS = float(os.environ.get("STRAGGLAB_PROBE_SLOW_NS", "90"))
"""One-way hop above which a round counts as slow, on a machine whose normal is 38 to 50 ns."""
SLOW_FACTOR = 2.0
"""The same limit for machines with another normal (60 to 95 ns on a Xeon of 2023 with a mesh)."""
LOST_FRAC = 0.2
"""Somebody else computes here: every peer is slower then, and not every peer by the same factor."""
CHUNKS, ROUND_TRIPS_PER_CHUNK, LIMIT_S = 256, 500, 0.5
PIPE_ROUND_TRIPS = 400


@dataclass(frozen=True)
class Reading:
    """``hop_ns`` one way; ``lost_frac`` of the time the probe's threads, which never sleep, were not running."""

    hop_ns: float
    lost_frac: float


class Probe:
    """``read()`` takes 20 to 50 ms. ``kind`` is ``cache line``, ``pipe`` (no compiler here) or ``none`` (one CPU)."""

    def __init__(self) -> None:
        self.cpus = sorted(os.sched_getaffinity(0))[:2]
        self._library = _build() if len(self.cpus) == 2 else None
        self.kind = "none" if len(self.cpus) < 2 else "cache line" if self._library else "pipe"
        self.seen_ns: list[float] = []

    def read(self) -> Reading:
        if self.kind == "none":
            return Reading(0.0, 0.0)
        reading = self._cache_line() if self._library else Reading(_pipe_ns(*self.cpus), 0.0)
        self.seen_ns.append(reading.hop_ns)
        return reading

    def is_slow(self, reading: Reading) -> bool:
        """By the limits of now: they follow the best that the session has seen."""
        return reading.hop_ns > self.limit_ns or reading.lost_frac > LOST_FRAC

    @property
    def best_ns(self) -> float:
        """The lowest decile so far: now and then two virtual CPUs share a core, and 27 ns are nobody's normal."""
        return sorted(self.seen_ns)[len(self.seen_ns) // 10] if self.seen_ns else 0.0

    @property
    def limit_ns(self) -> float:
        """Slower than this is slow. A pipe has no absolute limit."""
        relative = SLOW_FACTOR * self.best_ns
        return max(SLOW_NS, relative) if self.kind == "cache line" else relative

    @property
    def warning(self) -> str:
        """When no probe of the session was fast, the relative limit cannot tell a slow machine from a slow regime."""
        if self.kind == "none":
            return "one CPU: nothing can be said about the machine's regime"
        if self.kind == "cache line" and self.best_ns > SLOW_NS:
            return f"the session's best hop is {self.best_ns:.0f} ns: the whole session may be slow"
        return ""

    def _cache_line(self) -> Reading:
        """The median of many short chunks; chunks in which a thread was descheduled make the mean longer."""
        assert self._library
        chunks = (ctypes.c_double * CHUNKS)()
        limit_s = ctypes.c_double(LIMIT_S)
        done = self._library.pingpong(*self.cpus, CHUNKS, ROUND_TRIPS_PER_CHUNK, limit_s, chunks)
        if done < CHUNKS // 2:  # out of time: something else holds the CPUs
            return Reading(float("inf"), 1.0)
        middle = median(chunks[:done])
        return Reading(middle, max(0.0, 1.0 - middle / fmean(chunks[:done])))


def _build() -> ctypes.CDLL | None:
    """Compile the helper; None where there is no C compiler or it cannot link."""
    compiler = shutil.which("cc") or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None
    with tempfile.TemporaryDirectory(prefix="stragglab-probe-") as folder:
        library = Path(folder, "pingpong.so")
        source = Path(__file__).with_name("pingpong.c")
        command = [compiler, "-O2", "-shared", "-fPIC", "-pthread", "-o", str(library), str(source)]
        try:
            subprocess.run(command, check=True, capture_output=True, timeout=60)
            return ctypes.CDLL(str(library))
        except (OSError, subprocess.SubprocessError):
            return None


def _pipe_ns(cpu_a: int, cpu_b: int) -> float:
    """A hop over a pipe, wake-up included: some 1000 times a cache line, so only its ratio to the best means anything.

    Two threads and not two processes: they block in read(2) without the interpreter's lock, and need no reaping.
    """
    there, back = os.pipe(), os.pipe()
    begun = time.perf_counter()
    echo = threading.Thread(target=_echo, args=(there[0], back[1], cpu_b), daemon=True)
    lead = threading.Thread(target=_drive, args=(there[1], back[0], cpu_a), daemon=True)
    for thread in (echo, lead):
        thread.start()
    for thread in (echo, lead):
        thread.join(LIMIT_S * 10)
    elapsed_ns = 1e9 * (time.perf_counter() - begun)
    if echo.is_alive() or lead.is_alive():
        return float("inf")
    for fd in (*there, *back):
        os.close(fd)
    return elapsed_ns / (2 * PIPE_ROUND_TRIPS)


def _echo(source: int, sink: int, cpu: int) -> None:
    os.sched_setaffinity(threading.get_native_id(), {cpu})
    for _ in range(PIPE_ROUND_TRIPS):
        os.write(sink, os.read(source, 1))


def _drive(sink: int, source: int, cpu: int) -> None:
    os.sched_setaffinity(threading.get_native_id(), {cpu})
    for _ in range(PIPE_ROUND_TRIPS):
        os.write(sink, b".")
        os.read(source, 1)


if __name__ == "__main__":
    probe = Probe()
    for _ in range(20):
        now = probe.read()
        print(f"{probe.kind}: {now.hop_ns:.1f} ns, {now.lost_frac:.0%} lost, slow: {probe.is_slow(now)}")
