"""Sessions on the virtual clock in labs of their own."""

from __future__ import annotations

from runtime.api import Outcome
from runtime.virtual.control.session import VirtualSession
from runtime.virtual.lab import VirtualLab


def run_alone(session: VirtualSession) -> Outcome:
    """In a lab with this one job."""
    lab = VirtualLab()
    lab.timeline = session.clock.timeline
    lab.add("job", lambda clock, tenancy: session)
    return lab.run()["job"]
