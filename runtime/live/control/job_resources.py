"""What a lab gives to one of its jobs."""

from __future__ import annotations

from typing import NamedTuple

from runtime.api import Launcher
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.loop import Loop


class JobResources(NamedTuple):
    """The place of a job in a lab."""

    name: str
    """Of the job among several; empty for one that is alone."""
    loop: Loop
    """The lab's, in whose turns that of the job is turned."""
    machines: SharedMachines
    launcher: Launcher
    """Starts the agents of this job."""
