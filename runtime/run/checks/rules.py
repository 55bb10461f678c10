"""All combinations of settings that are refused, in their order; ``docs/combinations.md`` is generated from here."""

from __future__ import annotations

from runtime.config.rules import Rule
from runtime.run.checks.facts import Facts
from runtime.run.checks.topologies import TOPOLOGIES

OF_JOB: tuple[Rule[Facts], ...] = TOPOLOGIES
"""Rules of one job, whatever disturbs it."""
SECTIONS = {"Topologies": TOPOLOGIES}
"""Rules by their subject, as the page shows them."""
