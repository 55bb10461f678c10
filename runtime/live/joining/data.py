"""A fingerprint of a task's prepared data, so that machines with other data are refused."""

from __future__ import annotations

import hashlib
from typing import Any

import numpy as np

from runtime.config.instantiate import instantiate
from runtime.live.joining.wire import Prepared

WHOLE_BYTES = 256 << 20
"""An array up to this size is read whole, of a larger one only ``SAMPLED`` samples, evenly spread."""
SAMPLED = 4096


def prepare(spec: dict[str, Any]) -> Prepared:
    """Prepare the data of the task that ``spec`` names, as a run does, and take their fingerprint."""
    try:
        task = instantiate(spec)
        num_samples = int(task.prepare())
        return Prepared(num_samples=num_samples, sha256=fingerprint(task))
    except (ValueError, OSError) as error:
        return Prepared(problem=" ".join(str(error).split()))


def fingerprint(task: Any) -> str:
    """SHA-256 of the arrays that ``task.load()`` returns; empty for a task without files."""
    load = getattr(task, "load", None)
    if load is None:
        return ""
    digest, split = hashlib.sha256(), load()
    for array in (*split.train, *split.test):
        digest.update(f"{array.shape} {array.dtype.str}\0".encode())
        rows = array if array.nbytes <= WHOLE_BYTES else array[:: max(1, len(array) // SAMPLED)]
        digest.update(np.ascontiguousarray(rows).data.cast("B") if rows.size else b"")
    return digest.hexdigest()
