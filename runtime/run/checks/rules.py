"""The combinations of one job's settings that are refused, in their order."""

from __future__ import annotations

from typing import Any

from runtime.cluster.requests import REQUESTS
from runtime.config.abilities import UNABLE
from runtime.config.rules import Rule
from runtime.run.checks.backends import BACKENDS
from runtime.run.checks.devices import DEVICES
from runtime.run.checks.facts import Facts
from runtime.run.checks.hogs import HOGS
from runtime.run.checks.strategies import STRATEGIES
from runtime.run.checks.topologies import TOPOLOGIES
from runtime.virtual.control.refusals import HIDDEN

OF_JOB: tuple[Rule[Facts], ...] = (*BACKENDS, *STRATEGIES, *TOPOLOGIES, *DEVICES)
"""Rules of one job, for all disturbances."""
SECTIONS: dict[str, tuple[Rule[Any], ...]] = {
    "Backends, runtimes and records": BACKENDS,
    "Strategies": STRATEGIES,
    "Topologies": TOPOLOGIES,
    "Devices": DEVICES,
    "Disturbances that take a part of a GPU": HOGS,
    "Requested cores": REQUESTS,
    "Disturbances on the virtual clock": HIDDEN,
    "Commands that a strategy needs": UNABLE,
}
"""Rules by their subject, as the page shows them."""
