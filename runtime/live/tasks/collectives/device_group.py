"""NCCL among replicas that each have a GPU: it sums vectors on the devices, and the sum comes back to the host once."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, ClassVar, final

from runtime.backends.devices.staging import Staging
from runtime.core.vectors import FloatVector
from runtime.live.tasks.collectives.torch_groups import DEADLINE, TorchGroup
from runtime.live.transport.auth import Identity


@final
class DeviceGroup(TorchGroup):
    """One member's end. ``staging`` has the vectors of its device.

    ``as_computed``: the next vector is the gradient that the device computed last, so it need not be brought there.
    """

    backend: ClassVar[str] = "nccl"

    def __init__(self, folder: str, me: Identity, address: str, look: Callable[[], None], staging: Staging) -> None:
        super().__init__(folder, me, address, look)
        self.staging = staging
        self.as_computed = False

    def _make(self, store: Any, rank: int, size: int) -> Any:
        import torch.distributed as dist

        return dist.ProcessGroupNCCL(store, rank, size, dist.ProcessGroupNCCL.Options())

    def _sum(self, vector: FloatVector) -> None:
        """Kernels run in order, and NCCL's wait for them; so the copy back need only wait for kernels."""
        there = self.staging.grad if self.as_computed else self.staging.lend(vector)
        self._group.allreduce([there]).wait(DEADLINE)
        self.staging.fetch(there, vector)
