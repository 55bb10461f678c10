"""Samples of what tasks and hosts use."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from types import ModuleType
from typing import Any

import pytest

from runtime.cluster.hosts import Placement, parse_hosts
from runtime.live.control import gpu_use
from runtime.live.control.gpu_use import GpuMeter, GpuUse
from runtime.live.control.telemetry import Sampler, cpu_s, resident_bytes


def burn(seconds: float) -> None:
    until = time.process_time() + seconds
    while time.process_time() < until:
        sum(range(1000))


def test_the_processor_clock_of_a_process_is_its_own() -> None:
    before = cpu_s(os.getpid())
    assert before is not None
    burn(0.1)
    after = cpu_s(os.getpid())
    assert after is not None
    assert 0.1 <= after - before < 0.5
    assert after == pytest.approx(time.process_time(), abs=0.05)
    process = subprocess.Popen([sys.executable, "-c", ""])
    process.wait()
    assert cpu_s(process.pid) is None
    assert resident_bytes(process.pid) is None


def test_use_is_per_second_since_the_last_sample() -> None:
    counters = [[(0, 100), (50, 0)], [(1000, 100), (50, 3000)]]
    fields = {"count": 2, "cpu_cores": 0.5, "memory_mb": 64, "placement": [["worker:0", "server:0"], []]}
    hosts = parse_hosts(fields, 1, 1)
    sampler = Sampler(lambda: counters.pop(0), Placement(hosts))
    me = [("worker:0", os.getpid())]
    assert sampler.sample(10.0, me) == (0.0, ()), "the first only starts to count"
    burn(0.2)
    sampler.served(0, 0.5)
    sampler.served(0, 0.5)
    period_s, nodes = sampler.sample(12.0, [*me, ("server:0", 2**22)])
    assert period_s == 2.0
    worker, server, host, idle = nodes
    assert worker.node == "worker:0"
    assert worker.cpu_cores == pytest.approx(0.1, rel=0.5), "0.2 s in 2 s"
    assert worker.memory_bytes is not None
    assert worker.memory_bytes > 10 << 20
    assert (server.node, server.cpu_cores, server.busy_frac) == ("server:0", None, 0.5)
    assert (host.node, host.out_bytes_per_s, host.in_bytes_per_s) == ("host:0", 500.0, 0.0)
    assert host.cpu_cores == worker.cpu_cores
    assert (host.limit_cores, worker.limit_cores, host.limit_bytes_per_s) == (0.5, 0.5, None)
    assert idle.memory_limit_bytes == hosts.hosts[1].memory_bytes is not None
    assert (idle.out_bytes_per_s, idle.in_bytes_per_s, idle.cpu_cores) == (0.0, 1500.0, 0.0)


def test_a_task_shows_its_own_limits_within_those_of_its_host_and_a_new_incarnation_starts_from_nothing() -> None:
    """The host: half a core, 64 MiB. Own limits of less, of more memory than there is, and none."""
    fields = {"count": 1, "cpu_cores": 0.5, "memory_mb": 64, "placement": [["worker:0", "worker:1", "server:0"]]}
    own = {"worker:0": (0.2, 2**20), "worker:1": (None, 2**40)}
    placement = Placement(parse_hosts(fields, 2, 1))
    sampler = Sampler(None, placement, lambda task: own.get(task, (None, None)))
    pids = [(name, os.getpid()) for name in ("worker:0", "worker:1", "server:0")]
    sampler.sample(0.0, pids)
    found = {use.node: (use.limit_cores, use.memory_limit_bytes) for use in sampler.sample(1.0, pids)[1]}
    whole = (0.5, 64 * 2**20)
    assert found == {"worker:0": (0.2, 2**20), "worker:1": whole, "server:0": whole, "host:0": whole}
    alone = Sampler(None, None, lambda task: own.get(task, (None, None)))
    alone.sample(0.0, pids)
    assert [use.limit_cores for use in alone.sample(1.0, pids)[1]] == [0.2, None, None]
    with subprocess.Popen([sys.executable, "-c", "input()"], stdin=subprocess.PIPE) as other:
        sampler = Sampler(None, None)
        sampler.sample(0.0, [("worker:0", os.getpid())])
        (node,) = sampler.sample(1.0, [("worker:0", other.pid)])[1]
        other.communicate(b"\n")
    assert node.cpu_cores is None


class Error(Exception):
    pass


@pytest.fixture
def nvml(monkeypatch: pytest.MonkeyPatch) -> Any:
    """Device k is busy for 10 (k + 1) %, and holds k + 1 MB; the one named MIG-x has no counters."""
    library: Any = ModuleType("pynvml")
    library.NVMLError, library.begun, library.looked_up = Error, 0, []

    def begin() -> None:
        library.begun += 1

    def by_index(index: int) -> int:
        library.looked_up.append(index)
        return index

    def utilisation(handle: Any) -> Any:
        if handle == "MIG-x":
            raise Error
        return type("Rates", (), {"gpu": 10 * (handle + 1)})

    library.nvmlInit = begin
    library.nvmlDeviceGetHandleByIndex = by_index
    library.nvmlDeviceGetHandleByUUID = lambda name: {"GPU-a": 3}.get(name, name)
    library.nvmlDeviceGetUtilizationRates = utilisation
    library.nvmlDeviceGetMemoryInfo = lambda handle: type("Memory", (), {"used": (handle + 1) * 10**6})
    monkeypatch.setitem(sys.modules, "pynvml", library)
    monkeypatch.setattr(gpu_use, "find_spec", lambda name: name)
    return library


def test_a_task_s_device_is_read(nvml: Any) -> None:
    meter = GpuMeter((0, 2), {})
    assert [meter(f"worker:{number}") for number in range(3)] == [
        GpuUse(0.1, 10**6),
        GpuUse(0.3, 3 * 10**6),
        GpuUse(0.1, 10**6),
    ]
    assert meter("server:0") == GpuUse()
    assert (nvml.begun, nvml.looked_up) == (1, [0, 2]), "each device is looked up once"


def test_devices_have_the_names_of_the_environment_and_are_counted_by_the_bus(nvml: Any) -> None:
    meter = GpuMeter((0, 1, 2), {"CUDA_VISIBLE_DEVICES": "GPU-a,1,MIG-x"})
    assert [meter(f"worker:{number}").busy_frac for number in range(3)] == [0.4, 0.2, None]
    by_speed = {"CUDA_DEVICE_ORDER": "FASTEST_FIRST"}
    assert GpuMeter((0,), by_speed)("worker:0") == GpuUse()
    meter = GpuMeter((0, 1), {**by_speed, "CUDA_VISIBLE_DEVICES": "GPU-a,1"})
    assert [meter(f"worker:{number}").busy_frac for number in range(2)] == [0.4, None]
    assert GpuMeter((0,), {"CUDA_DEVICE_ORDER": "PCI_BUS_ID"})("worker:0").busy_frac == 0.1


def test_nothing_is_known_without_library_driver_or_device(nvml: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    assert GpuMeter((), {})("worker:0") == GpuUse()
    assert nvml.begun == 0

    def failing() -> None:
        raise Error

    monkeypatch.setattr(nvml, "nvmlInit", failing)
    assert GpuMeter((0,), {})("worker:0") == GpuUse()
    monkeypatch.setattr(gpu_use, "find_spec", lambda name: None)
    assert GpuMeter((0,), {})("worker:0") == GpuUse()


def test_samples_have_it(nvml: Any) -> None:
    sampler = Sampler(None, None, gpu_of=GpuMeter((1,), {}))
    tasks = [("worker:0", 1), ("server:0", 1)]
    sampler.sample(0.0, tasks)
    _, (worker, server) = sampler.sample(1.0, tasks)
    assert (worker.gpu_frac, worker.gpu_memory_bytes) == (0.2, 2 * 10**6)
    assert (server.gpu_frac, server.gpu_memory_bytes) == (None, None)
