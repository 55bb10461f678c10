"""A model's vectors on a device, and their way from and to the vectors of the data plane, which stay on the host."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, final

from runtime.backends.devices.device import WHOLE, Device, Transfer
from runtime.core.vectors import FloatVector, aligned_vector

if TYPE_CHECKING:
    from torch import Tensor


@final
class Staging:
    """``params`` and ``grad`` are float32 [num_floats] on ``device``."""

    def __init__(self, device: Device, num_floats: int) -> None:
        self.device = device
        self.params, self.grad = device.vector(num_floats), device.vector(num_floats)
        self._sum: Tensor | None = None
        self._losses: tuple[Tensor, FloatVector] | None = None
        self._host_grad: FloatVector | None = None
        self._upload: Transfer | None = None
        self._parts: list[Transfer] = []
        """Parts of the gradient that are on their way; empty: it goes as a whole."""

    def bring(self, params: FloatVector, grad: FloatVector) -> None:
        """Start to copy parameters to the device; kernels from now on see them. Gradients will go to ``grad``."""
        self.device.pin(params)
        self.device.pin(grad)
        self._host_grad = grad
        self.device.copies_wait_for_kernels()  # those that still read the parameters before
        self._upload = self.device.upload(params, self.params)
        self.device.kernels_wait_for(self._upload)

    def take(self, losses: Sequence[Tensor] = ()) -> tuple[float, list[float]]:
        """Copy the gradient to the host, and losses (float32 scalars of the device) with it, complete on return.

        Returns the seconds of copying parameters and gradient since :meth:`bring`, and the losses. They travel
        together, since the host waits for its turn on a shared device each time that it waits.
        """
        if not self._parts:
            self.send(WHOLE)
        sent = self._send_losses(losses) if losses else None
        parts, self._parts = self._parts, []
        staged_s = self.settle() + sum(part.finish() for part in parts)
        if sent is None:
            return staged_s, []
        transfer, values = sent
        transfer.finish()
        return staged_s, values.tolist()

    def _send_losses(self, losses: Sequence[Tensor]) -> tuple[Transfer, FloatVector]:
        """Start to copy them to the host; returns where they will be."""
        import torch

        if self._losses is None or len(self._losses[1]) < len(losses):
            self._losses = self.device.vector(len(losses)), aligned_vector(len(losses))
            self.device.pin(self._losses[1])
        (there, here), part = self._losses, slice(0, len(losses))
        torch.stack(tuple(losses), out=there[part])  # by one kernel
        self.device.copies_wait_for_kernels()
        return self.device.download(there, here, part), here[part]

    def send(self, part: slice) -> None:
        """Start to copy a part of the gradient to the host: kernels that are launched so far have written it."""
        assert self._host_grad is not None, "no vectors are attached"
        self.device.copies_wait_for_kernels()
        self._parts.append(self.device.download(self.grad, self._host_grad, part))

    def settle(self) -> float:
        """Wait until the host may change the parameters; returns the seconds of copying them, once."""
        upload, self._upload = self._upload, None
        return 0.0 if upload is None else upload.finish()

    def lend(self, host: FloatVector) -> Tensor:
        """A copy of another host vector on the device, for kernels from now on, until the next call."""
        if self._sum is None:
            self._sum = self.device.vector(len(host))
        self.device.pin(host)
        self.device.copies_wait_for_kernels()
        self.device.kernels_wait_for(self.device.upload(host, self._sum))
        return self._sum

    def fetch(self, there: Tensor, host: FloatVector) -> None:
        """Copy a vector of the device to the host when the kernels launched so far have run; complete on return."""
        self.device.pin(host)
        self.device.copies_wait_for_kernels()
        self.device.download(there, host).finish()
