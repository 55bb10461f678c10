"""The combinations of one job's settings that are refused, in their order, for ``docs/combinations.md``, too."""

from __future__ import annotations

from runtime.config.rules import Rule
from runtime.run.checks.backends import BACKENDS
from runtime.run.checks.devices import DEVICES
from runtime.run.checks.facts import Facts
from runtime.run.checks.hogs import HOGS
from runtime.run.checks.strategies import STRATEGIES
from runtime.run.checks.topologies import TOPOLOGIES

OF_JOB: tuple[Rule[Facts], ...] = (*BACKENDS, *STRATEGIES, *TOPOLOGIES, *DEVICES)
"""Rules of one job, whatever disturbs it."""
SECTIONS = {
    "Backends, runtimes and records": BACKENDS,
    "Strategies": STRATEGIES,
    "Topologies": TOPOLOGIES,
    "Devices": DEVICES,
    "Disturbances that take a part of a GPU": HOGS,
}
"""Rules by their subject, as the page shows them."""
