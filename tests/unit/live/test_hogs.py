"""Hogs: orders and answers over real sockets, with forked processes, on a fake device."""

from __future__ import annotations

import os
import select
import signal
import socket
from collections.abc import Callable, Iterator
from types import SimpleNamespace
from typing import Any, NoReturn

import pytest

from runtime.backends.devices.fake import FakeDevice
from runtime.backends.devices.loads import FakeLoad
from runtime.backends.devices.staging import Staging
from runtime.backends.devices.time_slices import TimeSlice, TimeSlices
from runtime.core.vectors import aligned_vector
from runtime.live.tasks import hog_process
from runtime.live.tasks.hog_process import hog_main
from runtime.live.tasks.hogs import Hogs, obey
from runtime.live.transport.messages import Actuated


@pytest.fixture
def hogs() -> Iterator[Hogs]:
    found = Hogs({1: 2})

    def be(device: int, number: int, sock: socket.socket) -> NoReturn:
        try:
            time_slice = found.time_slice(device)
            assert time_slice is not None
            obey(sock, FakeLoad(time_slice))
        finally:
            os._exit(0)

    found.start(be)
    pids = found.pids
    yield found
    for pid in pids:
        os.kill(pid, signal.SIGKILL)
        os.waitpid(pid, 0)
    for sock in found.sockets:
        sock.close()


def result(hogs: Hogs) -> Actuated:
    """The next answer of a device."""
    while True:
        for sock in select.select(hogs.sockets, [], [], 10.0)[0]:
            if (message := hogs.read(sock)) is not None:
                return message


def test_an_order_is_answered_by_all_with_what_the_one_before_has_achieved(hogs: Hogs) -> None:
    assert hogs.time_slice(0) is None
    hogs.order("device:1", 0.5)
    assert result(hogs).achieved == 0.5
    time_slice = hogs.time_slice(1)
    while time_slice.taken_s() < 0.1:  # hogs take until then
        pass
    hogs.order("device:1", 0.0)
    said = result(hogs)
    assert (said.achieved, said.target, said.by, said.problem) == (1.0, "device:1", "hog", "")
    assert said.measured is not None
    assert 0.0 < said.measured < 0.9, "not exact here: both write to one account, and the machine may be busy"
    for taken in (0.5, 0.25):
        hogs.order("device:1", taken)
    assert [result(hogs).achieved for _ in range(2)] == [0.5, 0.75], "answers are kept apart"


def test_a_hog_that_ends_is_a_problem(hogs: Hogs) -> None:
    os.kill(hogs.pids[0], signal.SIGKILL)
    assert "a hog has ended: see logs/hog-1" in result(hogs).problem
    assert len(hogs.pids) == 1
    with pytest.raises(OSError, match="its hogs have ended"):
        hogs.order("device:0", 0.5)


def test_one_that_does_not_start_is_named() -> None:
    def be(device: int, number: int, sock: socket.socket) -> NoReturn:
        os._exit(1)

    hogs = Hogs({0: 1})
    with pytest.raises(RuntimeError, match="hog 0 of device:0 did not start"):
        hogs.start(be)
    os.waitpid(hogs.pids[0], 0)
    hogs.sockets[0].close()


def test_a_hog_sees_its_device_only_and_no_daemon_of_the_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """With the daemon's clients it would have no turns of its own."""
    monkeypatch.setattr(hog_process, "obey", lambda *_: None)
    monkeypatch.setattr(hog_process, "make_load", lambda *_: None)
    for name, value in {"CUDA_MPS_PIPE_DIRECTORY": "/tmp/nvidia-mps", "CUDA_VISIBLE_DEVICES": "4,5"}.items():
        monkeypatch.setenv(name, value)
    spec: Any = SimpleNamespace(backend={"device": "cuda"})
    nobody: Any = None
    hog_main(spec, Hogs({1: 1}), 1, nobody)
    assert os.environ["CUDA_VISIBLE_DEVICES"] == "5"
    assert not os.path.exists(os.environ["CUDA_MPS_PIPE_DIRECTORY"])


class Clock:
    """Of the device's account and of whoever computes there."""

    def __init__(self) -> None:
        self.now = 1.0

    def __call__(self) -> float:
        return self.now


@pytest.mark.parametrize(("busy_s", "ends"), [(0.0, 2.0), (0.5, 2.5), (2.0, 4.0)])
def test_a_fake_device_loses_the_turns_of_hogs(busy_s: float, ends: float, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels that the processor computes in two seconds, of which a hog has the device for ``busy_s``."""
    clock = Clock()
    time_slices = TimeSlices(1, clock)
    monkeypatch.setattr(FakeDevice, "time_slice", TimeSlice(time_slices, 0))
    monkeypatch.setattr("runtime.backends.devices.fake.time.perf_counter", clock)
    monkeypatch.setattr("runtime.backends.devices.fake.time.sleep", lambda s: setattr(clock, "now", clock.now + 0.25))
    staging, vector = Staging(FakeDevice(), 4), aligned_vector(4)
    time_slices.take(0, lambda: setattr(clock, "now", clock.now + 7.0))  # before anybody computes
    staging.bring(vector, aligned_vector(4))
    begun = clock.now
    time_slices.take(0, lambda: setattr(clock, "now", clock.now + busy_s))
    clock.now += 2.0 - busy_s
    staging.take()
    assert clock.now - begun == ends


def test_a_share_of_a_fake_device_is_as_slow_as_it_says(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    monkeypatch.setattr(FakeDevice, "share_frac", 0.25)
    monkeypatch.setattr("runtime.backends.devices.fake.time.perf_counter", clock)
    monkeypatch.setattr("runtime.backends.devices.fake.time.sleep", lambda s: setattr(clock, "now", clock.now + 0.5))
    staging, vector = Staging(FakeDevice(), 4), aligned_vector(4)
    for _ in range(2):
        staging.bring(vector, aligned_vector(4))
        begun = clock.now
        clock.now += 2.0
        staging.take()
        assert clock.now - begun == 8.0


class Read:
    """The numbers of devices; once somebody has read one, ``after`` happens."""

    def __init__(self, numbers: Any, after: Callable[[], None]) -> None:
        self.numbers, self.after = numbers, after

    def __getitem__(self, device: int) -> float:
        found: float = self.numbers[device]
        self.after()
        return found


def test_a_turn_that_ends_while_it_is_read_does_not_count_twice(monkeypatch: pytest.MonkeyPatch) -> None:
    clock = Clock()
    time_slices = TimeSlices(1, clock)
    past, since = time_slices._past_s, time_slices._since_s
    since[0] = clock.now
    clock.now += 0.5

    def end() -> None:
        past[0], since[0] = 0.5, 0.0

    assert time_slices.taken_s(0) == 0.5, "a turn in progress counts"
    monkeypatch.setattr(time_slices, "_past_s", Read(past, end))
    monkeypatch.setattr(time_slices, "_since_s", Read(since, end))
    assert time_slices.taken_s(0) <= 0.5
    assert time_slices.taken_s(0) == 0.5
