"""Bitwise reproducible arithmetic on a GPU, which differs from the CPU's only in the order of sums."""

from __future__ import annotations

import os
from typing import Any

CUBLAS = ("CUBLAS_WORKSPACE_CONFIG", ":4096:8")
"""Without it, cuBLAS may sum in another order from call to call (CUDA's documentation of cuBLAS, section 2.1.4)."""


def make_exact() -> None:
    """Set this process to deterministic kernels in full float32, before its first operation on a device.

    An operation that has no deterministic kernel raises ``RuntimeError`` and says so.
    """
    os.environ.setdefault(*CUBLAS)
    import torch

    torch.set_deterministic_debug_mode("error")  # as use_deterministic_algorithms, but imports no compiler: saves 2 s
    safeguards: Any = torch.utils.deterministic
    safeguards.fill_uninitialized_memory = False  # a pass over every new tensor
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
