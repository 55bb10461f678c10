"""Compiled twins of Python modules: used where they were built (``setup.py``), never needed."""

from __future__ import annotations

import importlib
import os
from types import ModuleType

from runtime.house import module_name

SWITCH = "STRAGGLAB_NATIVE"
"""Environment variable: 0 uses the Python twins, 1 refuses to go on without the compiled ones."""
OFF = "0"
HOSTS = "runtime.virtual.compiled._hosts"
"""The clock and the model of shared machines."""
JITTER = "runtime.virtual.tasks._jitter"
"""The memory of jitter."""
EVENTS = "runtime.virtual.event_loop._events"
"""The event path of jobs whose members do not change."""
UPDATES = "runtime.training._updates"
"""Updates that add gradients to parameters."""
HALVES = "runtime.live.transport._halves"
"""Floats of 16 bits."""
TICKS = "runtime.live.machines._ticks"
"""Threads that wake up."""
SLOWER = (
    "virtual hosts take about four times as long, since their model is not compiled here: install a C compiler and "
    "Python's headers (Debian: apt-get install gcc python3-dev), then touch setup.py && make setup"
)


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


def slower() -> str:
    """One line: virtual hosts are slower than they could be, and the cure. Empty if not, or if that is wanted."""
    return "" if os.environ.get(SWITCH) == OFF or native(HOSTS) else SLOWER
