"""Resources of a live job: its share of the lab, and its settings."""

from __future__ import annotations

from typing import NamedTuple

from injectors.schedule import Schedule
from runtime.api import Launcher, RunSpec
from runtime.cluster.gpu_hogs import DeviceUsers
from runtime.core.reservations import Reservations
from runtime.live.control.settings import Processes
from runtime.live.joining.site import Site
from runtime.live.machines.machines import HostMachines
from runtime.live.machines.shared import SharedMachines
from runtime.live.transport.loop import Loop


class JobResources(NamedTuple):
    """The place of a job in a lab."""

    name: str
    """Of the job among several; empty for one that is alone."""
    loop: Loop
    """The lab's, whose turns also turn the job's loop."""
    machines: SharedMachines
    launcher: Launcher
    """Starts the agents of this job."""
    reservations: Reservations | None = None
    """Answers what it reserves of hosts that it shares; None: it has what it needs."""


class JobSetup(NamedTuple):
    """The common arguments of a job's parts."""

    loop: Loop
    """Of the job: it has a clock of its own."""
    secret: bytes
    launcher: Launcher
    machines: HostMachines
    """With the tasks of the start."""
    site: Site
    spec: RunSpec
    schedule: Schedule
    processes: Processes
    users: DeviceUsers
    threads: int
    """That a worker computes with."""
    reservations: Reservations | None = None
    """As its resources have them."""

    @property
    def paces_links(self) -> bool:
        """Whether tasks pace their connections, as links of machines elsewhere are disturbed."""
        return self.site.elsewhere and "bandwidth" in self.schedule.kinds
