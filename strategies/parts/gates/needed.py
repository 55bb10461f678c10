"""How many gradients an update waits for (pure)."""

from __future__ import annotations

from math import ceil


def three_quarters(num_workers: int) -> int:
    """Three quarters of the workers, rounded up: the default K."""
    return ceil(0.75 * num_workers)


def check_most(name: str, value: int | None, num_workers: int) -> None:
    """Raise ``ValueError`` if ``value`` exceeds the number of workers; None stands for the default."""
    if value is not None and value > num_workers:
        raise ValueError(f"{name}={value}: must be at most the number of workers ({num_workers})")
