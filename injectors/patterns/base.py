"""The interface of straggler patterns."""

from __future__ import annotations

from abc import ABC, abstractmethod

from injectors.plan import ClusterShape, Plan


class Pattern(ABC):
    """A rule that generates stragglers: hyper-parameters as dataclass fields, the rule in :meth:`plan`."""

    name: str
    """Written into the plan, and part of the key of every random stream: patterns of the same name draw the same."""

    @abstractmethod
    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """All disturbances of ``cluster`` within ``horizon_s`` seconds; equal arguments give equal plans.

        Raises ``ValueError`` naming the field that does not fit the cluster or the horizon.
        """
