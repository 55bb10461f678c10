"""Which twin of the model of shared machines a lab uses: the compiled one where it was built (:mod:`runtime.native`).

The clock decides: whatever is made for a compiled clock is compiled. Records are the same to the last bit.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from runtime.native import HOSTS, native
from runtime.virtual.clock import Clock, Timeline
from runtime.virtual.machines.sharing import Sharing
from runtime.virtual.machines.task_work import Path, TaskWork, Way

COMPILED: Any = native(HOSTS)
"""The module of the compiled classes; None: there is none."""


def new_timeline() -> Timeline:
    """The timeline of a lab."""
    made: Timeline = Timeline() if COMPILED is None else COMPILED.Timeline()
    return made


def new_clock(timeline: Timeline | None = None, offset_s: float = 0.0) -> Clock:
    """The clock of a job that starts at ``offset_s`` of a timeline, by default one of its own."""
    timeline = timeline or new_timeline()
    made: Clock = Clock(timeline, offset_s) if isinstance(timeline, Timeline) else COMPILED.Clock(timeline, offset_s)
    return made


def is_compiled(clock: Clock) -> bool:
    """Whether what is made for this clock is compiled."""
    return COMPILED is not None and isinstance(clock, COMPILED.Clock)


def sharing_on(clock: Clock, capacities: Mapping[str, float]) -> Sharing:
    """Resources with these capacities, whose activities follow a clock."""
    made: Sharing = COMPILED.Sharing(clock, capacities) if is_compiled(clock) else Sharing(clock, capacities)
    return made


def task_work_on(clock: Clock, processors: Sharing, links: Sharing, way_of: Callable[[Path], Way]) -> TaskWork:
    """What tasks do with these resources."""
    kind = COMPILED.TaskWork if is_compiled(clock) else TaskWork
    made: TaskWork = kind(clock, processors, links, way_of)
    return made
