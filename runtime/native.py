"""Compiled modules: the kernel of shared machines, and faster twins of Python modules (``setup.py`` builds them)."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from runtime.house import module_name

SWITCH = "STRAGGLAB_NATIVE"
"""Environment variable: 0 uses no compiled module, 1 refuses to go on without one."""
OFF = "0"
HOSTS = "runtime.virtual.compiled._hosts"
"""The clock and the kernel of shared machines, which has no twin."""
EVENTS = "runtime.virtual.event_loop._events"
"""The event path of jobs whose members do not change."""
UPDATES = "runtime.training._updates"
"""Updates that add gradients to parameters."""
BFLOAT16 = "runtime.live.transport._bfloat16"
"""Floats of 16 bits."""
TICKS = "runtime.live.machines._ticks"
"""Threads that wake up."""


def native(module: str) -> ModuleType | None:
    """The compiled module of this name; None if it was not built, or is switched off.

    Raises:
        ImportError: if it was not built and is required.
    """
    wish = os.environ.get(SWITCH, "")
    if wish == OFF:
        return None
    try:
        return importlib.import_module(module_name(module))
    except ImportError:
        if wish == "1":
            raise
        return None
