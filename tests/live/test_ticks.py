"""Quotas that the kernel looks at more often: who wakes up, until when, and that it makes a difference."""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Iterator

import msgspec
import pytest

from runtime.live.machines import ticks as ticks_module
from runtime.live.machines.cgroups import Cgroup
from runtime.live.machines.machines import build_machines
from runtime.live.machines.mechanisms import NOTHING
from runtime.live.machines.shared import build_shared
from runtime.live.machines.ticks import PRIORITY, UNCOMPILED, Ticks, obstacle
from runtime.native import SWITCH
from tests.support.quotas import own_group, spin, within

pytestmark = [
    pytest.mark.live,
    pytest.mark.alone,
    pytest.mark.skipif(obstacle() is not None, reason=f"no real-time priority here ({obstacle()})"),
]
BURSTS = 30
BURST_S = 3e-3
"""Of work at once, with a quota of 1 ms in 10 ms: a kernel that looks every 4 ms often sees it only afterwards."""


def tickers() -> list[int]:
    """Threads of this process, by number, that :class:`Ticks` has started."""
    return [thread.native_id for thread in live() if thread.native_id is not None]


def live() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name.startswith("ticks-")]


@pytest.fixture
def ticks() -> Iterator[Ticks]:
    made = Ticks()
    yield made
    made.close()


def test_every_processor_has_a_thread_of_real_time_priority_until_the_end(ticks: Ticks) -> None:
    found = tickers()
    assert {os.sched_getscheduler(thread) for thread in found} == {os.SCHED_FIFO}
    assert {tuple(os.sched_getaffinity(thread)) for thread in found} == {(cpu,) for cpu in os.sched_getaffinity(0)}
    assert {os.sched_getparam(thread).sched_priority for thread in found} == {PRIORITY}
    assert os.sched_getscheduler(0) == os.SCHED_OTHER  # the others keep theirs
    ticks.close()
    assert not live()


def test_who_may_use_some_processors_only_wakes_up_on_these() -> None:
    """As started by ``taskset``: all tasks of a run inherit that."""
    allowed = os.sched_getaffinity(0)
    only = max(allowed)
    os.sched_setaffinity(0, [only])
    try:
        ticks = Ticks()
        assert [os.sched_getaffinity(thread) for thread in tickers()] == [{only}]
        ticks.close()
    finally:
        os.sched_setaffinity(0, allowed)


def test_a_lab_has_one_thread_for_each_processor_however_many_jobs_it_has() -> None:
    shared = build_shared(None, msgspec.structs.replace(NOTHING, ticks=True))
    assert not shared.obstacle
    for name in ("a", "b"):
        machines, obstacle = build_machines(shared, name, None, ["worker:0"], 1.0, requests=False)
        assert not obstacle
        assert len(tickers()) == len(os.sched_getaffinity(0))
        machines.close()
    assert tickers()  # other jobs may be there
    shared.close()
    assert not live()


def test_without_the_compiled_module_there_are_none(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(SWITCH, "0")
    assert obstacle() == UNCOMPILED
    with pytest.raises(OSError, match=UNCOMPILED):
        Ticks()


def test_if_one_thread_may_not_none_is_left(monkeypatch: pytest.MonkeyPatch) -> None:
    calls: list[int] = []

    def only_the_first() -> None:
        calls.append(1)
        if len(calls) > 1 or len(os.sched_getaffinity(os.getpid())) == 1:
            raise PermissionError(1, "not permitted")

    monkeypatch.setattr(ticks_module, "be_prompt", only_the_first)
    with pytest.raises(OSError, match="not permitted"):
        Ticks()
    assert not live()


def noticed(group: Cgroup, counted: int) -> int:
    """How many of the bursts of a child in the group the kernel has interrupted, since their quota was used up."""

    def play() -> bytes:
        seen = bytearray()
        for _ in range(BURSTS):
            time.sleep(0.05)  # a debt of 3 ms is paid in 30 ms
            before = group.throttled().num_throttled
            spin(counted)
            seen += b"x" if group.throttled().num_throttled > before else b"."
        return bytes(seen)

    seen = within(group, play)
    assert len(seen) == BURSTS
    return seen.count(b"x")


def test_work_beyond_the_quota_is_noticed_while_it_is_done() -> None:
    began, counted = time.thread_time(), 200_000
    spin(counted)
    in_a_burst = round(counted * BURST_S / (time.thread_time() - began))
    with own_group(0.1) as group:
        ticks = Ticks()
        try:
            assert noticed(group, in_a_burst) >= 0.9 * BURSTS  # without: about half of them
        finally:
            ticks.close()
