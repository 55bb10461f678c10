"""Copies whose times say how fast this machine's memory is."""

from __future__ import annotations

from runtime.live.machines.memory_speed import COPY_BYTES, MemoryProbe


def test_a_reading_is_the_time_of_a_copy() -> None:
    times = iter((1.0, 1.25, 7.0, 7.5))
    probe = MemoryProbe(lambda: next(times))
    assert [probe.read(), probe.read()] == [0.25, 0.5]


def test_a_copy_takes_processor_time() -> None:
    probe = MemoryProbe()
    found = [probe.read() for _ in range(20)]
    assert min(found) > 0.0
    assert COPY_BYTES / max(found) > 1e6, "no memory is so slow"
