"""A virtual job's reports at its own times: disturbances, the work of servers, the use of all tasks."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from functools import partial
from typing import final

from injectors.schedule import Schedule
from runtime.core import inputs
from runtime.core.coordinator import Coordinator
from runtime.virtual.clock import TIMER, Clock
from runtime.virtual.control.usage import Usage
from runtime.virtual.tasks.servers import REPORT_EVERY_S, BusyServer, ServerGroup
from strategies.protocol import NodeUse

Note = Callable[..., None]


@final
class Reports:
    """Actions of a job's clock that repeat themselves; while the job has no places, those about its tasks rest.

    Args:
        clock: the job's.
        schedule: what is injected when.
        servers: the holders of parameters.
        coordinator: receives it.
        usage: of all tasks and hosts.
        tell: passes an input to the coordinator, now or when it is free.
        note: writes to the record.
    """

    def __init__(
        self,
        clock: Clock,
        schedule: Schedule,
        servers: ServerGroup,
        coordinator: Coordinator,
        usage: Usage,
        *,
        tell: Callable[[inputs.AnyInput], None],
        note: Note,
    ) -> None:
        self.clock, self.schedule, self.servers = clock, schedule, servers
        self.coordinator, self.usage = coordinator, usage
        self._tell, self._note = tell, note
        self.rests = False
        """Whether nobody is there."""
        self.watched: Callable[[Sequence[NodeUse]], None] | None = None
        """Called with every sample, where somebody else keeps what jobs use."""
        self._silent: list[Callable[[], None]] = []
        """Reports that have been left out meanwhile."""

    def begin(self, every_s: float | None) -> None:
        """All but the disturbances, which :meth:`announce` begins; ``every_s``: between two samples, None: none."""
        self.clock.at(REPORT_EVERY_S, TIMER, self.serve)
        if every_s is not None:
            self.observe(every_s)

    def resume(self) -> None:
        """Everybody is there again."""
        self.rests = False
        silent, self._silent = self._silent, []
        for report in silent:
            report()

    def announce(self) -> None:
        """Record which disturbances are open, now and whenever that changes."""
        now = self.clock.now
        self._note("Injecting", active=self.schedule.active(now))
        if math.isfinite(following := self.schedule.next_change(now)):
            self.clock.at(following, TIMER, self.announce)

    def observe(self, every_s: float) -> None:
        """Report what everybody has used, and do so again."""
        if self.rests:
            self._silent.append(partial(self.observe, every_s))
            return
        period_s, nodes = self.usage.sample(self.clock.now)
        if nodes:
            if self.watched is not None:
                self.watched(nodes)
            self._tell(inputs.Observed(period_s, nodes))
        self.clock.at(self.clock.now + every_s, TIMER, self.observe, every_s)

    def serve(self) -> None:
        """Report what the servers have done, every so many seconds of their time."""
        if self.rests:
            self._silent.append(self.serve)
            return
        version = self.coordinator.version
        for about in self.servers.report():
            busy = busy_of(about, version)
            self.usage.served(about.server, about.busy_s, about.injected_s)
            if self.coordinator.strategy.watches_servers:
                self._tell(busy)
            else:
                self.coordinator.receive(self.clock.now, busy)
        self.clock.at(self.clock.now + REPORT_EVERY_S, TIMER, self.serve)

    def only_notes(self, action: Callable[..., None]) -> bool:
        """Whether an action only writes notes, which takes neither time nor decisions."""
        if action == self.serve:
            return not self.coordinator.strategy.watches_servers
        return action == self.announce


def busy_of(about: BusyServer, version: int) -> inputs.ServerBusy:
    """Return a server's work, as an input of the coordinator."""
    return inputs.ServerBusy(about.server, version, about.updates, about.busy_s, about.injected_s)
