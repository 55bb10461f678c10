"""Tests that need a GPU say so, and why they skip; nothing here imports torch or asks the driver."""

from __future__ import annotations

import shutil

import pytest

from runtime.backends.devices.found import num_devices, torch_cuda
from runtime.live.machines.mps import PROGRAM


def lacking(devices: int = 1) -> str:
    """What this machine lacks; empty: nothing."""
    if torch_cuda() is None:
        return "torch was built without CUDA"
    found = num_devices()
    return "" if found >= devices else f"needs {devices} NVIDIA GPUs, and {found} are visible"


def needs_gpus(devices: int = 1) -> list[pytest.MarkDecorator]:
    """Marks for tests that need so many."""
    why = lacking(devices)
    return [pytest.mark.gpu, pytest.mark.skipif(bool(why), reason=why)]


needs_mps = pytest.mark.skipif(shutil.which(PROGRAM) is None, reason=f"{PROGRAM} is not installed")
