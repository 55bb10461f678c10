"""``runtime=virtual``: the same jobs on a virtual clock, with real gradients and modelled time."""

from runtime.virtual.runtime import VirtualRuntime

__all__ = ["VirtualRuntime"]
