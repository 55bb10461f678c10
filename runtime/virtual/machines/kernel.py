"""The compiled kernel of shared machines (``runtime/virtual/compiled``), and the clocks that go with it.

The timeline of a lab is compiled where the kernel is built. Processors and links that tasks share exist in the kernel
alone. Without it, a job that shares nothing runs on the timeline of :mod:`runtime.virtual.clock`; others are refused.
"""

from __future__ import annotations

import os
from typing import Any

from runtime.errors import ConfigError
from runtime.native import HOSTS, OFF, SWITCH, native
from runtime.virtual.clock import Clock, Timeline

COMPILED: Any = native(HOSTS)
"""The module; None: it is not built, or switched off."""
BUILD = (
    "which is not built here: install a C compiler and Python's headers (Debian: apt-get install gcc python3-dev), "
    "then touch setup.py && make setup"
)
SWITCHED_OFF = f"which {SWITCH}={OFF} switches off: unset it"


def kernel() -> Any:
    """The module; ``compiled/_hosts.pyi`` is its interface.

    Raises:
        ConfigError: if there is none.
    """
    if COMPILED is None:
        raise ConfigError(missing("runtime=virtual: shared machines"))
    return COMPILED


def missing(what: str) -> str:
    """One line: ``what`` needs the kernel, which is not there, and the cure."""
    cure = SWITCHED_OFF if os.environ.get(SWITCH) == OFF else BUILD
    return f"{what} need the compiled kernel of the virtual clock, {cure}"


def new_timeline() -> Timeline:
    """The timeline of a lab."""
    made: Timeline = Timeline() if COMPILED is None else COMPILED.Timeline()
    return made


def new_clock(timeline: Timeline | None = None, offset_s: float = 0.0) -> Clock:
    """The clock of a job that starts at ``offset_s`` of a timeline, by default one of its own."""
    timeline = timeline or new_timeline()
    made: Clock = Clock(timeline, offset_s) if isinstance(timeline, Timeline) else COMPILED.Clock(timeline, offset_s)
    return made
