"""The code that runs in a hog's process, and in those that compute on a fake device next to one."""

from __future__ import annotations

import os
import socket

from runtime.backends.devices.choice import FAKE
from runtime.backends.devices.loads import make_load
from runtime.cluster.gpus import device_of
from runtime.live.tasks.gpu_access import NO_MPS, device_environment, share_frac
from runtime.live.tasks.hogs import Hogs, obey
from runtime.live.transport.task_spec import TaskSpec


def device_name(spec: TaskSpec) -> str:
    """The setting ``backend.device`` of the job."""
    return str(spec.backend.get("device"))


def hog_main(spec: TaskSpec, hogs: Hogs, device: int, sock: socket.socket) -> None:
    """Serve until the agent is gone; computes without MPS, so that it has turns of its own."""
    os.environ.update(device_environment(device, os.environ) | NO_MPS)
    time_slice = hogs.time_slice(device)
    assert time_slice is not None
    obey(sock, make_load(device_name(spec), time_slice))


def share_turns(spec: TaskSpec, hogs: Hogs, role: str, number: int) -> None:
    """Let the fake device of this task's process lose what hogs take of it, and be as fast as the task's share."""
    device = device_of(spec.gpus, role, number)
    if device is None or device_name(spec) != FAKE:
        return
    from runtime.backends.devices.fake import FakeDevice  # imported by the backend, and by no other

    FakeDevice.time_slice = hogs.time_slice(device)
    FakeDevice.share_frac = share_frac(spec.mps_percent, role, number)
