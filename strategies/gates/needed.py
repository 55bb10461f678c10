"""How many gradients an update waits for (pure)."""

from __future__ import annotations

from math import ceil


def three_quarters(num_workers: int) -> int:
    """Three quarters of the workers, rounded up: where nothing else is said."""
    return ceil(0.75 * num_workers)


def check_most(name: str, value: int | None, num_workers: int) -> None:
    """Raise ``ValueError`` if more gradients are waited for than there are workers; None: nothing is said."""
    if value is not None and value > num_workers:
        raise ValueError(f"{name}={value}: must be at most the number of workers ({num_workers})")
