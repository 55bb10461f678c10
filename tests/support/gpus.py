"""Tests that need a GPU say so, and why they skip; nothing here imports torch or asks the driver.

``make gpu DEVICE=fake`` (the variable of :data:`VARIABLE`) runs them on the fake device instead, so that they are tried
before there is hardware: all but those that only hardware can show.
"""

from __future__ import annotations

import os
import shutil

import pytest

from runtime.backends.devices.found import num_devices, torch_cuda
from runtime.live.machines.mps import PROGRAM

VARIABLE = "STRAGGLAB_GPU_DEVICE"
DEVICE = os.environ.get(VARIABLE, "cuda")
"""``backend.device`` of these tests."""
ON_HARDWARE = DEVICE == "cuda"


def lacking(devices: int = 1, *, hardware: bool = False) -> str:
    """What this machine lacks; empty: nothing. ``hardware``: a fake device does not do."""
    if not ON_HARDWARE:
        return f"only a GPU shows it, and {VARIABLE}={DEVICE}" if hardware else ""
    if torch_cuda() is None:
        return "torch was built without CUDA"
    found = num_devices()
    return "" if found >= devices else f"needs {devices} NVIDIA GPUs, and {found} are visible"


def needs_gpus(devices: int = 1, *, hardware: bool = False) -> list[pytest.MarkDecorator]:
    """Marks for tests that need so many; see :func:`lacking`."""
    why = lacking(devices, hardware=hardware)
    return [pytest.mark.gpu, pytest.mark.skipif(bool(why), reason=why)]


needs_mps = pytest.mark.skipif(ON_HARDWARE and shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not installed")
