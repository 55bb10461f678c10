"""The live runtime: operating-system processes, sockets, real gradients, real clocks."""

from runtime.live.runtime import LiveRuntime

__all__ = ["LiveRuntime"]
