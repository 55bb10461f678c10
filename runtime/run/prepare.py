"""Preparation of a run: a janitor for leftovers of namespaces, a broker of machines elsewhere, the namespaces."""

from __future__ import annotations

from typing import TYPE_CHECKING

from runtime.containment import contain
from runtime.containment.process import keep_private

if TYPE_CHECKING:
    from runtime.api import Needs


def prepare(needs: Needs) -> None:
    """Continue inside the namespaces that the run needs; the calling process stays outside and never returns."""
    keep_private()
    if needs.janitor:
        from runtime.live.machines.janitor_process import the_janitor

        the_janitor()
    if needs.broker:
        from runtime.live.launchers.ray.broker import the_broker

        the_broker()
    contain(needs.isolation)
