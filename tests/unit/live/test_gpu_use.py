"""Use of GPUs, on a stand-in for NVML's library."""

from __future__ import annotations

import sys
from types import ModuleType
from typing import Any

import pytest

from runtime.live.control import gpu_use
from runtime.live.control.gpu_use import GpuMeter, GpuUse
from runtime.live.control.telemetry import Sampler


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


def test_devices_have_the_names_of_the_environment(nvml: Any) -> None:
    meter = GpuMeter((0, 1, 2), {"CUDA_VISIBLE_DEVICES": "GPU-a,1,MIG-x"})
    assert [meter(f"worker:{number}").busy_frac for number in range(3)] == [0.4, 0.2, None]


def test_devices_that_are_not_counted_by_the_bus_are_known_by_name_only(nvml: Any) -> None:
    """Or another device's use would be recorded: NVML always counts by the bus."""
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
