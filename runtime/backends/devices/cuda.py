"""A GPU by CUDA: the first that this process may see (``CUDA_VISIBLE_DEVICES``).

Its copies have a stream of their own and are timed by events. Only a process that computes makes one: a process that
has initialised the driver must not be forked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, final

import torch
from torch import Tensor

from runtime.backends.devices.device import WHOLE
from runtime.backends.devices.exact import make_exact
from runtime.core.vectors import FloatVector

_CUDA: Any = torch.cuda  # its functions have no types
WARM_UPS = 3
"""Before kernels are recorded, libraries choose them and get their memory (PyTorch, "CUDA semantics", CUDA graphs)."""


@final
class CudaTransfer:
    """A copy on the copy stream, between two events."""

    def __init__(self, begun: Any, ended: Any) -> None:
        self.begun, self.ended = begun, ended

    def finish(self) -> float:
        self.ended.synchronize()
        return float(self.begun.elapsed_time(self.ended)) / 1e3


@final
class CudaDevice:
    """Kernels run on torch's current stream, copies on another; pinned vectors stay so until the process ends."""

    def __init__(self, *, exact: bool = True) -> None:
        if exact:
            make_exact()
        self.torch_name = "cuda:0"
        self._copies = _CUDA.Stream()
        self._pinned: dict[int, FloatVector] = {}

    def vector(self, num_floats: int) -> Tensor:
        return torch.empty(num_floats, dtype=torch.float32, device=self.torch_name)

    def pin(self, host: FloatVector) -> None:
        """Raises ``RuntimeError`` if the driver refuses.

        Also if a part of it is locked already (712): then not all of it need be, and the runtime would report the same
        error again after the next kernel, since nothing that torch offers clears it.
        """
        place = host.ctypes.data
        if not host.nbytes or (place in self._pinned and self._pinned[place].nbytes >= host.nbytes):
            return
        code = int(_CUDA.cudart().cudaHostRegister(place, host.nbytes, 0))
        if code:
            raise RuntimeError(
                f"CUDA error {code}: cannot lock {host.nbytes} bytes of a host vector (cudaHostRegister)"
            )
        self._pinned[place] = host  # so that nobody else gets this memory

    def upload(self, host: FloatVector, there: Tensor) -> CudaTransfer:
        return self._copy(torch.from_numpy(host), there)

    def download(self, there: Tensor, host: FloatVector, part: slice = WHOLE) -> CudaTransfer:
        return self._copy(there[part], torch.from_numpy(host)[part])

    def kernels_wait_for(self, transfer: CudaTransfer) -> None:
        _CUDA.current_stream().wait_event(transfer.ended)

    def copies_wait_for_kernels(self) -> None:
        self._copies.wait_stream(_CUDA.current_stream())

    def place(self, values: Tensor) -> Tensor:
        return values.pin_memory().to(self.torch_name, non_blocking=True)

    def record(self, kernels: Callable[[], object]) -> Callable[[], None]:
        now, aside = _CUDA.current_stream(), _CUDA.Stream()
        aside.wait_stream(now)
        with _CUDA.stream(aside):
            for _ in range(WARM_UPS):
                kernels()
        now.wait_stream(aside)
        graph = _CUDA.CUDAGraph()
        with _CUDA.graph(graph):
            kernels()
        replay: Callable[[], None] = graph.replay
        return replay

    def _copy(self, source: Tensor, target: Tensor) -> CudaTransfer:
        begun, ended = (_CUDA.Event(enable_timing=True) for _ in range(2))
        with _CUDA.stream(self._copies):
            begun.record()
            target.copy_(source, non_blocking=True)
            ended.record()
        return CudaTransfer(begun, ended)
