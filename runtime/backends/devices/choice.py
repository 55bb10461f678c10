"""The choice of a device: ``backend.device``."""

from __future__ import annotations

from importlib import import_module

from runtime.backends.devices.device import Device

CPU, CUDA, FAKE = "cpu", "cuda", "fake"
DEVICES = (CPU, CUDA, FAKE)


def make_device(name: str, *, exact: bool = True) -> Device | None:
    """The device of this process; None for ``cpu``, which shares the host's memory.

    ``exact``: use bitwise reproducible kernels; the CPU's always are.
    """
    if name == CUDA:
        from runtime.backends.devices.cuda import CudaDevice

        return CudaDevice(exact=exact)
    if name == FAKE:
        from runtime.backends.devices.fake import FakeDevice

        return FakeDevice()
    return None


def preload(name: str) -> None:
    """Import what :func:`make_device` needs, and touch no device."""
    if name != CPU:
        import_module(f"{__package__}.{name}")
