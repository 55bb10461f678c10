"""The choice ``launcher=NAME``: the starter of a run's agents, and their places."""

from __future__ import annotations

from typing import Any, ClassVar, Protocol

from runtime.api import Launcher, RunContext
from runtime.config.parse import Cluster
from runtime.live.joining.site import Site
from runtime.live.transport.loop import Loop


class Starter(Protocol):
    """Finds the machines of a run before its record is opened, then makes what starts agents there."""

    elsewhere: ClassVar[bool]
    """Whether tasks run where nothing of here can look at them."""
    needs_broker: ClassVar[bool]
    """Whether it needs a process outside of the run's namespaces (``Needs.broker``)."""

    def check(self, cluster: Cluster, around: RunContext, port: int) -> None:
        """Raise :class:`ConfigError` for a run that cannot be started so. ``port``: of the coordinator; 0: any."""

    def unable(self) -> dict[str, str]:
        """Commands that cannot be carried out there, with the reason."""

    def await_nodes(self, task: dict[str, Any], framework: str, device: str, port: int) -> None:
        """Wait for the machines of a job with this ``task``; raises :class:`ConfigError` if they do not come.

        ``device``: where gradients are computed, as in ``backend.device``; ``port``: of the coordinator; 0: any.
        """

    def loop(self) -> Loop | None:
        """The loop on which it waits for them while a job runs; None: on no loop."""

    def site(self) -> Site:
        """The machines, for one job."""

    def make(self) -> Launcher:
        """Make the starter of one job's agents."""

    def release(self) -> None:
        """The lab is over."""

    def describe(self) -> list[dict[str, Any]]:
        """The machines, for the record; none: this one, which is described anyway."""
