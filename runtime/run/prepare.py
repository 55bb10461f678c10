"""What surrounds a run: a janitor for what namespaces do not take away, then the namespaces."""

from __future__ import annotations

from runtime.api import Needs
from runtime.containment import contain


def prepare(needs: Needs) -> None:
    """Go on inside what the run needs; the process that called stays outside, and never returns from here."""
    if needs.janitor:
        from runtime.live.machines.janitor_process import the_janitor

        the_janitor()
    contain(needs.isolation)
