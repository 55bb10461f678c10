"""The interface of a device that has its own memory.

Kernels run in the order in which they are launched; copies run at the same time, in their own order, and neither waits
for the other unless it is ordered to. A copy that has been started reads and writes host memory until it is finished.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Protocol

from runtime.core.vectors import FloatVector

if TYPE_CHECKING:
    from torch import Tensor


WHOLE = slice(None)


class Transfer(Protocol):
    """A copy that has been started."""

    def finish(self) -> float:
        """Wait until it is complete; returns the seconds that it took, by the device's clock."""


class Device(Protocol):
    """One device. Raises what :func:`runtime.errors.is_device_full` knows when its memory is not enough."""

    torch_name: str
    """The device's name in torch."""

    def vector(self, num_floats: int) -> Tensor:
        """Float32 [num_floats] in its memory, with undefined content."""

    def pin(self, host: FloatVector) -> None:
        """Lock the pages of a host vector, once: without that, copies would wait for the host."""

    def upload(self, host: FloatVector, there: Tensor) -> Transfer:
        """Start to copy a pinned host vector to a :meth:`vector`, after all copies that were started before."""

    def download(self, there: Tensor, host: FloatVector, part: slice = WHOLE) -> Transfer:
        """Start to copy a part of a :meth:`vector` to the same part of a pinned host vector, after earlier copies."""

    def kernels_wait_for(self, transfer: Any) -> None:
        """Kernels that are launched from now on run after this transfer of its own."""

    def copies_wait_for_kernels(self) -> None:
        """Copies that are started from now on run after all kernels launched before."""

    def place(self, values: Tensor) -> Tensor:
        """A copy of a host tensor in its memory for kernels from now on; the tensor may be changed on return."""

    def record(self, kernels: Callable[[], object]) -> Callable[[], None]:
        """Record the kernels that ``kernels()`` launches; returns what launches all of them again, on the same memory.

        Some of them may have run, to warm up, and none need have: afterwards what they write is undefined. Raises
        ``RuntimeError`` if ``kernels()`` waits for the device, or copies anything between it and the host.
        """
