"""What keeps a run's processes together, so that nothing of it outlives it however it ends."""

from runtime.containment.contain import Isolation, contain, inside, obstacle

__all__ = ["Isolation", "contain", "inside", "obstacle"]
