"""Use of GPUs, by NVML (``nvidia-ml-py``, the extra ``gpu``), which needs no message to tasks and no CUDA."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.util import find_spec
from typing import Any, NamedTuple, final

from runtime.backends.devices.found import BY_BUS, name_of, order_of
from runtime.cluster.gpus import device_of
from strategies.protocol import NodeId

LIBRARY = "pynvml"
"""The module of ``nvidia-ml-py``."""


class GpuUse(NamedTuple):
    """The use of a whole device, by anybody; None if not known."""

    busy_frac: float | None = None
    memory_bytes: int | None = None


@final
class GpuMeter:
    """Reads the use of the device of each task; knows nothing without the library, or without a device.

    ``in_turn``: numbers of the devices that workers take in turn, among the devices of ``environ``. NVML counts by the
    bus; where the run counts otherwise, only devices with names are known.
    """

    def __init__(self, in_turn: Sequence[int], environ: Mapping[str, str]) -> None:
        self.in_turn, self.environ = in_turn, environ
        self._nvml: Any = None
        self._handles: dict[int, Any] = {}
        if in_turn and find_spec(LIBRARY) is not None:
            import pynvml

            try:
                pynvml.nvmlInit()
            except pynvml.NVMLError:
                return
            self._nvml = pynvml

    def __call__(self, task: str) -> GpuUse:
        """The use of the device of a task, now."""
        node = NodeId.parse(task)
        device = device_of(self.in_turn, node.role, node.number)
        if self._nvml is None or device is None or not self._counts_alike(device):
            return GpuUse()
        try:
            handle = self._handle(device)
            busy_percent = self._nvml.nvmlDeviceGetUtilizationRates(handle).gpu
            return GpuUse(busy_percent / 100, int(self._nvml.nvmlDeviceGetMemoryInfo(handle).used))
        except self._nvml.NVMLError:  # a part of a device (MIG) has no counters of its own, for instance
            return GpuUse()

    def _counts_alike(self, device: int) -> bool:
        return order_of(self.environ) == BY_BUS or not name_of(device, self.environ).isdecimal()

    def _handle(self, device: int) -> Any:
        if device not in self._handles:
            name = name_of(device, self.environ)
            by_index, by_name = self._nvml.nvmlDeviceGetHandleByIndex, self._nvml.nvmlDeviceGetHandleByUUID
            self._handles[device] = by_index(int(name)) if name.isdecimal() else by_name(name)
        return self._handles[device]
