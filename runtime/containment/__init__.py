"""Keeps a run's processes together, so that nothing of it outlives it however it ends."""

import sys

from runtime.containment.contain import Isolation, contain, inside, obstacle

__all__ = ["Isolation", "contain", "inside", "is_linux", "obstacle"]


def is_linux() -> bool:
    """Whether this is Linux, which containment relies on."""
    return sys.platform.startswith("linux")
