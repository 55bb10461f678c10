"""A fake device's substitute for a CUDA graph: operations with the memory that they read and write.

A replay runs the same operations on that memory, even if the program would launch others by then. As on a GPU, nothing
has run when the recording ends: results of the operations are NaN until the first replay.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils._pytree import tree_leaves

WAITING = {"_local_scalar_dense", "nonzero", "masked_select", "_unique2", "equal"}
"""Operations whose result the host must know to continue."""


class _Call:
    """One operation; ``made`` are results in memory of their own, by their places among all results."""

    def __init__(self, of: Any, args: Any, kwargs: Any, results: Any) -> None:
        self.of, self.args, self.kwargs = of, args, kwargs
        self.grad_mode = torch.is_grad_enabled()
        given = {_place(one) for one in tree_leaves((args, kwargs)) if isinstance(one, Tensor)}
        self.made = {
            number: one
            for number, one in enumerate(tree_leaves(results))
            if isinstance(one, Tensor) and _place(one) not in given
        }

    def run(self) -> None:
        with torch.set_grad_enabled(self.grad_mode):  # some operations keep less without it
            results = tree_leaves(self.of(*self.args, **self.kwargs))
        for number, one in self.made.items():
            one.copy_(results[number])


class _Recorder(TorchDispatchMode):  # type: ignore[no-untyped-call]
    def __init__(self) -> None:
        super().__init__()  # type: ignore[no-untyped-call]
        self.calls: list[_Call] = []

    @classmethod
    def _should_skip_dynamo(cls) -> bool:
        """Torch would import its compiler for that, for seconds and with a folder of its own."""
        return False

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        if func.overloadpacket.__name__ in WAITING:
            raise RuntimeError(f"{func}: operation not permitted when stream is capturing")
        results = func(*args, **(kwargs or {}))
        self.calls.append(_Call(func, args, kwargs or {}, results))
        return results


def record(kernels: Callable[[], object]) -> Callable[[], None]:
    """Run ``kernels()`` and return what runs its operations again; raises ``RuntimeError`` if one would wait."""
    with _Recorder() as recorder:
        kernels()
    for call in recorder.calls:
        for one in call.made.values():
            if one.is_floating_point():
                one.fill_(torch.nan)

    def replay() -> None:
        with torch._C._AutoDispatchBelowAutograd():  # as when they were recorded
            for call in recorder.calls:
                call.run()

    return replay


def _place(tensor: Tensor) -> int:
    return tensor.untyped_storage().data_ptr()
