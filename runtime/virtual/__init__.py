"""``runtime=virtual``: the same jobs on a virtual clock, with real gradients and modelled time."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from runtime.virtual.runtime import VirtualRuntime

__all__ = ["VirtualRuntime"]


def __getattr__(name: str) -> Any:
    """Import the runtime when it is asked for: importing a single package below does not wait for all of them."""
    if name not in __all__:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    from runtime.virtual import runtime

    return getattr(runtime, name)
