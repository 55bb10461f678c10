"""What a pattern is."""

from __future__ import annotations

from abc import ABC, abstractmethod

from injectors.plan import ClusterShape, Plan


class Pattern(ABC):
    """A rule by which stragglers come and go: hyper-parameters as dataclass fields, the rule in :meth:`plan`."""

    name: str
    """Stands in the plan and is part of the key of every random stream: two patterns with one name draw alike."""

    @abstractmethod
    def plan(self, cluster: ClusterShape, horizon_s: float, seed: int) -> Plan:
        """Everything that happens on ``cluster`` within ``horizon_s`` seconds; the same for the same arguments.

        Raises ``ValueError`` naming the field that does not fit the cluster or the horizon.
        """
