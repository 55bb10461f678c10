"""The live runtime: operating-system processes, sockets, real gradients, real clocks."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.live.runtime import LiveRuntime

__all__ = ["LiveRuntime"]


def __getattr__(name: str) -> Any:
    """Import the runtime when it is asked for: importing a single package below does not wait for all of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from runtime.live import runtime

    return getattr(runtime, name)
