"""Which GPU a task's process may see, set before anything of CUDA is asked in it; and that its parent asked nothing.

A process that has initialised the driver must not be forked: its children could not use any device.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path

from runtime.backends.devices.found import ORDER, VISIBLE, name_of, order_of
from runtime.cluster.gpus import device_of
from runtime.live.transport.task_spec import TaskSpec

MPS_PIPES = "CUDA_MPS_PIPE_DIRECTORY"
NO_MPS = {MPS_PIPES: "/nonexistent"}
"""For a process that must have turns of its own: otherwise it finds a daemon of the machine, if one runs."""
MPS_PERCENT = "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"
THROUGH_LINKS = {"NCCL_P2P_DISABLE": "1", "NCCL_SHM_DISABLE": "1", "NCCL_IB_DISABLE": "1"}
"""On emulated hosts: otherwise NCCL would find that they are one machine, and go past their links."""
OUTLIVES_PEERS = {"TORCH_NCCL_ASYNC_ERROR_HANDLING": "2"}
"""Torch gives a group up when a member is lost. Its own choice (3) ends the process, and with it the parameters that
survivors train from (PyTorch's documentation, "ProcessGroupNCCL environment variables")."""
OPEN_FILES = Path("/proc/self/fd")
DRIVER = "nvidia-uvm"
"""The device file that CUDA has open from its first call on, whichever library has made it; NVML leaves it alone."""


def surroundings_of(spec: TaskSpec, role: str, number: int, environ: Mapping[str, str]) -> dict[str, str]:
    """Environment variables to set in the process of a task, whose present ones are ``environ``; empty without GPUs."""
    if not spec.gpus:
        return {}
    if (device := device_of(spec.gpus, role, number)) is None:
        return {VISIBLE: ""}
    found = device_environment(device, environ)
    if spec.mps_pipes:
        found[MPS_PIPES] = spec.mps_pipes
        if spec.mps_percent and role == "worker":
            found[MPS_PERCENT] = f"{100 * share_frac(spec.mps_percent, role, number):g}"
    if spec.collective == "nccl":
        found |= OUTLIVES_PEERS
    if host := spec.place(role, number).host:
        found |= THROUGH_LINKS | {"NCCL_HOSTID": host}
    return found


def share_frac(percent: Sequence[float], role: str, number: int) -> float:
    """The part of a device's multiprocessors that a task may use: workers in turn, all of it others."""
    return percent[number % len(percent)] / 100 if percent and role == "worker" else 1.0


def device_environment(device: int, environ: Mapping[str, str]) -> dict[str, str]:
    """The variables by which a process sees one device and no other."""
    return {VISIBLE: name_of(device, environ), ORDER: order_of(environ)}


def refuse_touched_driver() -> None:
    """Raise ``RuntimeError`` if this process has initialised the driver of a GPU; asks nothing that would.

    Torch does not count ``torch.cuda.is_available()`` as that, and refuses devices to children all the same.
    """
    torch = sys.modules.get("torch")
    if (torch is not None and torch.cuda.is_initialized()) or _holds_driver():
        raise RuntimeError(
            "the agent has initialised the driver of a GPU, so no task that it forks could use one: something that is "
            "imported there (workload.task, backend) asks for a device; it must ask when it is first used"
        )


def _holds_driver() -> bool:
    for path in OPEN_FILES.iterdir():
        with suppress(OSError):  # the listing's own descriptor is closed by now
            if path.readlink().name == DRIVER:
                return True
    return False
