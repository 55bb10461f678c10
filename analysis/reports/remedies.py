"""The changes that each strategy makes to a job's training, and its needs; in words, for people who choose one."""

from __future__ import annotations

from typing import NamedTuple

from analysis.about import ABOUT


class Remedy(NamedTuple):
    """``changes``: in training, compared with plain synchronous steps; ``needs``: of the job or the cluster."""

    changes: str
    needs: str


NOTHING = "training stays the same"
REMEDIES = {name: Remedy(one.changes, one.needs) for name, one in ABOUT.items() if not one.not_advised}
"""Remedies, each by the name of a strategy's YAML."""
LEFT_OUT = {name: one.not_advised for name, one in ABOUT.items() if one.not_advised}
"""Strategies that are no answer to the question, and why."""
ASYNCHRONOUS = frozenset(name for name, one in ABOUT.items() if one.asynchronous)
"""Strategies whose workers do not wait for all others."""
