"""The lost nodes that have not come back, and their consequence for a job whose time is up (pure).

A job that waits for a worker or server until its time is up has not ended well: its result is from an earlier moment.
It may wait for ``stuck_after_s``, or for half of its time if that is less; a restart that is under way at the end does
not count.
"""

from __future__ import annotations

from strategies.protocol import LossCause, NodeId

OWN = ("restarted", "retired")
"""Causes of losses that the strategy wants."""
NAMED = 4
"""Number of missing nodes that a message names."""


class Missing:
    """Nodes that are lost and awaited, with the time of their loss in seconds."""

    def __init__(self) -> None:
        self.since_s: dict[NodeId, float] = {}

    def lost(self, t: float, node: NodeId, cause: LossCause) -> None:
        """A node is lost; if it dies again before it is back, it has been away since the first time."""
        if cause not in OWN:
            self.since_s.setdefault(node, t)

    def back(self, node: NodeId) -> None:
        """It is there again, or nobody waits for it any more."""
        self.since_s.pop(node, None)

    def idle_s(self, t: float, halted_s: float | None, limit_s: float, after_s: float | None) -> float | None:
        """Seconds for which a job in which nobody computes has waited for them; None: not for too long.

        Args:
            t: now, when its time is up.
            halted_s: since when all work is void; None: it is not.
            limit_s: the job's time.
            after_s: ``stuck_after_s``.
        """
        if not self.since_s or after_s is None:
            return None
        idle_s = t - (min(self.since_s.values()) if halted_s is None else halted_s)
        return idle_s if idle_s >= min(after_s, limit_s / 2) else None

    @property
    def words(self) -> str:
        """In words; empty: nobody is missing."""
        told = [f"{node} was lost at {t:.1f} s and is not back" for node, t in list(self.since_s.items())[:NAMED]]
        return ", ".join(told) + (", and others" if len(self.since_s) > NAMED else "")
