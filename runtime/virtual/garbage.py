"""How often Python looks for cycles among the objects of a lab."""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager

THRESHOLDS = (10_000, 10, 100)
"""For young, middle and all objects, see ``gc.set_threshold``."""


@contextmanager
def rare_collections() -> Iterator[None]:
    """Look less often, as next to nothing that ends in a job is part of a cycle.

    By default all objects are looked at four times per round of a large job, which is half of its time with 10,000
    workers. Garbage of cycles stays below some megabytes.
    """
    before = gc.get_threshold()
    gc.set_threshold(*THRESHOLDS)
    try:
        yield
    finally:
        gc.set_threshold(*before)
