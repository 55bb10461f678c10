"""Modules whose parameters are set from elsewhere: to draw PyTorch's own initial values first would only take time."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import torch
from torch.overrides import TorchFunctionMode

FILLS = frozenset({torch.Tensor.uniform_, torch.Tensor.normal_, torch.Tensor.fill_, torch.Tensor.zero_})
"""Methods called by functions of ``torch.nn.init`` that a mode does not see, such as ``xavier_uniform_``."""


class Unfilled(TorchFunctionMode):
    """Layers made in this context leave the memory of their parameters as it is; buffers have their values.

    Memory that is never touched takes no room either.
    """

    def __torch_function__(
        self, func: Any, types: Iterable[type], args: tuple[Any, ...] = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        """Skip what ``torch.nn.init`` does, and whole parameters' fills; all else is done."""
        given = dict(kwargs or {})
        if getattr(func, "__module__", "") == torch.nn.init.__name__:
            return args[0] if args else given["tensor"]
        if func in FILLS and isinstance(args[0], torch.nn.Parameter):
            return args[0]
        return func(*args, **given)
