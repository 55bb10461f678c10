"""The interface that the automaton of a cluster needs of a runtime."""

from __future__ import annotations

from typing import Protocol

from strategies.protocol import JobState, Places


class ClusterPort(Protocol):
    """Carries out what is decided. Each method may report at once, by ``ClusterCoordinator.receive``."""

    def start(self, job: JobState, places: Places) -> None:
        """Start the job there, or continue it (``job.starts`` > 0); report ``JobStarted``, later ``JobEnded``.

        The runtime determines the cost of a restart: the seconds between this call and ``JobStarted``.
        """

    def preempt(self, job: JobState) -> None:
        """Store the job's progress and end its tasks; report ``JobGone``, or ``JobEnded`` if that came first."""

    def wake(self, at_s: float) -> None:
        """Report ``Woke`` at ``at_s``, which replaces any earlier request; infinity: not at all.

        A report that comes too early is ignored.
        """


class ClusterNote(Protocol):
    """Writes the record of the cluster; :mod:`runtime.core.cluster.coordinator` lists kinds and fields."""

    def __call__(self, t: float, kind: str, /, **fields: object) -> None:
        """Record a fact at ``t`` seconds of the cluster's clock."""
