"""Arithmetic on a GPU that repeats itself to the bit, and is that of the CPU but for the order of sums."""

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

    torch.set_deterministic_debug_mode("error")  # what use_deterministic_algorithms does, which imports a compiler: 2 s
    safeguards: Any = torch.utils.deterministic
    safeguards.fill_uninitialized_memory = False  # a pass over every new tensor
    torch.set_float32_matmul_precision("highest")
    torch.backends.cudnn.allow_tf32 = False
    torch.backends.cudnn.benchmark = False
