"""The squared norm of a weighted sum of gradients, before any optimizer's rule.

All additions are numpy's own, in an order that depends on the length alone: no matrix library is involved, whose
results depend on its threads. So a server and the virtual clock get the same bits from the same part of the vector.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from runtime.core.vectors import FloatVector
from runtime.training.optimizers import BLOCK


def sum_sqr_norm(grads: Sequence[FloatVector], weights: Sequence[float]) -> float:
    """|sum_k weights[k] * grads[k]|^2 in double precision, block by block; the float32 vectors are not modified."""
    total, num_elements = 0.0, len(grads[0])
    combined, term = np.empty(min(BLOCK, num_elements)), np.empty(min(BLOCK, num_elements))
    for lo in range(0, num_elements, BLOCK):
        hi = min(lo + BLOCK, num_elements)
        block, spare = combined[: hi - lo], term[: hi - lo]
        np.multiply(grads[0][lo:hi], weights[0], out=block, dtype=float)
        for grad, weight in zip(grads[1:], weights[1:], strict=True):
            np.multiply(grad[lo:hi], weight, out=spare, dtype=float)
            np.add(block, spare, out=block)
        np.multiply(block, block, out=block)
        total += float(np.add.reduce(block))
    return total
